package idempotencytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// asked is what one caller of a race got.
type asked struct {
	got idempotency.Claimed
	err error
}

// claims is a caller that claims for a.
func (w *world) claims(a idempotency.Attempt, to *asked) func(ctx context.Context) {
	return func(ctx context.Context) { to.got, to.err = w.claimOne(ctx, a) }
}

// completes is a caller that ends a claim.
func (w *world) completes(c idempotency.Completion, to *error) func(ctx context.Context) {
	return func(ctx context.Context) { *to = w.completeOne(ctx, c) }
}

// renews is a caller that renews a claim.
func (w *world) renews(c idempotency.Claim, to *error) func(ctx context.Context) {
	return func(ctx context.Context) { *to = w.renewOne(ctx, c, longLease) }
}

// record is Find for the check of a race.
func (w *world) record(req idempotency.Request) (idempotency.Record, error) {
	rec, err := w.store.Find(w.ctx, req.Scope, req.Key)
	if err != nil {
		return rec, fmt.Errorf("Find: %w", err)
	}
	return rec, nil
}

// mustBe says what is wrong with the record of want's key.
func (w *world) mustBe(want idempotency.Record) error {
	rec, err := w.record(want.Request)
	if err != nil {
		return err
	}
	if problem := cmp.Or(different(rec, want), differentSteps(rec.Steps, want.Steps)); problem != "" {
		return errors.New("the record: " + problem)
	}
	return nil
}

// oneWinner checks that one of the attempts won and owns the record, with the first token after before,
// and that the others were told of it.
func (w *world) oneWinner(before int64, attempts []idempotency.Attempt, results []asked) error {
	winner := -1
	for i, r := range results {
		switch {
		case r.err != nil:
			return fmt.Errorf("caller %d: Claim: %w", i, r.err)
		case r.got.Won && winner >= 0:
			return fmt.Errorf("callers %d and %d both won", winner, i)
		case r.got.Won:
			winner = i
		}
	}
	if winner < 0 {
		return errors.New("nobody won")
	}
	rec := results[winner].got.Record
	if problem := wrongWinner(rec, attempts[winner]); problem != "" {
		return fmt.Errorf("caller %d won, but %s", winner, problem)
	}
	if rec.Token <= before {
		return fmt.Errorf("the winner's token is %d, after %d", rec.Token, before)
	}
	for i, r := range results {
		if r.got.Won {
			continue
		}
		if problem := different(r.got.Record, rec); problem != "" {
			return fmt.Errorf("caller %d was told: %s", i, problem)
		}
		if r.got.Record.Expired() {
			return fmt.Errorf("caller %d was told that the winner's claim has expired", i)
		}
	}
	return w.mustBe(rec)
}

// raceForOne runs n attempts on one key in every order; begin makes the key's state and returns its
// request and the token that it had.
func (w *world) raceForOne(n int, begin func() (idempotency.Request, int64)) {
	w.Helper()
	size := ofTwo
	if n > 2 {
		size = ofThree
	}
	w.race(size, func() interleave.Case {
		req, token := begin()
		attempts, results := make([]idempotency.Attempt, n), make([]asked, n)
		c := interleave.Case{Check: func() error { return w.oneWinner(token, attempts, results) }}
		for i := range n {
			attempts[i] = resumable(req)
			c.Callers = append(c.Callers, w.claims(attempts[i], &results[i]))
		}
		return c
	})
}

// The states that a key may be in before a race for it.
func (w *world) fresh() (idempotency.Request, int64) { return w.request(), 0 }

func (w *world) freed() (idempotency.Request, int64) {
	rec := w.win(attempt(w.request()))
	w.complete(rec, idempotency.Free, idempotency.Response{})
	return rec.Request, rec.Token
}

func (w *world) abandoned() (idempotency.Request, int64) {
	rec := w.expired(resumable(w.request()))
	return rec.Request, rec.Token
}

var raceCases = []claim{
	{"in every order one of two claims wins", func(w *world) { w.raceForOne(2, w.fresh) }},
	{"in every order one of three claims wins", func(w *world) { w.raceForOne(3, w.fresh) }},
	{"in every order one of two claims on a free key wins", func(w *world) { w.raceForOne(2, w.freed) }},
	{"in every order one of three claims on a free key wins", func(w *world) { w.raceForOne(3, w.freed) }},
	{"in every order one of two takeovers wins", func(w *world) { w.raceForOne(2, w.abandoned) }},
	{"in every order one of three takeovers wins", func(w *world) { w.raceForOne(3, w.abandoned) }},
	{"in every order two intents with one key have one winner", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			req := w.request()
			attempts := []idempotency.Attempt{attempt(req), attempt(otherIntent(req))}
			results := make([]asked, 2)
			return interleave.Case{
				Callers: []func(context.Context){w.claims(attempts[0], &results[0]), w.claims(attempts[1], &results[1])},
				Check:   func() error { return w.oneWinner(0, attempts, results) },
			}
		})
	}},
	{"in every order an attempt that is sent twice has one claim", func(w *world) {
		for _, begin := range []func() (idempotency.Request, int64){w.fresh, w.freed, w.abandoned} {
			w.race(ofTwo, func() interleave.Case {
				req, token := begin()
				return w.sentTwice(resumable(req), token)
			})
		}
	}},
	{"in every order a claim that was held up takes nothing", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			w.race(ofTwo, func() interleave.Case { return w.heldUpAgainstEnd(state) })
		}
	}},
	{"in every order an attempt's own expired claim goes to the one who takes it over", func(w *world) {
		w.race(ofTwo, w.heldUpAgainstTakeover)
	}},
	{"in every order a takeover and the old owner's late result exclude each other", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Unknown} {
			w.race(ofTwo, func() interleave.Case { return w.takeoverAgainst(state) })
		}
	}},
	{"in every order a takeover takes what it saw, and not what became of it", func(w *world) {
		w.race(ofTwo, w.takeoverAgainstSuccessor)
	}},
	{"in every order a takeover and the old owner's renewal exclude each other", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.expired(resumable(w.request()))
			taker := resumable(rec.Request)
			var took asked
			var renewed error
			return interleave.Case{
				Callers: []func(context.Context){w.claims(taker, &took), w.renews(claimOf(rec), &renewed)},
				Check: func() error {
					if !errors.Is(renewed, idempotency.ErrLost) {
						return fmt.Errorf("the renewal got %v, want a LostError", renewed)
					}
					return w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took})
				},
			}
		})
	}},
	{"in every order a duplicate of a claim that is being completed sees it in flight or done", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(attempt(w.request()))
			want := ended(rec, idempotency.Done, "the answer")
			var dup asked
			var completed error
			return interleave.Case{
				Callers: []func(context.Context){
					w.claims(resumable(rec.Request), &dup),
					w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: want.Response}, &completed),
				},
				Check: func() error {
					if completed != nil || dup.err != nil {
						return fmt.Errorf("Complete: %w, Claim: %w", completed, dup.err)
					}
					if dup.got.Won {
						return errors.New("the duplicate won")
					}
					if different(dup.got.Record, rec) != "" && different(dup.got.Record, want) != "" {
						return fmt.Errorf("the duplicate was told of %v", show(dup.got.Record))
					}
					return w.mustBe(want)
				},
			}
		})
	}},
	{"in every order a claim on a key that is being freed wins or sees it in flight", func(w *world) {
		w.race(ofTwo, w.claimAgainstFree)
	}},
	{"in every order two completions of one claim leave one answer", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(attempt(w.request()))
			errs := make([]error, 2)
			c := interleave.Case{Check: func() error {
				if err := errors.Join(errs...); err != nil {
					return fmt.Errorf("Complete: %w", err)
				}
				if w.mustBe(ended(rec, idempotency.Done, "0")) == nil {
					return nil
				}
				return w.mustBe(ended(rec, idempotency.Done, "1"))
			}}
			for i := range errs {
				c.Callers = append(c.Callers, w.completes(idempotency.Completion{
					Claim: claimOf(rec), State: idempotency.Done, Response: answerOf(fmt.Sprint(i)),
				}, &errs[i]))
			}
			return c
		})
	}},
	{"in every order an answer outlives its owner's unknown", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(attempt(w.request()))
			want := ended(rec, idempotency.Done, "the answer")
			var done, unknown error
			return interleave.Case{
				Callers: []func(context.Context){
					w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: want.Response}, &done),
					w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Unknown}, &unknown),
				},
				Check: func() error {
					if done != nil {
						return fmt.Errorf("Complete as done: %w", done)
					}
					return w.mustBe(want)
				},
			}
		})
	}},
	{"in every order an answer outlives its owner's renewal", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(attempt(w.request()))
			want := ended(rec, idempotency.Done, "the answer")
			var done, renewed error
			return interleave.Case{
				Callers: []func(context.Context){
					w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: want.Response}, &done),
					w.renews(claimOf(rec), &renewed),
				},
				Check: func() error {
					if done != nil {
						return fmt.Errorf("Complete: %w", done)
					}
					if renewed != nil && !errors.Is(renewed, idempotency.ErrLost) {
						return fmt.Errorf("Renew: %w", renewed)
					}
					return w.mustBe(want)
				},
			}
		})
	}},
	{"in every order two batches that cross have one winner a key", func(w *world) {
		w.race(ofBatches, w.crossingBatches)
	}},
}
