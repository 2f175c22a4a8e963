package idempotencytest

import (
	"context"
	"errors"
	"runtime"

	"github.com/fiftyhosts/fifty/txn"
)

// errTx is a caller's own error.
var errTx = errors.New("the caller's own error")

func txnCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"a transaction is committed when its function returns nil", (*txWorld[Tx]).commitsOnNil},
		{"a transaction is rolled back when its function returns an error, which is returned", (*txWorld[Tx]).rollsBackOnError},
		{"a transaction is rolled back when its function panics or ends its goroutine, which goes on", (*txWorld[Tx]).rollsBackOnPanic},
		{"a transaction under an ended context changes nothing", (*txWorld[Tx]).changesNothingUnderAnEndedContext},
		{"a savepoint that fails is undone, and the rest of the transaction stays usable", (*txWorld[Tx]).undoesAFailedSavepoint},
		{"a savepoint repairs a transaction that a failed statement broke", (*txWorld[Tx]).repairsByASavepoint},
		{"savepoints nest and come one after another", (*txWorld[Tx]).nestsSavepoints},
		{"an error that is not the store's is permanent", (*txWorld[Tx]).callsForeignErrorsPermanent},
	}
}

func (w *txWorld[Tx]) commitsOnNil() {
	for _, level := range []txn.Isolation{txn.DefaultIsolation, txn.ReadCommitted, txn.RepeatableRead, txn.Serializable} {
		name := effect(w.request())
		err := w.transact(w.ctx, txn.Options{Isolation: level}, func(ctx context.Context, tx Tx) error {
			if err := w.h.Effect(ctx, tx, name); err != nil {
				return err
			}
			if n, err := w.h.Effects(ctx, name); err != nil || n != 0 {
				w.Errorf("isolation %d: before the commit others see %d effects, %v", level, n, err)
			}
			return w.h.Effect(ctx, tx, name)
		})
		if err != nil {
			w.Errorf("isolation %d: %v", level, err)
		}
		w.has(name, 2)
	}
}

func (w *txWorld[Tx]) rollsBackOnError() {
	name := effect(w.request())
	err := w.h.Txns.Transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		return errors.Join(w.h.Effect(ctx, tx, name), errTx)
	})
	if !errors.Is(err, errTx) {
		w.Errorf("got %v, want the function's error", err)
	}
	w.has(name, 0)
}

func (w *txWorld[Tx]) rollsBackOnPanic() {
	for what, end := range map[string]func(){"panic": func() { panic(errTx) }, "Goexit": runtime.Goexit} {
		name := effect(w.request())
		done := make(chan any)
		returned := false
		go func() {
			defer func() { done <- recover() }()
			_ = w.h.Txns.Transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
				err := w.h.Effect(ctx, tx, name)
				end()
				return err
			})
			returned = true
		}()
		if v := <-done; returned || what == "panic" && v != errTx {
			w.Errorf("%s: it returned: %v; recovered: %v", what, returned, v)
		}
		w.has(name, 0)
	}
}

func (w *txWorld[Tx]) changesNothingUnderAnEndedContext() {
	name := effect(w.request())
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	err := w.h.Txns.Transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		return w.h.Effect(ctx, tx, name)
	})
	if err == nil {
		w.Errorf("it was committed")
	}
	ctx, cancel = context.WithCancel(w.ctx)
	err = w.h.Txns.Transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		defer cancel()
		return w.h.Effect(ctx, tx, name)
	})
	if err == nil {
		w.Errorf("it was committed, although its context ended before the commit")
	}
	w.has(name, 0)
}

func (w *txWorld[Tx]) undoesAFailedSavepoint() {
	before, inside, after := effect(w.request()), effect(w.request()), effect(w.request())
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		if err := w.h.Effect(ctx, tx, before); err != nil {
			return err
		}
		err := w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
			return errors.Join(w.h.Effect(ctx, tx, inside), errTx)
		})
		if !errors.Is(err, errTx) {
			w.Errorf("got %v, want the function's error", err)
		}
		return w.h.Effect(ctx, tx, after)
	})
	if err != nil {
		w.Errorf("the transaction: %v", err)
	}
	w.has(before, 1)
	w.has(inside, 0)
	w.has(after, 1)
}

func (w *txWorld[Tx]) repairsByASavepoint() {
	before, after := effect(w.request()), effect(w.request())
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		if err := w.h.Effect(ctx, tx, before); err != nil {
			return err
		}
		if err := w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error { return w.breaks(ctx, tx) }); err == nil {
			w.Errorf("the savepoint's error is gone")
		}
		return w.h.Effect(ctx, tx, after)
	})
	if err != nil {
		w.Errorf("the transaction: %v", err)
	}
	w.has(before, 1)
	w.has(after, 1)
}

func (w *txWorld[Tx]) nestsSavepoints() {
	outer, inner, kept, next := effect(w.request()), effect(w.request()), effect(w.request()), effect(w.request())
	err := w.transact(w.ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		_ = w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
			if err := w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
				return w.h.Effect(ctx, tx, inner)
			}); err != nil {
				w.Errorf("the inner savepoint: %v", err)
			}
			return errors.Join(w.h.Effect(ctx, tx, outer), errTx)
		})
		if err := w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
			_ = w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
				return errors.Join(w.h.Effect(ctx, tx, inner), errTx)
			})
			return w.h.Effect(ctx, tx, kept)
		}); err != nil {
			w.Errorf("the savepoint that stays: %v", err)
		}
		return w.h.Effect(ctx, tx, next)
	})
	if err != nil {
		w.Errorf("the transaction: %v", err)
	}
	for name, n := range map[string]int{outer: 0, inner: 0, kept: 1, next: 1} {
		w.has(name, n)
	}
}

func (w *txWorld[Tx]) callsForeignErrorsPermanent() {
	for _, classify := range []func(error) txn.Class{w.h.Txns.Classify, w.h.Store.Classify} {
		if got := classify(errTx); got != txn.Permanent {
			w.Errorf("%v is %v, want permanent", errTx, got)
		}
	}
	err := w.h.Txns.Transact(w.ctx, txn.Options{}, func(context.Context, Tx) error { return errTx })
	if got := w.h.Txns.Classify(err); got != txn.Permanent {
		w.Errorf("%v, as a transaction returned it, is %v, want permanent", err, got)
	}
}

// breaks runs a statement that fails in tx, or at least returns an error where the harness has none.
func (w *txWorld[Tx]) breaks(ctx context.Context, tx Tx) error {
	if w.h.Break == nil {
		return errTx
	}
	err := w.h.Break(ctx, tx)
	if err == nil {
		w.Errorf("Break returned no error")
		return errTx
	}
	return err
}
