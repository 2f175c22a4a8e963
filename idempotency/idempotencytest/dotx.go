package idempotencytest

import (
	"context"
	"errors"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

func doTxCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"DoTx leaves effect and answer when the caller commits, and shows neither before", (*txWorld[Tx]).commitsWithTheCaller},
		{"DoTx leaves nothing when the caller rolls back", (*txWorld[Tx]).rollsBackWithTheCaller},
		{"DoTx leaves the key as it was when the caller rolls back", (*txWorld[Tx]).leavesTheKeyToTheCallersRollback},
		{"DoTx that failed leaves no effect and no poisoned key, even when the caller commits", (*txWorld[Tx]).leavesNoPoisonedKey},
		{"DoTx whose statement failed leaves a usable transaction and a free key", (*txWorld[Tx]).survivesAFailedStatement},
		{"DoTx undoes a refused work and keeps the refusal", (*txWorld[Tx]).keepsARefusalOfDoTx},
		{"DoTx whose function panicked leaves no effect and no poisoned key, even when the caller commits", (*txWorld[Tx]).survivesAPanic},
		{"a second DoTx of a key in one transaction replays", (*txWorld[Tx]).replaysWithinTheTransaction},
		{"a DoTx that failed may run again in the same transaction", (*txWorld[Tx]).runsAgainWithinTheTransaction},
		{"several keys in one transaction do not undo each other", (*txWorld[Tx]).keepsSeveralKeysApart},
		{"a DoTx within the work of another shares its fate", (*txWorld[Tx]).nests},
		{"ClaimTx that is not won tells what is there and leaves the transaction usable", (*txWorld[Tx]).tellsWhatIsThere},
		{"CompleteTx takes nobody's word but the owner's", (*txWorld[Tx]).takesNobodysWord},
	}
}

func (w *txWorld[Tx]) commitsWithTheCaller() {
	keys, req := w.newTxKeys(), w.request()
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		res, err := keys.DoTx(ctx, tx, req, w.effecting(req, answerOf("the answer"), nil))
		if problem := differentAnswer(res.Response, answerOf("the answer")); err == nil && (res.Replayed || problem != "") {
			w.Errorf("got Replayed %v; %s", res.Replayed, problem)
		}
		if n, err := w.h.Effects(w.ctx, effect(req)); err != nil || n != 0 {
			w.Errorf("before the commit others see %d effects, %v", n, err)
		}
		if rec, err := w.store.Find(w.ctx, req.Scope, req.Key); err == nil && rec.State == idempotency.Done {
			w.Errorf("before the commit others see %v", show(rec))
		}
		return err
	})
	if err != nil {
		w.Errorf("the transaction: %v", err)
	}
	w.has(effect(req), 1)
	w.replaysTx(keys, req, answerOf("the answer"))
	w.standsTx(keys, otherIntent(req), idempotency.ErrMismatch)
}

func (w *txWorld[Tx]) rollsBackWithTheCaller() {
	keys, req := w.newTxKeys(), w.request()
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		if _, err := keys.DoTx(ctx, tx, req, w.effecting(req, answerOf("no"), nil)); err != nil {
			return err
		}
		return errTx
	})
	if !errors.Is(err, errTx) {
		w.Errorf("got %v, want the caller's error", err)
	}
	w.untouched(req)
}

func (w *txWorld[Tx]) leavesTheKeyToTheCallersRollback() {
	for what, before := range w.openKeys() {
		err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
			got, err := w.h.Store.ClaimTx(ctx, tx, resumable(before.Request))
			if err != nil {
				return err
			}
			if !got.Won || got.Record.Token <= before.Token {
				w.Errorf("%s: won %v with token %d after %d", what, got.Won, got.Record.Token, before.Token)
			}
			return errTx
		})
		if !errors.Is(err, errTx) {
			w.Errorf("%s: got %v, want the caller's error", what, err)
		}
		w.is(before)
	}
}

func (w *txWorld[Tx]) leavesNoPoisonedKey() {
	for _, fnErr := range []error{errTx, idempotency.NotDone(errTx)} {
		keys, req := w.newTxKeys(), w.request()
		w.within(keys, req, w.effecting(req, answerOf("no"), fnErr), func(_ idempotency.Result, err error) {
			if !errors.Is(err, errTx) {
				w.Errorf("got %v, want the function's error", err)
			}
		})
		w.has(effect(req), 0)
		w.win(attempt(otherIntent(req)))
	}
}

func (w *txWorld[Tx]) survivesAFailedStatement() {
	keys, req := w.newTxKeys(), w.request()
	w.within(keys, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		if err := w.h.Effect(ctx, tx, effect(req)); err != nil {
			return idempotency.Response{}, err
		}
		return idempotency.Response{}, w.breaks(ctx, tx)
	}, func(_ idempotency.Result, err error) {
		if err == nil {
			w.Errorf("the function's error is gone")
		}
	})
	w.has(effect(req), 0)
	w.win(attempt(req))
}

func (w *txWorld[Tx]) keepsARefusalOfDoTx() {
	keys, req := w.newTxKeys(), w.request()
	declined := idempotency.Response{Status: 402, Body: []byte("declined")}
	w.within(keys, req, w.effecting(req, answerOf("no"), idempotency.Refuse(declined)), func(res idempotency.Result, err error) {
		if problem := differentAnswer(res.Response, declined); err != nil || res.Replayed || problem != "" {
			w.Errorf("got Replayed %v, %v; %s", res.Replayed, err, problem)
		}
	})
	w.has(effect(req), 0)
	w.replaysTx(keys, req, declined)
}

func (w *txWorld[Tx]) survivesAPanic() {
	keys, req := w.newTxKeys(), w.request()
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		defer func() {
			if v := recover(); v != errTx {
				w.Errorf("the panic became %v", v)
			}
		}()
		_, err := keys.DoTx(ctx, tx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			if err := w.h.Effect(ctx, tx, effect(req)); err != nil {
				return idempotency.Response{}, err
			}
			panic(errTx)
		})
		return err
	})
	if err != nil {
		w.Errorf("the commit: %v", err)
	}
	w.has(effect(req), 0)
	w.win(attempt(req))
}

func (w *txWorld[Tx]) replaysWithinTheTransaction() {
	keys, req := w.newTxKeys(), w.request()
	w.within(keys, req, w.effecting(req, answerOf("the answer"), nil), func(_ idempotency.Result, err error) {
		if err != nil {
			w.Errorf("the first: %v", err)
		}
	}, func(ctx context.Context, tx Tx) error {
		res, err := keys.DoTx(ctx, tx, req, w.never)
		if problem := differentAnswer(res.Response, answerOf("the answer")); err != nil || !res.Replayed || problem != "" {
			w.Errorf("the second got Replayed %v, %v; %s", res.Replayed, err, problem)
		}
		return nil
	})
	w.has(effect(req), 1)
}

func (w *txWorld[Tx]) runsAgainWithinTheTransaction() {
	keys, req := w.newTxKeys(), w.request()
	w.within(keys, req, w.effecting(req, answerOf("no"), errTx), func(idempotency.Result, error) {}, func(ctx context.Context, tx Tx) error {
		_, err := keys.DoTx(ctx, tx, req, w.effecting(req, answerOf("yes"), nil))
		return err
	})
	w.has(effect(req), 1)
	w.replaysTx(keys, req, answerOf("yes"))
}

func (w *txWorld[Tx]) keepsSeveralKeysApart() {
	keys := w.newTxKeys()
	good, bad, refusal, last := w.request(), w.request(), w.request(), w.request()
	declined := idempotency.Response{Status: 402}
	w.within(keys, good, w.effecting(good, answerOf("good"), nil), func(idempotency.Result, error) {}, func(ctx context.Context, tx Tx) error {
		if _, err := keys.DoTx(ctx, tx, bad, w.effecting(bad, answerOf("bad"), errTx)); !errors.Is(err, errTx) {
			w.Errorf("the bad one got %v", err)
		}
		_, refused := keys.DoTx(ctx, tx, refusal, w.effecting(refusal, answerOf("no"), idempotency.Refuse(declined)))
		_, err := keys.DoTx(ctx, tx, last, w.effecting(last, answerOf("last"), nil))
		return errors.Join(refused, err)
	})
	for req, n := range map[idempotency.Request]int{good: 1, bad: 0, refusal: 0, last: 1} {
		w.has(effect(req), n)
	}
	w.replaysTx(keys, good, answerOf("good"))
	w.replaysTx(keys, refusal, declined)
	w.replaysTx(keys, last, answerOf("last"))
	w.win(attempt(bad))
}

func (w *txWorld[Tx]) nests() {
	for _, tc := range []struct {
		outer, inner         error
		outerDone, innerDone bool
	}{
		{nil, nil, true, true},
		{nil, errTx, true, false},
		{errTx, nil, false, false},
		{errTx, errTx, false, false},
	} {
		keys, outer, inner := w.newTxKeys(), w.request(), w.request()
		w.within(keys, outer, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
			_, err := keys.DoTx(ctx, tx, inner, w.effecting(inner, answerOf("inner"), tc.inner))
			if !errors.Is(err, tc.inner) {
				w.Errorf("the inner one got %v, want %v", err, tc.inner)
			}
			return w.effecting(outer, answerOf("outer"), tc.outer)(ctx, tx)
		}, func(_ idempotency.Result, err error) {
			if !errors.Is(err, tc.outer) {
				w.Errorf("the outer one got %v, want %v", err, tc.outer)
			}
		})
		w.decided(keys, outer, answerOf("outer"), tc.outerDone)
		w.decided(keys, inner, answerOf("inner"), tc.innerDone)
	}
}

// decided fails the case unless req has its effect and its answer, or neither and its key is open.
func (w *txWorld[Tx]) decided(keys *idempotency.TxKeys[Tx], req idempotency.Request, r idempotency.Response, done bool) {
	w.Helper()
	if done {
		w.has(effect(req), 1)
		w.replaysTx(keys, req, r)
		return
	}
	w.has(effect(req), 0)
	w.win(attempt(req))
}

func (w *txWorld[Tx]) tellsWhatIsThere() {
	done := w.win(attempt(w.request()))
	w.done(done, "the answer")
	name := effect(w.request())
	for what, want := range map[string]idempotency.Record{
		"in flight": w.win(attempt(w.request())), "expired": w.expired(attempt(w.request())),
		"done": ended(done, idempotency.Done, "the answer"),
	} {
		err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
			got, err := w.h.Store.ClaimTx(ctx, tx, attempt(want.Request))
			if err != nil {
				return err
			}
			if problem := different(got.Record, want); got.Won || problem != "" {
				w.Errorf("%s: won %v; %s", what, got.Won, problem)
			}
			return w.h.Effect(ctx, tx, name)
		})
		if err != nil {
			w.Errorf("%s: the transaction: %v", what, err)
		}
		w.is(want)
	}
	w.has(name, 3)
}

func (w *txWorld[Tx]) takesNobodysWord() {
	a := attempt(w.request())
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		got, err := w.h.Store.ClaimTx(ctx, tx, a)
		if err != nil {
			return err
		}
		if err := w.h.Effect(ctx, tx, effect(a.Request)); err != nil {
			return err
		}
		later, other := claimOf(got.Record), claimOf(got.Record)
		later.Token++
		other.Attempt = attempt(a.Request).ID
		for _, stranger := range []idempotency.Claim{later, other} {
			c := idempotency.Completion{Claim: stranger, State: idempotency.Done, Response: answerOf("a stranger's")}
			if err := refused(w.h.Store.CompleteTx(ctx, tx, c), true); err != nil {
				w.Errorf("a stranger's completion: %v", err)
			}
		}
		return w.h.Store.CompleteTx(ctx, tx, idempotency.Completion{
			Claim: claimOf(got.Record), State: idempotency.Done, Response: answerOf("the owner's"),
		})
	})
	if err != nil {
		w.Errorf("the transaction: %v", err)
	}
	w.has(effect(a.Request), 1)
	if problem := differentAnswer(w.find(a.Request).Response, answerOf("the owner's")); problem != "" {
		w.Errorf("the record: %s", problem)
	}
}

// within runs DoTx between two effects of the caller's own, hands check what it got, does what comes then,
// and commits. The caller's effects must be there afterwards.
func (w *txWorld[Tx]) within(
	keys *idempotency.TxKeys[Tx], req idempotency.Request, fn func(context.Context, Tx) (idempotency.Response, error),
	check func(idempotency.Result, error), then ...func(ctx context.Context, tx Tx) error,
) {
	w.Helper()
	before, after := effect(req)+" before", effect(req)+" after"
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		if err := w.h.Effect(ctx, tx, before); err != nil {
			return err
		}
		check(keys.DoTx(ctx, tx, req, fn))
		for _, next := range then {
			if err := next(ctx, tx); err != nil {
				return err
			}
		}
		return w.h.Effect(ctx, tx, after)
	})
	if err != nil {
		w.Errorf("the caller's transaction: %v", err)
	}
	w.has(before, 1)
	w.has(after, 1)
}
