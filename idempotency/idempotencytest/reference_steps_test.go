package idempotencytest_test

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// age is how long ago the key of a row was first claimed.
func (s *reference) age(r *row) time.Duration {
	if s.has(ageUnknown) {
		return 0
	}
	return s.now().Sub(r.created)
}

// readSteps is what a statement gives back of a row's steps.
func (s *reference) readSteps(steps []idempotency.StepRecord) []idempotency.StepRecord {
	if s.has(stepsShared) {
		return steps
	}
	steps = slices.Clone(steps)
	for i := range steps {
		steps[i].Result = bytes.Clone(steps[i].Result)
	}
	if s.has(stepsByName) {
		slices.SortFunc(steps, func(a, b idempotency.StepRecord) int { return cmp.Compare(a.Name, b.Name) })
	}
	return steps
}

// SaveStep is one upsert on the condition that the claim is its owner's.
func (s *reference) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	if err := s.step(ctx, "step"); err != nil {
		return err
	}
	k := s.idOf(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.has(locksIgnored) {
		if err := s.wait(k, nil); err != nil {
			return err
		}
	}
	r := s.rows[k]
	if !s.ownsStep(r, c) {
		return &idempotency.LostError{Claim: c, Superseded: !s.has(stepLostLightly)}
	}
	if s.has(stepLooksFirst) || s.has(stepWritesRow) {
		s.mu.Unlock()
		err := s.step(ctx, "step.write")
		s.mu.Lock()
		if err != nil {
			return err
		}
		if s.has(stepLooksFirst) {
			r = s.rows[k]
		}
	}
	for _, other := range s.alike(k, r) {
		s.rows[other] = s.stepped(s.rows[other], step)
	}
	s.rows[k] = s.stepped(r, step)
	return nil
}

// alike are the other rows that a WHERE without the key, or without the scope, means too.
func (s *reference) alike(k rowID, r *row) []rowID {
	var others []rowID
	for other, o := range s.rows {
		same := s.has(keyForgotten) && other.scope == k.scope || s.has(scopeForgotten) && other.key == k.key
		if same && other != k && o.State == r.State && o.Token == r.Token && o.Attempt == r.Attempt {
			others = append(others, other)
		}
	}
	return others
}

func (s *reference) ownsStep(r *row, c idempotency.Claim) bool {
	switch {
	case r == nil, r.Token != c.Token && !s.has(stepAnyToken), r.Attempt != c.Attempt && !s.has(stepAnyAttempt),
		r.State != idempotency.InFlight && !s.has(stepAnyState),
		s.has(stepNeedsLease) && s.read(r).Expired():
		return false
	}
	return true
}

// stepped is a row with one more step, or with another value of one.
func (s *reference) stepped(r *row, step idempotency.StepRecord) *row {
	if !s.has(stepsShared) {
		step.Result = bytes.Clone(step.Result)
	}
	if s.has(stepAsText) {
		step.Result = bytes.ToValidUTF8(step.Result, []byte("\uFFFD"))
	}
	saved := *r
	saved.Steps = slices.Clone(r.Steps)
	at := slices.IndexFunc(saved.Steps, func(known idempotency.StepRecord) bool {
		if s.has(stepNameFolded) {
			return strings.EqualFold(known.Name, step.Name)
		}
		return known.Name == step.Name
	})
	if at >= 0 {
		if late := len(step.Result) == 0 && len(saved.Steps[at].Result) > 0; late && !s.has(stepUndone) {
			step.Result = saved.Steps[at].Result
			if !s.has(stepResultOnly) {
				step.Sent = saved.Steps[at].Sent
			}
		}
		switch {
		case s.has(stepSentSticks) && saved.Steps[at].Sent:
			step.Sent = true
		case s.has(stepKeptAsItWas):
			step = saved.Steps[at]
		case s.has(stepMoves):
			saved.Steps, at = slices.Delete(saved.Steps, at, at+1), -1
		}
	}
	if at < 0 || s.has(stepAppended) {
		saved.Steps = append(saved.Steps, step)
	} else {
		saved.Steps[at] = step
	}
	return &saved
}

// letGo is the row of a claim whose owner lets it go.
func (s *reference) letGo(r *row, lost error) (*row, error) {
	let, now := *r, s.now()
	expired := !now.Before(r.expires)
	let.State = idempotency.InFlight
	switch {
	case s.has(letGoOnce) && expired:
		return nil, lost
	case s.has(letGoIgnored):
	case s.has(letGoUnknown):
		let.State = idempotency.Unknown
	case !expired || s.has(letGoLater):
		let.expires = now
	}
	return &let, nil
}

// checkWindow asks what a statement's WHERE says of a time-ordered key.
func (s *reference) checkWindow(a idempotency.Attempt, tx *refTx, statement string) error {
	switch {
	case s.has(windowIgnored), s.has(windowOfNewOnly) && statement == "take", s.has(windowApartFromTx) && tx != nil:
		return nil
	case s.has(windowByHost):
		return a.CheckWindow(time.Now())
	}
	return a.CheckWindow(s.now())
}

// refused answers an attempt that is outside of its window.
func (s *reference) refused(err error) (idempotency.Claimed, bool, error) {
	if s.has(windowFailsAll) {
		return idempotency.Claimed{}, false, err
	}
	return idempotency.Claimed{Err: err}, true, nil
}
