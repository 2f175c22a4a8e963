package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// letting is the completion that lets the claim of rec go.
func letting(rec idempotency.Record) idempotency.Completion {
	return idempotency.Completion{Claim: claimOf(rec), State: idempotency.InFlight}
}

// letGo lets the claim of rec go; the store must accept it.
func (w *world) letGo(rec idempotency.Record) {
	w.Helper()
	if err := w.completeOne(w.ctx, letting(rec)); err != nil {
		w.Fatalf("letting go: %v", err)
	}
}

// expires fails the case unless the claim of rec is there, and has expired.
func (w *world) hasExpired(rec idempotency.Record) {
	w.Helper()
	w.is(rec)
	if now := w.find(rec.Request); !now.Expired() {
		w.Errorf("it has not expired: %v left", now.ExpiresIn)
	}
}

var letGoCases = []claim{
	{"a claim that is let go has expired, and keeps its owner and its steps", func(w *world) {
		for _, a := range []idempotency.Attempt{attempt(w.request()), resumable(w.request())} {
			rec := w.save(w.win(a), finished("a", "1"), sent("b"))
			w.letGo(rec)
			w.hasExpired(rec)
		}
	}},
	{"a claim that was let go is taken at once by the next that can resume, and by no other", func(w *world) {
		rec := w.save(w.win(resumable(w.request())), finished("a", "1"))
		w.letGo(rec)
		for _, a := range []idempotency.Attempt{attempt(rec.Request), resumable(otherIntent(rec.Request))} {
			if problem := different(w.lose(a), rec); problem != "" {
				w.Errorf("it was told: %s", problem)
			}
		}
		taker := w.win(resumable(rec.Request))
		if taker.Token <= rec.Token || taker.Expired() {
			w.Errorf("the taker has %v, after token %d", show(taker), rec.Token)
		}
		w.is(taker)
		w.refusesStranger(claimOf(rec), taker)
	}},
	{"a claim that can't be resumed and was let go is taken by nobody", func(w *world) {
		rec := w.win(attempt(w.request()))
		w.letGo(rec)
		for _, a := range []idempotency.Attempt{attempt(rec.Request), resumable(rec.Request)} {
			w.lose(a)
		}
		w.hasExpired(rec)
	}},
	{"letting go twice is fine, and moves no expiry into the future", func(w *world) {
		rec := w.win(resumable(w.request()))
		for range 2 {
			w.letGo(rec)
			w.hasExpired(rec)
		}
		over := w.expired(resumable(w.request()))
		w.pass(shortAge)
		before := w.find(over.Request).ExpiresIn
		w.letGo(over)
		if left := w.find(over.Request).ExpiresIn; left > before {
			w.Errorf("letting go of an expired claim moved the time that is left from %v to %v", before, left)
		}
		w.hasExpired(over)
	}},
	{"an owner that let go may still tell its result, and is not revived by a renewal", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			rec := w.win(resumable(w.request()))
			w.letGo(rec)
			if err := refused(w.renewOne(w.ctx, claimOf(rec), longLease), false); err != nil {
				w.Errorf("Renew: %v", err)
			}
			w.hasExpired(rec)
			want := ended(rec, state, "late")
			w.complete(rec, state, want.Response)
			w.is(want)
		}
	}},
	{"letting go takes no answer back", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free} {
			rec := w.win(resumable(w.request()))
			want := ended(rec, state, "the answer")
			w.complete(rec, state, want.Response)
			// Whether the store says that it was too late is its own affair, as for any other completion.
			_ = w.completeOne(w.ctx, letting(rec))
			w.is(want)
		}
	}},
	{"in every order a claim that is being let go is taken by the next, or is still in flight", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(resumable(w.request()))
			next := resumable(rec.Request)
			var claimed asked
			var let error
			return interleave.Case{
				Callers: []func(context.Context){w.claims(next, &claimed), w.completes(letting(rec), &let)},
				Check: func() error {
					if let != nil || claimed.err != nil {
						return errors.Join(let, claimed.err)
					}
					if claimed.got.Won {
						return w.oneWinner(rec.Token, []idempotency.Attempt{next}, []asked{claimed})
					}
					if problem := different(claimed.got.Record, rec); problem != "" {
						return fmt.Errorf("the claim was told: %s", problem)
					}
					return w.mustHaveExpired(rec)
				},
			}
		})
	}},
	{"in every order letting go a second time leaves the taker alone", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(resumable(w.request()))
			w.letGo(rec)
			taker := resumable(rec.Request)
			var took asked
			var again error
			return interleave.Case{
				Callers: []func(context.Context){w.claims(taker, &took), w.completes(letting(rec), &again)},
				Check: func() error {
					if again != nil && !errors.Is(again, idempotency.ErrLost) {
						return fmt.Errorf("letting go again: %w", again)
					}
					if err := w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took}); err != nil {
						return err
					}
					now, err := w.record(rec.Request)
					if err == nil && now.Expired() {
						err = errors.New("the taker's claim was let go")
					}
					return err
				},
			}
		})
	}},
	{"in every order a claim that is let go is not revived by its renewal", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(resumable(w.request()))
			var renewed, let error
			return interleave.Case{
				Callers: []func(context.Context){w.renews(claimOf(rec), &renewed), w.completes(letting(rec), &let)},
				Check: func() error {
					if let != nil || renewed != nil && !errors.Is(renewed, idempotency.ErrLost) {
						return errors.Join(let, renewed)
					}
					return w.mustHaveExpired(rec)
				},
			}
		})
	}},
}

// mustHaveExpired says what is wrong with the record of a claim that was let go.
func (w *world) mustHaveExpired(rec idempotency.Record) error {
	if err := w.mustBe(rec); err != nil {
		return err
	}
	now, err := w.record(rec.Request)
	if err == nil && !now.Expired() {
		err = fmt.Errorf("the claim has %v left", now.ExpiresIn)
	}
	return err
}
