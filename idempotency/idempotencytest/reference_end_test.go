package idempotencytest_test

import (
	"bytes"
	"context"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Renew is one conditional update per claim.
func (s *reference) Renew(ctx context.Context, claims []idempotency.Claim, lease time.Duration) ([]error, error) {
	errs := make([]error, len(claims))
	for i, c := range claims {
		if err := s.step(ctx, "renew"); err != nil {
			return nil, err
		}
		var seen *row
		if s.has(renewWritesRow) {
			s.mu.Lock()
			seen = s.rows[s.idOf(c)]
			s.mu.Unlock()
			if err := s.step(ctx, "renew.write"); err != nil {
				return nil, err
			}
		}
		errs[i] = s.renew(c, lease, seen)
	}
	if s.has(batchReversed) {
		slices.Reverse(errs)
	}
	return errs, nil
}

func (s *reference) renew(c idempotency.Claim, lease time.Duration, seen *row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.idOf(c)
	if err := s.wait(k, nil); err != nil {
		return err
	}
	r := s.rows[k]
	if seen != nil {
		r = seen
	}
	switch {
	case r == nil, r.Token != c.Token && !s.has(renewsAnyToken), r.Attempt != c.Attempt && !s.has(renewsAnyAttempt):
		return &idempotency.LostError{Claim: c, Superseded: true}
	case r.State != idempotency.InFlight && !s.has(renewsAnyState),
		!s.now().Before(r.expires) && !s.has(renewRevives):
		return &idempotency.LostError{Claim: c, Superseded: r.State == idempotency.Done || s.has(expiredIsSuperseded)}
	}
	renewed := *r
	renewed.expires = s.now().Add(s.lease(lease))
	switch {
	case s.has(renewAdds):
		renewed.expires = r.expires.Add(lease)
	case s.has(renewDoesNothing):
		renewed.expires = r.expires
	case s.has(renewsAnyState):
		renewed.State = idempotency.InFlight
	}
	for _, other := range s.alike(k, r) {
		moved := *s.rows[other]
		moved.expires = renewed.expires
		s.rows[other] = &moved
	}
	s.rows[k] = &renewed
	return nil
}

// Complete is one conditional update per claim.
func (s *reference) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	errs := make([]error, len(completions))
	ended := map[idempotency.Claim]bool{}
	for i, c := range completions {
		if s.has(batchEndsOnce) && ended[c.Claim] {
			continue
		}
		ended[c.Claim] = true
		if err := s.step(ctx, "complete"); err != nil {
			return nil, err
		}
		var seen *row
		if s.has(completeWritesRow) {
			s.mu.Lock()
			seen = s.rows[s.idOf(c.Claim)]
			s.mu.Unlock()
			if err := s.step(ctx, "complete.write"); err != nil {
				return nil, err
			}
		}
		errs[i] = s.complete(c, seen)
	}
	if s.has(batchReversed) {
		slices.Reverse(errs)
	}
	return errs, nil
}

func (s *reference) complete(c idempotency.Completion, seen *row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.idOf(c.Claim)
	if !s.has(locksIgnored) {
		if err := s.wait(k, nil); err != nil {
			return err
		}
	}
	r := s.rows[k]
	if seen != nil {
		r = seen
	}
	if s.has(claimAfterWork) && r == nil {
		r = s.claimedBy(idempotency.Attempt{ID: c.Claim.Attempt, Request: idempotency.Request{
			Scope: c.Claim.Scope, Key: c.Claim.Key, Fingerprint: idempotency.FingerprintOf("POST", "/charges", "the body"),
		}}, nil)
	}
	done, err := s.completed(r, c)
	if err == nil {
		for _, other := range s.alike(k, r) {
			moved := *s.rows[other]
			moved.State, moved.Response, moved.expires = done.State, done.Response, done.expires
			s.rows[other] = &moved
		}
		s.rows[k] = done
	}
	return err
}

// completed is the row after a completion, if that is its owner's and not too late.
func (s *reference) completed(r *row, c idempotency.Completion) (*row, error) {
	lost := &idempotency.LostError{Claim: c.Claim, Superseded: true}
	if r == nil {
		return nil, lost
	}
	if s.has(letGoBlind) && c.State == idempotency.InFlight {
		return s.letGo(r, lost)
	}
	if !s.has(completesBlindly) {
		switch {
		case r.Token != c.Claim.Token && !s.has(completesAnyToken), r.Attempt != c.Claim.Attempt && !s.has(completesAnyAttempt):
			return nil, lost
		case c.State == idempotency.InFlight && (r.State == idempotency.InFlight || r.State == idempotency.Unknown):
			return s.letGo(r, lost)
		case r.State == c.State && !s.has(answersAgain):
			if s.has(secondRefused) {
				return nil, lost
			}
			return r, nil
		case r.State != idempotency.InFlight && r.State != idempotency.Unknown && !s.has(completesAnyState) && !s.has(answersAgain),
			r.State == idempotency.Unknown && s.has(unknownIsFinal),
			r.State == idempotency.InFlight && !s.now().Before(r.expires) && s.has(lateRefused):
			return nil, lost
		}
	}
	done := *r
	done.State, done.Response, done.changed = c.State, s.kept(c.Response), s.now()
	return &done, nil
}

// kept is what is stored of an answer.
func (s *reference) kept(r idempotency.Response) idempotency.Response {
	if s.has(answerShared) {
		return r
	}
	r = cloned(r)
	switch s.fault {
	case statusLost:
		if r.Status > 200 && r.Status < 300 {
			r.Status = 200
		}
	case headersJoined:
		for name, values := range r.Header {
			r.Header[name] = []string{strings.Join(values, ", ")}
		}
	case headersSplit:
		for name, values := range r.Header {
			r.Header[name] = strings.Split(strings.Join(values, ", "), ", ")
		}
	case headersRenamed:
		for name, values := range r.Header {
			delete(r.Header, name)
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	case bodyAsText:
		r.Body = bytes.ToValidUTF8(r.Body, []byte("\uFFFD"))
	case bodyCutAtNUL:
		r.Body, _, _ = bytes.Cut(r.Body, []byte{0})
	case bodyCut:
		r.Body = r.Body[:min(len(r.Body), 1<<16-1)]
	case bodyTrimmed:
		r.Body = bytes.TrimSpace(r.Body)
	case notReplayableLost:
		r.NotReplayable = false
	}
	return r
}

// claimAfterLook is check-then-act: what it saw may be gone when it writes.
func (s *reference) claimAfterLook(ctx context.Context, a idempotency.Attempt) (idempotency.Claimed, error) {
	k := s.id(a.Request.Scope, a.Request.Key)
	if err := s.step(ctx, "claim.look"); err != nil {
		return idempotency.Claimed{}, err
	}
	s.mu.Lock()
	seen := s.rows[k]
	s.mu.Unlock()
	if seen != nil {
		if rec := s.read(seen); s.judge(rec, a) != idempotency.Take {
			return idempotency.Claimed{Won: s.judge(rec, a) == idempotency.Mine, Record: rec}, nil
		}
	}
	if err := s.step(ctx, "claim.write"); err != nil {
		return idempotency.Claimed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	won := s.claimedBy(a, seen)
	s.rows[k] = won
	return idempotency.Claimed{Won: true, Record: s.read(won)}, nil
}

// claimByOneLook judges a whole batch by what was there before it.
func (s *reference) claimByOneLook(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if err := s.step(ctx, "claim"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]idempotency.Claimed, len(attempts))
	before := map[rowID]*row{}
	for _, a := range attempts {
		k := s.id(a.Request.Scope, a.Request.Key)
		before[k] = s.rows[k]
	}
	for i, a := range attempts {
		k := s.id(a.Request.Scope, a.Request.Key)
		if r := before[k]; r != nil && s.judge(s.read(r), a) != idempotency.Take {
			answers[i] = idempotency.Claimed{Won: s.judge(s.read(r), a) == idempotency.Mine, Record: s.read(r)}
			continue
		}
		s.rows[k] = s.claimedBy(a, before[k])
		answers[i] = idempotency.Claimed{Won: true, Record: s.read(s.rows[k])}
	}
	return answers, nil
}

// claimUnderLocks takes the locks of a batch in the order of its members.
func (s *reference) claimUnderLocks(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	tx := s.begin()
	defer tx.end()
	answers := make([]idempotency.Claimed, len(attempts))
	for i, a := range attempts {
		k := s.id(a.Request.Scope, a.Request.Key)
		if err := s.step(ctx, "claim.lock"); err != nil {
			return nil, err
		}
		s.mu.Lock()
		err := s.wait(k, tx)
		if err == nil {
			s.locks[k], tx.held[k] = tx, true
		}
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if answers[i], err = s.claim(ctx, a, tx); err != nil {
			return nil, err
		}
	}
	tx.commit()
	return answers, nil
}
