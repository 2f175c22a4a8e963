package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// saves is a caller that saves a step.
func (w *world) saves(c idempotency.Claim, step idempotency.StepRecord, to *error) func(ctx context.Context) {
	return func(ctx context.Context) { *to = w.saveOne(ctx, c, step) }
}

var stepRaceCases = []claim{
	{"in every order a step is there for the taker, or its owner is told that it was superseded", func(w *world) {
		w.race(ofTwo, w.stepAgainstTakeover)
	}},
	{"in every order a step is kept with what its key became, or refused", func(w *world) {
		for _, state := range []idempotency.State{idempotency.Done, idempotency.Free, idempotency.Unknown} {
			w.race(ofTwo, func() interleave.Case { return w.stepAgainstEnd(state) })
		}
	}},
	{"in every order a step and a renewal of its owner both count", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			a := resumable(w.request())
			a.Lease = longLease / 4
			rec := w.win(a)
			want := rec
			want.Steps = []idempotency.StepRecord{finished("a", "1")}
			var saved, renewed error
			return interleave.Case{
				Callers: []func(context.Context){w.saves(claimOf(rec), want.Steps[0], &saved), w.renews(claimOf(rec), &renewed)},
				Check: func() error {
					if saved != nil || renewed != nil {
						return errors.Join(saved, renewed)
					}
					now, err := w.record(rec.Request)
					if err == nil && now.ExpiresIn <= a.Lease {
						err = fmt.Errorf("the renewal is lost: %v left", now.ExpiresIn)
					}
					return errors.Join(err, w.mustBe(want))
				},
			}
		})
	}},
	{"in every order two steps of one owner are both kept, and one that is saved twice is there once", func(w *world) {
		for _, steps := range [][2]idempotency.StepRecord{
			{finished("a", "1"), finished("b", "2")}, {finished("a", "1"), finished("a", "1")},
		} {
			w.race(ofTwo, func() interleave.Case { return w.twoSteps(steps[0], steps[1]) })
		}
	}},
	{"in every order a step of a claim that is being let go is kept", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			rec := w.win(resumable(w.request()))
			want := rec
			want.Steps = []idempotency.StepRecord{finished("a", "1")}
			var saved, let error
			return interleave.Case{
				Callers: []func(context.Context){w.saves(claimOf(rec), want.Steps[0], &saved), w.completes(letting(rec), &let)},
				Check: func() error {
					return errors.Join(saved, let, w.mustHaveExpired(want))
				},
			}
		})
	}},
}

// stepAgainstTakeover is a race of the step of an owner whose lease ran out with a takeover: a taker that is
// not told of a step that was saved would do it again.
func (w *world) stepAgainstTakeover() interleave.Case {
	rec := w.save(w.win(resumable(w.request())), finished("first", "1"), sent("second"))
	w.letGo(rec)
	taker, step := resumable(rec.Request), finished("second", "2")
	var took asked
	var saved error
	return interleave.Case{
		Callers: []func(context.Context){w.claims(taker, &took), w.saves(claimOf(rec), step, &saved)},
		Check: func() error {
			if err := w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took}); err != nil {
				return err
			}
			want := took.got.Record
			want.Steps = rec.Steps
			if saved == nil {
				want.Steps = []idempotency.StepRecord{finished("first", "1"), step}
			} else if err := refused(saved, true); err != nil {
				return fmt.Errorf("SaveStep: %w", err)
			}
			if problem := differentSteps(took.got.Record.Steps, want.Steps); problem != "" {
				return fmt.Errorf("SaveStep got %v, and the taker was told: %s", saved, problem)
			}
			return w.mustBe(want)
		},
	}
}

// stepAgainstEnd is a race of a step with its owner's completion as state, as when the step was held up.
func (w *world) stepAgainstEnd(state idempotency.State) interleave.Case {
	rec := w.save(w.win(resumable(w.request())), finished("first", "1"))
	want, step := ended(rec, state, "the answer"), finished("second", "2")
	var saved, completed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.saves(claimOf(rec), step, &saved),
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: state, Response: want.Response}, &completed),
		},
		Check: func() error {
			if completed != nil {
				return fmt.Errorf("Complete as %v: %w", state, completed)
			}
			want := want
			if saved == nil {
				want.Steps = append(slices.Clone(rec.Steps), step)
			} else if err := refused(saved, true); err != nil {
				return fmt.Errorf("SaveStep: %w", err)
			}
			return w.mustBe(want)
		},
	}
}

// twoSteps is a race of two steps of one owner.
func (w *world) twoSteps(a, b idempotency.StepRecord) interleave.Case {
	rec := w.win(resumable(w.request()))
	var errs [2]error
	return interleave.Case{
		Callers: []func(context.Context){w.saves(claimOf(rec), a, &errs[0]), w.saves(claimOf(rec), b, &errs[1])},
		Check: func() error {
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			want := rec
			if a.Name == b.Name {
				want.Steps = []idempotency.StepRecord{a}
				return w.mustBe(want)
			}
			want.Steps = []idempotency.StepRecord{a, b}
			if w.mustBe(want) == nil {
				return nil
			}
			want.Steps = []idempotency.StepRecord{b, a}
			return w.mustBe(want)
		},
	}
}
