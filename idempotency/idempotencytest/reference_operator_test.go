package idempotencytest_test

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// List is one statement.
func (s *reference) List(ctx context.Context, f idempotency.Filter) ([]idempotency.Record, error) {
	if err := s.step(ctx, "list"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []idempotency.Record
	for k, r := range s.rows {
		if rec := s.read(r); s.listed(k, rec, f) {
			if s.has(listWithoutSteps) {
				rec.Steps = nil
			}
			all = append(all, rec)
		}
	}
	slices.SortFunc(all, func(a, b idempotency.Record) int {
		if s.has(listFolded) {
			a.Request.Scope, a.Request.Key = strings.ToLower(a.Request.Scope), strings.ToLower(a.Request.Key)
			b.Request.Scope, b.Request.Key = strings.ToLower(b.Request.Scope), strings.ToLower(b.Request.Key)
		}
		return cmp.Or(cmp.Compare(a.Request.Scope, b.Request.Scope), cmp.Compare(a.Request.Key, b.Request.Key))
	})
	if s.has(listUnlimited) {
		return all, nil
	}
	return all[:min(f.Limit, len(all))], nil
}

// listed is the WHERE of List.
func (s *reference) listed(k rowID, rec idempotency.Record, f idempotency.Filter) bool {
	after := cmp.Or(cmp.Compare(k.scope, f.AfterScope), cmp.Compare(k.key, f.AfterKey))
	switch {
	case s.has(listAfterScope): // the rest of the last page's scope is left out
		after = cmp.Compare(k.scope, f.AfterScope)
	case s.has(listAfterEach): // both must be greater
		if k.scope <= f.AfterScope || k.key <= f.AfterKey {
			return false
		}
	}
	if after < 0 || after == 0 && !s.has(listFromLast) {
		return false
	}
	open := rec.State == idempotency.Unknown || rec.Expired()
	switch {
	case s.has(listOmitsExpired):
		open = rec.State == idempotency.Unknown
	case s.has(listCallsLiveOpen):
		open = open || rec.State == idempotency.InFlight
	}
	return (f.Scope == "" || k.scope == f.Scope || s.has(listAnyScope)) &&
		(!f.Unresolved || open) &&
		(rec.Age >= f.OlderThan || s.has(listAnyAge))
}

// Resolve is a look and a write under the row's lock.
func (s *reference) Resolve(ctx context.Context, r idempotency.Resolution) error {
	if err := s.step(ctx, "resolve"); err != nil {
		return err
	}
	k := s.id(r.Scope, r.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has(locksIgnored) {
		if err := s.wait(k, nil); err != nil {
			return err
		}
	}
	row := s.rows[k]
	if row == nil {
		return idempotency.ErrNotFound
	}
	refusal := s.undecidable(row, r)
	if refusal != nil && !s.has(auditsRefused) {
		return refusal
	}
	if s.has(resolvesWhatItSaw) {
		s.mu.Unlock()
		err := s.step(ctx, "resolve.write")
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	decided := s.decided(row, r)
	if !s.has(auditForgotten) {
		s.note(k, idempotency.Decision{At: s.now(), By: r.By, Note: r.Note, From: row.State, To: decided.State, Token: decided.Token})
	}
	if refusal != nil {
		return refusal
	}
	for _, other := range s.alike(k, row) {
		s.rows[other] = s.decided(s.rows[other], r)
	}
	s.rows[k] = decided
	return nil
}

func (s *reference) undecidable(row *row, r idempotency.Resolution) error {
	rec := s.read(row)
	open := rec.State == idempotency.Unknown || rec.Expired()
	switch {
	case s.has(resolvesLive):
		open = open || rec.State == idempotency.InFlight
	case s.has(resolvesDone):
		open = open || rec.State == idempotency.Done
	case s.has(resolvesUnknownOnly):
		open = rec.State == idempotency.Unknown
	}
	if !open || r.Token != 0 && r.Token != rec.Token && !s.has(resolvesAnyToken) {
		return &idempotency.DecidedError{Record: rec}
	}
	return nil
}

// note keeps a decision.
func (s *reference) note(k rowID, d idempotency.Decision) {
	if s.has(auditByKey) {
		k.scope = ""
	}
	if s.has(auditReversed) {
		s.audit[k] = append([]idempotency.Decision{d}, s.audit[k]...)
		return
	}
	s.audit[k] = append(s.audit[k], d)
}

// decided is a row after a decision.
func (s *reference) decided(before *row, r idempotency.Resolution) *row {
	d := *before
	d.changed = s.now()
	if !s.has(resolveKeepsToken) {
		d.Token++
	}
	if !s.has(resolveKeepsAttempt) {
		d.Attempt = ""
	}
	if r.Response != nil {
		d.State, d.Response = idempotency.Done, s.kept(*r.Response)
		return &d
	}
	d.State = idempotency.Free
	if !s.has(freedKeepsSteps) {
		d.Steps = nil
	}
	return &d
}

// Audit is one statement.
func (s *reference) Audit(ctx context.Context, scope, key string) ([]idempotency.Decision, error) {
	if err := s.step(ctx, "audit"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.id(scope, key)
	if s.has(auditByKey) {
		k.scope = ""
	}
	return slices.Clone(s.audit[k]), nil
}

// Erase is one statement.
func (s *reference) Erase(ctx context.Context, scope string, limit int) (int, error) {
	if err := s.step(ctx, "erase"); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	erased := 0
	for k, r := range s.rows {
		below := s.has(erasesBelow) && strings.HasPrefix(k.scope, scope)
		if (k.scope != scope && !below) ||
			r.State != idempotency.Done && !s.has(erasesOpen) || s.isBare(r) {
			continue
		}
		if erased == limit && !s.has(erasesAll) {
			break
		}
		erased++
		if s.has(eraseDeletes) {
			delete(s.rows, k)
			continue
		}
		bare := *r
		bare.Response = idempotency.Response{Status: r.Response.Status, NotReplayable: !s.has(erasedReplays)}
		if !s.has(eraseLeavesSteps) {
			bare.Steps = nil
		}
		s.rows[k] = &bare
	}
	return erased, nil
}

// isBare says that there is nothing left to erase.
func (s *reference) isBare(r *row) bool {
	if s.has(erasesAgain) {
		return false
	}
	return r.Response.NotReplayable && (len(r.Steps) == 0 || s.has(eraseByAnswer))
}
