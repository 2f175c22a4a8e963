package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// sentTwice is a race of an attempt with itself, as when its first message is late and it is sent again.
func (w *world) sentTwice(a idempotency.Attempt, before int64) interleave.Case {
	results := make([]asked, 2)
	return interleave.Case{
		Callers: []func(context.Context){w.claims(a, &results[0]), w.claims(a, &results[1])},
		Check: func() error {
			for i, r := range results {
				if r.err != nil {
					return fmt.Errorf("sending %d: Claim: %w", i, r.err)
				}
				if !r.got.Won {
					return fmt.Errorf("sending %d did not win; it was told of %v", i, show(r.got.Record))
				}
				if problem := wrongWinner(r.got.Record, a); problem != "" {
					return fmt.Errorf("sending %d won, but %s", i, problem)
				}
			}
			first, second := results[0].got.Record, results[1].got.Record
			if first.Token != second.Token {
				return fmt.Errorf("the two sendings have tokens %d and %d", first.Token, second.Token)
			}
			if first.Token <= before {
				return fmt.Errorf("the token is %d, after %d", first.Token, before)
			}
			return w.mustBe(first)
		},
	}
}

// heldUpAgainstEnd is a race of a claim that was sent twice, and whose second message is late, with the end
// of its owner's work as state.
func (w *world) heldUpAgainstEnd(state idempotency.State) interleave.Case {
	a := resumable(w.request())
	rec := w.win(a)
	want := ended(rec, state, "the answer")
	var late asked
	var completed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.claims(a, &late),
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: state, Response: want.Response}, &completed),
		},
		Check: func() error {
			if late.err != nil || completed != nil {
				return fmt.Errorf("Claim: %w, Complete: %w", late.err, completed)
			}
			told := want
			if late.got.Won {
				told = rec
			}
			if problem := different(late.got.Record, told); problem != "" {
				return fmt.Errorf("the late claim, won %v, was told: %s", late.got.Won, problem)
			}
			return w.mustBe(want)
		},
	}
}

// heldUpAgainstTakeover is a race of an owner's own claim, sent again after its expiry, with a takeover.
func (w *world) heldUpAgainstTakeover() interleave.Case {
	mine := resumable(w.request())
	rec := w.expired(mine)
	taker := resumable(rec.Request)
	var late, took asked
	return interleave.Case{
		Callers: []func(context.Context){w.claims(mine, &late), w.claims(taker, &took)},
		Check: func() error {
			if late.err != nil {
				return fmt.Errorf("the late claim: %w", late.err)
			}
			if late.got.Won {
				return fmt.Errorf("the late claim won: %v", show(late.got.Record))
			}
			if different(late.got.Record, rec) != "" && different(late.got.Record, took.got.Record) != "" {
				return fmt.Errorf("the late claim was told of %v", show(late.got.Record))
			}
			return w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took})
		},
	}
}

// takeoverAgainst is a race of a takeover with the old owner's completion as state.
func (w *world) takeoverAgainst(state idempotency.State) interleave.Case {
	rec := w.expired(resumable(w.request()))
	want := ended(rec, state, "late")
	taker := resumable(rec.Request)
	var took asked
	var completed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.claims(taker, &took),
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: state, Response: want.Response}, &completed),
		},
		Check: func() error {
			if took.err != nil {
				return fmt.Errorf("the takeover: %w", took.err)
			}
			if took.got.Won {
				if err := refused(completed, true); err != nil {
					return fmt.Errorf("the key was taken over, and the old owner's completion %w", err)
				}
				return w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took})
			}
			if completed != nil {
				return fmt.Errorf("the key was not taken over, and the old owner's completion got %w", completed)
			}
			if problem := different(took.got.Record, want); problem != "" {
				return fmt.Errorf("the taker was told: %s", problem)
			}
			return w.mustBe(want)
		},
	}
}

// takeoverAgainstSuccessor is a race of a takeover with an owner that frees its expired key, upon which
// another intent claims the key and its claim expires too: in flight and expired, like before, and yet
// nobody may take it.
func (w *world) takeoverAgainstSuccessor() interleave.Case {
	rec := w.expired(resumable(w.request()))
	taker, next := resumable(rec.Request), attempt(otherIntent(rec.Request))
	next.Lease = shortLease
	var took, succeeded asked
	var freed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.claims(taker, &took),
			func(ctx context.Context) {
				freed = w.completeOne(ctx, idempotency.Completion{Claim: claimOf(rec), State: idempotency.Free})
				if freed != nil {
					return
				}
				succeeded.got, succeeded.err = w.claimOne(ctx, next)
				if succeeded.err == nil && succeeded.got.Won {
					_, succeeded.err = w.runsOut(rec.Request, shortLease)
				}
			},
		},
		Check: func() error {
			if took.err != nil || succeeded.err != nil {
				return errors.Join(took.err, succeeded.err)
			}
			if succeeded.got.Won && took.got.Won {
				return fmt.Errorf("the taker won with token %d over the other intent's %d", took.got.Record.Token, succeeded.got.Record.Token)
			}
			if succeeded.got.Won {
				return w.mustBe(succeeded.got.Record)
			}
			return w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took})
		},
	}
}

// claimAgainstFree is a race of a claim with the completion that frees the key.
func (w *world) claimAgainstFree() interleave.Case {
	rec := w.win(attempt(w.request()))
	next := attempt(rec.Request)
	var claimed asked
	var freed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.claims(next, &claimed),
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Free}, &freed),
		},
		Check: func() error {
			if freed != nil || claimed.err != nil {
				return errors.Join(freed, claimed.err)
			}
			if claimed.got.Won {
				return w.oneWinner(rec.Token, []idempotency.Attempt{next}, []asked{claimed})
			}
			if problem := different(claimed.got.Record, rec); problem != "" {
				return fmt.Errorf("the claim was told: %s", problem)
			}
			return w.mustBe(ended(rec, idempotency.Free, ""))
		},
	}
}

// crossingBatches is a race of two batches that claim, and then complete, the same keys in opposite order.
func (w *world) crossingBatches() interleave.Case {
	reqs := []idempotency.Request{w.request(), w.request()}
	held := w.claimAll([]idempotency.Attempt{attempt(w.request()), attempt(w.request())})
	var attempts [2][]idempotency.Attempt
	var answers [2][]idempotency.Claimed
	var errs [2]error
	caller := func(n int) func(ctx context.Context) {
		first, second := n, 1-n
		attempts[n] = []idempotency.Attempt{attempt(reqs[0]), attempt(reqs[1])}
		return func(ctx context.Context) {
			got, err := w.store.Claim(ctx, []idempotency.Attempt{attempts[n][first], attempts[n][second]})
			if err == nil && len(got) != len(reqs) {
				err = fmt.Errorf("Claim gave %d answers for %d attempts", len(got), len(reqs))
			}
			if err != nil {
				errs[n] = err
				return
			}
			answers[n] = make([]idempotency.Claimed, len(reqs))
			answers[n][first], answers[n][second] = got[0], got[1]
			errs[n] = w.endBoth(ctx, held[first].Record, held[second].Record)
		}
	}
	return interleave.Case{
		Callers: []func(context.Context){caller(0), caller(1)},
		Check: func() error {
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			for i := range reqs {
				results := []asked{{answers[0][i], answers[0][i].Err}, {answers[1][i], answers[1][i].Err}}
				if err := w.oneWinner(0, []idempotency.Attempt{attempts[0][i], attempts[1][i]}, results); err != nil {
					return fmt.Errorf("key %d: %w", i, err)
				}
			}
			return errors.Join(
				w.mustBe(ended(held[0].Record, idempotency.Unknown, "")), w.mustBe(ended(held[1].Record, idempotency.Unknown, "")),
			)
		},
	}
}

// endBoth completes two claims in one batch.
func (w *world) endBoth(ctx context.Context, first, second idempotency.Record) error {
	got, err := w.store.Complete(ctx, []idempotency.Completion{
		{Claim: claimOf(first), State: idempotency.Unknown},
		{Claim: claimOf(second), State: idempotency.Unknown},
	})
	if err != nil {
		return fmt.Errorf("Complete: %w", err)
	}
	return errors.Join(got...)
}
