package idempotencytest

import (
	"context"
	"errors"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// txTries bounds how often the suite repeats a transaction that lost a race.
const txTries = 10

// txWorld is a world with transactions.
type txWorld[Tx any] struct {
	*world
	h TxHarness[Tx]
}

func (w *txWorld[Tx]) newTxKeys() *idempotency.TxKeys[Tx] {
	return idempotency.NewTx(w.h.Store, idempotency.Config{})
}

// effect names the effects of req's work; no other request has it.
func effect(req idempotency.Request) string { return req.Scope + " " + req.Key }

// effecting is the work of req in a transaction: one effect, and then what it answers. It stops between
// its statements, so that others may come in there.
func (w *txWorld[Tx]) effecting(req idempotency.Request, r idempotency.Response, err error) func(context.Context, Tx) (idempotency.Response, error) {
	return func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		interleave.Point(ctx, "the effect")
		if failed := w.h.Effect(ctx, tx, effect(req)); failed != nil {
			return idempotency.Response{}, failed
		}
		interleave.Point(ctx, "after the effect")
		return r, err
	}
}

// never is work that must not run. It may begin in InTx, but its first statement must not: see ErrUnclaimed.
func (w *txWorld[Tx]) never(ctx context.Context, tx Tx) (idempotency.Response, error) {
	if !errors.Is(w.h.Effect(ctx, tx, "never"), idempotency.ErrUnclaimed) {
		w.Errorf("the function ran; it must not")
	}
	return idempotency.Response{}, errWork
}

// effects counts the committed effects called name.
func (w *txWorld[Tx]) effects(name string) int {
	w.Helper()
	n, err := w.h.Effects(w.ctx, name)
	if err != nil {
		w.Fatalf("Effects: %v", err)
	}
	return n
}

// has fails the case unless n effects called name are committed.
func (w *txWorld[Tx]) has(name string, n int) {
	w.Helper()
	if got := w.effects(name); got != n {
		w.Errorf("%d effects are committed, want %d", got, n)
	}
}

// untouched fails the case unless nothing is left of req: no effect, no record, and the key can be claimed.
func (w *txWorld[Tx]) untouched(req idempotency.Request) {
	w.Helper()
	w.has(effect(req), 0)
	if rec, err := w.store.Find(w.ctx, req.Scope, req.Key); !errors.Is(err, idempotency.ErrNotFound) {
		w.Errorf("the record is %v, %v, want none", show(rec), err)
	}
	a := attempt(req)
	var got idempotency.Claimed
	w.until("the transaction has let the key go", func() bool {
		got = w.claim(a)
		return got.Won || got.Record.Attempt != "" // a rollback after an ended context may come late
	})
	if problem := wrongWinner(got.Record, a); !got.Won || problem != "" {
		w.Errorf("the next claim won %v; %s", got.Won, problem)
	}
}

// again runs fn until it has not lost a race.
func (w *txWorld[Tx]) again(fn func() error) error {
	var err error
	for range txTries {
		if err = fn(); err == nil || w.h.Store.Classify(err) != txn.Retryable {
			return err
		}
	}
	return err
}

// inTx is the store's InTx, repeated when it lost a race.
func (w *txWorld[Tx]) inTx(ctx context.Context, a idempotency.Attempt, fn func(context.Context, Tx) (idempotency.Response, error)) (idempotency.Claimed, error) {
	var got idempotency.Claimed
	err := w.again(func() error {
		var err error
		got, err = w.h.Store.InTx(ctx, a, fn)
		if err == nil {
			err = got.Err
		}
		return err
	})
	return got, err
}

// transact is the caller's own transaction, repeated when it lost a race.
func (w *txWorld[Tx]) transact(ctx context.Context, opts txn.Options, fn func(ctx context.Context, tx Tx) error) error {
	return w.again(func() error { return w.h.Txns.Transact(ctx, opts, fn) })
}

// doTx runs DoTx in a transaction of its own, which is committed whatever DoTx returned.
func (w *txWorld[Tx]) doTx(keys *idempotency.TxKeys[Tx], req idempotency.Request, fn func(context.Context, Tx) (idempotency.Response, error)) (idempotency.Result, error) {
	w.Helper()
	var res idempotency.Result
	var doErr error
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		res, doErr = keys.DoTx(ctx, tx, req, fn)
		return nil
	})
	if err != nil {
		w.Errorf("the commit after DoTx: %v", err)
	}
	return res, doErr
}

// replaysTx fails the case unless later arrivals of req get r as a replay, by InTx, DoTx and Do.
func (w *txWorld[Tx]) replaysTx(keys *idempotency.TxKeys[Tx], req idempotency.Request, r idempotency.Response) {
	w.Helper()
	res, err := keys.InTx(w.ctx, req, w.never)
	if problem := differentAnswer(res.Response, r); err != nil || !res.Replayed || problem != "" {
		w.Errorf("a later InTx got Replayed %v, %v; %s", res.Replayed, err, problem)
	}
	res, err = w.doTx(keys, req, w.never)
	if problem := differentAnswer(res.Response, r); err != nil || !res.Replayed || problem != "" {
		w.Errorf("a later DoTx got Replayed %v, %v; %s", res.Replayed, err, problem)
	}
	w.replays(keys.Keys, req, r)
}

// standsTx fails the case unless later arrivals of req get want, by InTx, DoTx and Do.
func (w *txWorld[Tx]) standsTx(keys *idempotency.TxKeys[Tx], req idempotency.Request, want error) {
	w.Helper()
	if _, err := keys.InTx(w.ctx, req, w.never); !errors.Is(err, want) {
		w.Errorf("a later InTx got %v, want %v", err, want)
	}
	if _, err := w.doTx(keys, req, w.never); !errors.Is(err, want) {
		w.Errorf("a later DoTx got %v, want %v", err, want)
	}
	w.stands(keys.Keys, req, want)
}
