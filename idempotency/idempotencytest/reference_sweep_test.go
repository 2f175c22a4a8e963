package idempotencytest_test

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// floorAhead is the floor as a statement of its own reads it, or -1 where the insert reads it, as it must.
func (s *reference) floorAhead(ctx context.Context) (int64, error) {
	if !s.has(floorReadEarly) {
		return -1, nil
	}
	if err := s.step(ctx, "claim.floor"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor, nil
}

// Sweep chooses rows in one statement, and changes in the next those that are still what they were.
func (s *reference) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (int, error) {
	if err := s.step(ctx, "sweep.choose"); err != nil {
		return 0, err
	}
	retained, buried := s.now().Add(-retention), s.now().Add(-tombstone)
	if s.has(retentionForAll) {
		buried = retained
	}
	chosen := s.chooseDue(retained, buried, limit)
	if err := s.step(ctx, "sweep.write"); err != nil {
		return 0, err
	}
	removed, floor := s.sweep(chosen, retained, buried)
	if s.has(floorRaisedLate) {
		if err := s.step(ctx, "sweep.floor"); err != nil {
			return 0, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.floor = max(s.floor, floor)
	}
	if s.has(sweepCountsChosen) {
		removed = len(chosen)
	}
	return removed, nil
}

func (s *reference) chooseDue(retained, buried time.Time, limit int) []rowID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []rowID
	kinds := map[idempotency.State]int{}
	for k, r := range s.rows {
		forgotten := s.has(freeForgotten) && s.passedBy[k] == r
		switch {
		case s.heldBy(k, nil):
			s.passedBy[k] = r
		case s.due(r, retained, buried) && !forgotten:
			chosen = append(chosen, k)
		}
	}
	slices.SortFunc(chosen, func(a, b rowID) int { return cmp.Or(cmp.Compare(a.scope, b.scope), cmp.Compare(a.key, b.key)) })
	switch {
	case s.has(limitIgnored):
		return chosen
	case s.has(limitOfEachKind):
		return slices.DeleteFunc(chosen, func(k rowID) bool {
			kinds[s.rows[k].State]++
			return kinds[s.rows[k].State] > limit
		})
	}
	return chosen[:min(limit, len(chosen))]
}

// due says that a row's time is over.
func (s *reference) due(r *row, retained, buried time.Time) bool {
	from := r.changed
	if s.has(retentionFromClaim) {
		from = r.created
	}
	switch r.State {
	case idempotency.Tombstone:
		if r.made.After(from) && !s.has(madeIgnored) {
			from = r.made
		}
		return !from.After(buried)
	case idempotency.Done:
		return !from.After(retained)
	case idempotency.Free:
		return !from.After(retained) && !s.has(freeStays)
	case idempotency.InFlight:
		return !from.After(retained) && (s.has(sweepsExpired) && s.read(r).Expired() || s.has(sweepsInFlight))
	default:
		return !from.After(retained) && s.has(sweepsUnknown)
	}
}

// sweep changes what was chosen and is still due. It raises the floor in the same instant.
func (s *reference) sweep(chosen []rowID, retained, buried time.Time) (removed int, floor int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range chosen {
		r := s.rows[k]
		if r == nil || (s.heldBy(k, nil) || !s.due(r, retained, buried)) && !s.has(sweepsBlindly) {
			continue
		}
		removed++
		if r.State == idempotency.Done && !s.has(doneDeleted) || r.State == idempotency.Free && s.has(freeBuried) {
			s.rows[k] = s.buried(r)
			continue
		}
		delete(s.rows, k)
		if s.has(stepsOutlive) {
			s.orphans[k] = r.Steps
		}
		floor = max(floor, r.Token)
		if !s.has(floorForgotten) && !s.has(floorRaisedLate) {
			s.floor = max(s.floor, r.Token)
		}
	}
	return removed, floor
}

// buried is the tombstone of a row.
func (s *reference) buried(r *row) *row {
	t := *r
	t.State = idempotency.Tombstone
	if !s.has(answerBuried) {
		t.Response = idempotency.Response{}
	}
	if !s.has(stepsBuried) {
		t.Steps = nil
	}
	switch {
	case s.has(tombstoneAnew):
		t.changed = s.now()
	case s.has(intentForgotten):
		t.Request.Fingerprint = ""
	}
	return &t
}
