package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// decides is a caller that resolves.
func (w *world) decides(r idempotency.Resolution, to *error) func(ctx context.Context) {
	op := w.operators()
	return func(ctx context.Context) { *to = op.Resolve(ctx, r) }
}

// decisions are both kinds.
func decisions(rec idempotency.Record) []idempotency.Resolution {
	return []idempotency.Resolution{deciding(rec), answering(rec, "an operator's")}
}

// raceOfDecisions runs a race for each kind of decision; newCase gets which.
func (w *world) raceOfDecisions(newCase func(kind int) interleave.Case) {
	w.Helper()
	for kind := range decisions(idempotency.Record{}) {
		w.race(ofTwo, func() interleave.Case { return newCase(kind) })
	}
}

var resolveRaceCases = []claim{
	{"in every order a decision and the owner's late result exclude each other", func(w *world) {
		w.raceOfDecisions(w.decisionAgainstResult)
	}},
	{"in every order a decision and a takeover exclude each other", func(w *world) {
		w.raceOfDecisions(w.decisionAgainstTakeover)
	}},
	{"in every order of two decisions one counts, and is kept", func(w *world) {
		w.raceOfDecisions(w.twoDecisions)
	}},
	{"in every order a decision and the owner's late step exclude each other", func(w *world) {
		w.raceOfDecisions(w.decisionAgainstStep)
	}},
	{"in every order a decision stands against the owner's renewal and its letting go", func(w *world) {
		w.raceOfDecisions(func(kind int) interleave.Case {
			rec := w.expired(resumable(w.request()))
			r := decisions(rec)[kind]
			var decided, renewed, let error
			return interleave.Case{
				Callers: []func(context.Context){w.decides(r, &decided), func(ctx context.Context) {
					renewed = w.renewOne(ctx, claimOf(rec), longLease)
					let = w.completeOne(ctx, letting(rec))
				}},
				Check: func() error {
					if decided != nil || !errors.Is(renewed, idempotency.ErrLost) || let != nil && !errors.Is(let, idempotency.ErrLost) {
						return fmt.Errorf("Resolve got %v, Renew %v, letting go %v", decided, renewed, let)
					}
					return errors.Join(w.mustBe(afterwards(rec, r)), w.audited(rec.Request, decisionOf(rec, r)))
				},
			}
		})
	}},
}

func (w *world) decisionAgainstResult(kind int) interleave.Case {
	rec := w.win(resumable(w.request()))
	w.letGo(rec)
	r, late := decisions(rec)[kind], ended(rec, idempotency.Done, "late")
	var decided, completed error
	return interleave.Case{
		Callers: []func(context.Context){
			w.decides(r, &decided),
			w.completes(idempotency.Completion{Claim: claimOf(rec), State: idempotency.Done, Response: late.Response}, &completed),
		},
		Check: func() error {
			if decided == nil {
				if err := refused(completed, true); err != nil {
					return fmt.Errorf("the key was decided, and the owner's completion %w", err)
				}
				return errors.Join(w.mustBe(afterwards(rec, r)), w.audited(rec.Request, decisionOf(rec, r)))
			}
			if completed != nil {
				return fmt.Errorf("Resolve got %v, and the owner's completion %v", decided, completed)
			}
			return errors.Join(isDecided(decided, late), w.mustBe(late), w.audited(rec.Request))
		},
	}
}

func (w *world) decisionAgainstTakeover(kind int) interleave.Case {
	rec := w.expired(resumable(w.request()))
	r, taker := decisions(rec)[kind], resumable(rec.Request)
	r.Token = 0 // not even the token stops it from deciding over the taker's head
	var decided error
	var took asked
	return interleave.Case{
		Callers: []func(context.Context){w.decides(r, &decided), w.claims(taker, &took)},
		Check: func() error {
			if took.err != nil {
				return fmt.Errorf("the takeover: %w", took.err)
			}
			want := afterwards(rec, r)
			switch {
			case decided != nil: // it was taken over first
				if err := isDecided(decided, took.got.Record); err != nil {
					return err
				}
				return errors.Join(w.oneWinner(rec.Token, []idempotency.Attempt{taker}, []asked{took}), w.audited(rec.Request))
			case took.got.Won: // it was freed first
				if want.State != idempotency.Free {
					return errors.New("the key was answered, and taken over")
				}
				return errors.Join(
					w.oneWinner(want.Token, []idempotency.Attempt{taker}, []asked{took}),
					w.audited(rec.Request, decisionOf(rec, r)),
				)
			}
			if problem := different(took.got.Record, want); problem != "" {
				return fmt.Errorf("the taker was told: %s", problem)
			}
			return errors.Join(w.mustBe(want), w.audited(rec.Request, decisionOf(rec, r)))
		},
	}
}

// twoDecisions is a race of one decision of a kind with one that answers otherwise.
func (w *world) twoDecisions(kind int) interleave.Case {
	rec := w.win(attempt(w.request()))
	w.complete(rec, idempotency.Unknown, idempotency.Response{})
	rec = ended(rec, idempotency.Unknown, "")
	rs := []idempotency.Resolution{decisions(rec)[kind], answering(rec, "another operator's")}
	rs[1].By, rs[1].Token = "bob", 0
	var errs [2]error
	return interleave.Case{
		Callers: []func(context.Context){w.decides(rs[0], &errs[0]), w.decides(rs[1], &errs[1])},
		Check: func() error {
			winner, loser := 0, 1
			if errs[0] != nil {
				winner, loser = 1, 0
			}
			if errs[winner] != nil {
				return fmt.Errorf("neither decision counts: %w", errors.Join(errs[:]...))
			}
			want := afterwards(rec, rs[winner])
			return errors.Join(
				isDecided(errs[loser], want), w.mustBe(want), w.audited(rec.Request, decisionOf(rec, rs[winner])),
			)
		},
	}
}

func (w *world) decisionAgainstStep(kind int) interleave.Case {
	rec := w.save(w.win(resumable(w.request())), finished("first", "1"))
	w.letGo(rec)
	r, step := decisions(rec)[kind], finished("second", "2")
	var decided, saved error
	return interleave.Case{
		Callers: []func(context.Context){w.decides(r, &decided), w.saves(claimOf(rec), step, &saved)},
		Check: func() error {
			if decided != nil {
				return fmt.Errorf("Resolve: %w", decided)
			}
			before := rec
			if saved == nil {
				before.Steps = []idempotency.StepRecord{finished("first", "1"), step}
			} else if err := refused(saved, true); err != nil {
				return fmt.Errorf("SaveStep: %w", err)
			}
			return w.mustBe(afterwards(before, r))
		},
	}
}
