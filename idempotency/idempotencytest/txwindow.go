package idempotencytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

func txWindowCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"InTx does not run for a key outside its window, and ClaimTx refuses it", (*txWorld[Tx]).refusesOutsideWindow},
		{"InTx and DoTx run a time-ordered key within its window only", (*txWorld[Tx]).runsWithinWindow},
		{"a record answers InTx and ClaimTx whatever the window says", (*txWorld[Tx]).answersWhateverTheWindow},
		{"a key that expired is not run in a transaction", func(w *txWorld[Tx]) {
			rec := w.buried()
			w.standsTx(w.newTxKeys(), rec.Request, idempotency.ErrExpired)
			w.is(rec)
		}},
		{"in every order an InTx on a free key and a sweep leave its effect, its answer and a higher token", func(w *txWorld[Tx]) {
			w.race(ofSweep, w.inTxAgainstSweep)
		}},
		{"in every order an InTx that fails leaves a free key to the sweep", func(w *txWorld[Tx]) {
			w.race(ofSweep, w.failingAgainstSweep)
		}},
	}
}

// claimTx claims in a transaction of its own that has an effect beside, and is committed.
func (w *txWorld[Tx]) claimTx(a idempotency.Attempt) (got idempotency.Claimed, err error) {
	w.Helper()
	name := effect(w.request())
	failed := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		got, err = w.h.Store.ClaimTx(ctx, tx, a)
		return w.h.Effect(ctx, tx, name)
	})
	if failed != nil {
		w.Errorf("the transaction around ClaimTx: %v", failed)
	}
	w.has(name, 1)
	return got, err
}

// refusesOutsideWindow sends keys outside of their window, and a free one that is too old by now.
func (w *txWorld[Tx]) refusesOutsideWindow() {
	for what, tc := range w.outside() {
		a := timed(w.request(), tc.made)
		got, err := w.h.Store.InTx(w.ctx, a, w.never)
		if err := outOfWindow(got, err, tc.err); err != nil {
			w.Errorf("%s: InTx: %v", what, err)
		}
		got, err = w.claimTx(a)
		if err := outOfWindow(got, err, tc.err); err != nil {
			w.Errorf("%s: ClaimTx: %v", what, err)
		}
		w.untouched(a.Request)
	}
	made := w.now().Add(-window / 2)
	rec := w.win(timed(w.request(), made))
	w.complete(rec, idempotency.Free, idempotency.Response{})
	late := timed(rec.Request, made)
	late.Window = window / 4
	got, err := w.h.Store.InTx(w.ctx, late, w.never)
	if err := outOfWindow(got, err, idempotency.ErrExpired); err != nil {
		w.Errorf("a free key: InTx: %v", err)
	}
	got, err = w.claimTx(late)
	if err := outOfWindow(got, err, idempotency.ErrExpired); err != nil {
		w.Errorf("a free key: ClaimTx: %v", err)
	}
	w.is(ended(rec, idempotency.Free, ""))
}

func (w *txWorld[Tx]) runsWithinWindow() {
	cfg := idempotency.Config{Retention: window, Tombstone: window}
	keys := idempotency.NewTx(w.h.Store, cfg)
	for _, tc := range w.outside() {
		req := w.request()
		req.Key = keyAt(tc.made)
		w.standsTx(keys, req, tc.err)
		w.untouched(req)
	}
	req := w.request()
	req.Key = keyAt(w.now().Add(-window + slack))
	if _, err := keys.InTx(w.ctx, req, w.effecting(req, answerOf("the answer"), nil)); err != nil {
		w.Errorf("InTx within the window: %v", err)
	}
	w.has(effect(req), 1)
	w.replaysTx(idempotency.NewTx(w.h.Store, idempotency.Config{Retention: 1, Tombstone: 1}), req, answerOf("the answer"))
}

func (w *txWorld[Tx]) answersWhateverTheWindow() {
	made := w.now().Add(-window / 2)
	over := w.buried()
	flying := w.win(timed(w.request(), made))
	done := w.win(timed(w.request(), made))
	w.done(done, "the answer")
	for _, rec := range []idempotency.Record{flying, ended(done, idempotency.Done, "the answer"), over} {
		late := timed(rec.Request, made)
		late.Window = window / 4
		got, err := w.h.Store.InTx(w.ctx, late, w.never)
		if problem := different(got.Record, rec); err != nil || got.Err != nil || got.Won || problem != "" {
			w.Errorf("InTx: won %v, %v, %v; %s", got.Won, got.Err, err, problem)
		}
		got, err = w.claimTx(late)
		if problem := different(got.Record, rec); err != nil || got.Err != nil || got.Won || problem != "" {
			w.Errorf("ClaimTx: won %v, %v, %v; %s", got.Won, got.Err, err, problem)
		}
		w.is(rec)
	}
}

// inTxAgainstSweep is a race of an InTx with the sweep that removes its free key.
func (w *txWorld[Tx]) inTxAgainstSweep() interleave.Case {
	rec := w.freedKey()
	w.pass(shortAge)
	next := attempt(rec.Request)
	var claimed asked
	var swept sweeping
	return interleave.Case{
		Callers: []func(context.Context){
			func(ctx context.Context) {
				claimed.got, claimed.err = w.inTx(ctx, next, w.effecting(next.Request, answerOf("the answer"), nil))
			},
			w.sweeps(sweepMost, &swept),
		},
		Check: func() error {
			if err := errors.Join(claimed.err, swept.err); err != nil {
				return err
			}
			n, err := w.h.Effects(w.ctx, effect(rec.Request))
			if err != nil {
				return err
			}
			if !claimed.got.Won && n == 0 {
				return w.claimableAfter(rec, claimed.got)
			}
			now, err := w.record(rec.Request)
			if err != nil {
				return err
			}
			if n != 1 || !claimed.got.Won || now.Attempt != next.ID || now.Token <= rec.Token || now.Token != claimed.got.Record.Token {
				return fmt.Errorf("%d effects; InTx won %v with token %d after %d, and the record is %v",
					n, claimed.got.Won, claimed.got.Record.Token, rec.Token, show(now))
			}
			if w.f.Advance == nil && now.State == idempotency.Tombstone {
				return nil // so slow that the sweep came to it once more
			}
			if problem := differentAnswer(now.Response, answerOf("the answer")); problem != "" {
				return fmt.Errorf("the record: %s", problem)
			}
			return nil
		},
	}
}

// failingAgainstSweep is a race of an InTx that is rolled back with the sweep that removes its free key.
func (w *txWorld[Tx]) failingAgainstSweep() interleave.Case {
	rec := w.freedKey()
	w.pass(shortAge)
	next := attempt(rec.Request)
	var failed asked
	var swept sweeping
	return interleave.Case{
		Callers: []func(context.Context){
			func(ctx context.Context) {
				failed.got, failed.err = w.inTx(ctx, next, w.effecting(next.Request, answerOf("no"), errTx))
			},
			w.sweeps(sweepMost, &swept),
		},
		Check: func() error {
			if failed.err == nil && !failed.got.Won && swept.err == nil { // the sweep was at work on the key
				return w.claimableAfter(rec, failed.got)
			}
			if !errors.Is(failed.err, errTx) || swept.err != nil {
				return fmt.Errorf("InTx got %v, Sweep %v", failed.err, swept.err)
			}
			if now := w.stateOf(rec.Request); now != gone && now != idempotency.Free {
				return fmt.Errorf("the key is %v", now)
			}
			w.sweepUntil("the key is removed", shortAge, shortAge, w.all([]idempotency.Record{rec}, gone))
			return nil
		},
	}
}
