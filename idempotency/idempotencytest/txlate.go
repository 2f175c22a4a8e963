package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// txLateCases are races of a transaction that takes a key over with those who come late.
func txLateCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"in every order a takeover by InTx and the old owner's late step exclude each other", func(w *txWorld[Tx]) {
			w.race(ofSteps, w.stepAgainstInTx)
		}},
		{"in every order a takeover by InTx and a decision exclude each other", func(w *txWorld[Tx]) {
			if w.f.NoOperator != "" {
				w.Logf("not for operators: %s", w.f.NoOperator)
				return
			}
			for kind := range decisions(idempotency.Record{}) {
				w.race(ofSteps, func() interleave.Case { return w.decisionAgainstInTx(kind) })
			}
		}},
	}
}

// takes is a caller that takes the key of rec over by InTx.
func (w *txWorld[Tx]) takes(taker idempotency.Attempt, to *asked) func(ctx context.Context) {
	return func(ctx context.Context) {
		to.got, to.err = w.inTx(ctx, taker, w.effecting(taker.Request, answerOf("the taker's"), nil))
	}
}

// took checks that the taker's effect and answer are there, and that its token is higher than before.
func (w *txWorld[Tx]) took(took asked, before int64, steps []idempotency.StepRecord) error {
	rec := took.got.Record
	n, err := w.h.Effects(w.ctx, effect(rec.Request))
	if err != nil {
		return err
	}
	now, err := w.record(rec.Request)
	if err != nil {
		return err
	}
	if n != 1 || rec.Token <= before || now.Token != rec.Token {
		return fmt.Errorf("%d effects are committed; the taker's token is %d after %d, and the record is %v", n, rec.Token, before, show(now))
	}
	if problem := differentAnswer(now.Response, answerOf("the taker's")); problem != "" {
		return errors.New("the record: " + problem)
	}
	if problem := differentSteps(now.Steps, steps); problem != "" {
		return errors.New("the record: " + problem)
	}
	return nil
}

func (w *txWorld[Tx]) stepAgainstInTx() interleave.Case {
	rec := w.save(w.win(resumable(w.request())), finished("first", "1"))
	w.letGo(rec)
	taker, step := resumable(rec.Request), finished("second", "2")
	var took asked
	var saved error
	return interleave.Case{
		Callers: []func(context.Context){w.takes(taker, &took), w.saves(claimOf(rec), step, &saved)},
		Check: func() error {
			if took.err != nil || !took.got.Won {
				return fmt.Errorf("InTx: won %v, %v", took.got.Won, took.err)
			}
			steps := rec.Steps
			if saved == nil {
				steps = []idempotency.StepRecord{finished("first", "1"), step}
			} else if err := refused(saved, true); err != nil {
				return fmt.Errorf("SaveStep: %w", err)
			}
			return w.took(took, rec.Token, steps)
		},
	}
}

func (w *txWorld[Tx]) decisionAgainstInTx(kind int) interleave.Case {
	rec := w.save(w.win(resumable(w.request())), finished("first", "1"))
	w.letGo(rec)
	taker, r := resumable(rec.Request), decisions(rec)[kind]
	r.Token = 0 // not even the token stops it from deciding over the taker's head
	var took asked
	var decided error
	return interleave.Case{
		Callers: []func(context.Context){w.takes(taker, &took), w.decides(r, &decided)},
		Check: func() error {
			want := afterwards(rec, r)
			switch {
			case took.err != nil:
				return fmt.Errorf("InTx: %w", took.err)
			case decided != nil: // it was taken over first
				if !errors.Is(decided, idempotency.ErrDecided) || !took.got.Won {
					return fmt.Errorf("Resolve got %v; InTx won %v", decided, took.got.Won)
				}
				return errors.Join(w.took(took, rec.Token, rec.Steps), w.audited(rec.Request))
			case took.got.Won: // it was freed first
				if want.State != idempotency.Free {
					return errors.New("the key was answered, and taken over")
				}
				return errors.Join(w.took(took, want.Token, nil), w.audited(rec.Request, decisionOf(rec, r)))
			}
			n, err := w.h.Effects(w.ctx, effect(rec.Request))
			if err == nil && n != 0 {
				err = fmt.Errorf("%d effects are committed, although InTx did not win", n)
			}
			return errors.Join(err, w.mustBe(want), w.audited(rec.Request, decisionOf(rec, r)))
		},
	}
}
