package inventorytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// txWorld is a world with transactions.
type txWorld[Tx any] struct {
	*world
	h TxHarness[Tx]
}

var errUndo = errors.New("undo it")

// triesMax is how often a transaction is run that loses a race.
const triesMax = 10

// transact runs fn in one transaction, and again when it lost a race.
func (w *txWorld[Tx]) transact(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	var err error
	for range triesMax {
		if err = w.h.Txns.Transact(ctx, txn.Options{}, fn); err == nil || w.h.Txns.Classify(err) != txn.Retryable {
			return err
		}
	}
	return err
}

// committed runs fn in a transaction that must commit.
func (w *txWorld[Tx]) committed(fn func(ctx context.Context, tx Tx) error) {
	w.Helper()
	if err := w.transact(w.ctx, fn); err != nil {
		w.Fatalf("the transaction: %v", err)
	}
}

// undone runs fn in a transaction that is then rolled back.
func (w *txWorld[Tx]) undone(fn func(ctx context.Context, tx Tx) error) {
	w.Helper()
	err := w.transact(w.ctx, func(ctx context.Context, tx Tx) error { return errors.Join(fn(ctx, tx), errUndo) })
	if !errors.Is(err, errUndo) {
		w.Fatalf("the transaction: %v", err)
	}
}

// askTx asks within a transaction. An error of the answer is in it.
func (w *txWorld[Tx]) askTx(ctx context.Context, tx Tx, a inventory.Ask) (inventory.Answer, error) {
	if a.Act == inventory.Reserve {
		a.RefusalsMax = refusalsMax
		return w.h.Store.ReserveTx(ctx, tx, a)
	}
	return w.h.Store.SettleTx(ctx, tx, a)
}

// mustTx asks within a transaction, and must get a yes that leaves the hold in a state.
func (w *txWorld[Tx]) mustTx(ctx context.Context, tx Tx, a inventory.Ask, state inventory.State) error {
	got, err := w.askTx(ctx, tx, a)
	return asked{got, err}.is(state)
}

func (w *txWorld[Tx]) newAsk(items inventory.Items) inventory.Ask {
	a := inventory.Ask{Act: inventory.Reserve, ID: w.id(), Items: items, TTL: longTTL}
	w.asked[a.ID] = items
	return a
}

// effects fails the case unless so many effects of a name are committed.
func (w *txWorld[Tx]) effects(name string, want int) {
	w.Helper()
	if n, err := w.h.Effects(w.ctx, name); err != nil || n != want {
		w.Errorf("%d effects, %v; want %d", n, err, want)
	}
}

func txStockCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"a reservation and an order's row are committed together", func(w *txWorld[Tx]) {
			sku := w.sku(5)
			a := w.newAsk(inventory.Items{sku: 2})
			w.committed(func(ctx context.Context, tx Tx) error {
				err := errors.Join(w.mustTx(ctx, tx, a, inventory.Held), w.h.Effect(ctx, tx, a.ID))
				w.has(sku, 5, 0, 0) // nobody sees it before the commit
				return err
			})
			w.has(sku, 3, 2, 0)
			w.effects(a.ID, 1)
			w.yes(w.again(a.ID), inventory.Held, true)
			w.yes(w.confirm(a.ID), inventory.Confirmed, false)
		}},
		{"a reservation that is rolled back leaves nothing, and its id is new", func(w *txWorld[Tx]) {
			sku := w.sku(5)
			a := w.newAsk(inventory.Items{sku: 2})
			w.undone(func(ctx context.Context, tx Tx) error {
				return errors.Join(w.mustTx(ctx, tx, a, inventory.Held), w.h.Effect(ctx, tx, a.ID))
			})
			w.has(sku, 5, 0, 0)
			w.effects(a.ID, 0)
			w.no(w.confirm(a.ID), inventory.ErrNotFound)
			w.holdAs(a.ID, inventory.Items{sku: 4}, longTTL)
			w.has(sku, 1, 4, 0)
		}},
		{"a refusal stays if the transaction commits, and goes if it does not", func(w *txWorld[Tx]) {
			sku := w.sku(0)
			kept, lost := w.newAsk(inventory.Items{sku: 1}), w.newAsk(inventory.Items{sku: 1})
			refused := func(a inventory.Ask) func(ctx context.Context, tx Tx) error {
				return func(ctx context.Context, tx Tx) error {
					got, err := w.askTx(ctx, tx, a)
					return errors.Join(asked{got, err}.fails(inventory.ErrSoldOut), w.h.Effect(ctx, tx, a.ID))
				}
			}
			w.committed(refused(kept))
			w.undone(refused(lost))
			w.effects(kept.ID, 1) // a refusal does not harm the transaction
			w.effects(lost.ID, 0)
			w.restock(inventory.Items{sku: 2})
			w.soldOut(w.again(kept.ID), sku, 1, 0, true)
			w.yes(w.again(lost.ID), inventory.Held, false)
			w.has(sku, 1, 1, 0)
		}},
		{"a transaction sees what it has done itself", func(w *txWorld[Tx]) {
			sku, other := w.sku(5), w.split(6, 3)
			first, second := w.newAsk(inventory.Items{sku: 3, other: 4}), w.newAsk(inventory.Items{sku: 3})
			w.committed(func(ctx context.Context, tx Tx) error {
				err := w.mustTx(ctx, tx, first, inventory.Held)
				again, againErr := w.askTx(ctx, tx, first)
				if again.Err != nil || !again.Hold.Replayed {
					return fmt.Errorf("asked again in its transaction: %v, %w", show(again), againErr)
				}
				mismatch, mismatchErr := w.askTx(ctx, tx, inventory.Ask{Act: inventory.Reserve, ID: first.ID, Items: second.Items, TTL: longTTL})
				short, shortErr := w.askTx(ctx, tx, second)
				return errors.Join(err, againErr,
					asked{mismatch, mismatchErr}.fails(inventory.ErrMismatch),
					asked{short, shortErr}.fails(inventory.ErrSoldOut),
					w.mustTx(ctx, tx, inventory.Ask{Act: inventory.Extend, ID: first.ID, TTL: 2 * longTTL}, inventory.Held),
					w.mustTx(ctx, tx, inventory.Ask{Act: inventory.Confirm, ID: first.ID, Items: inventory.Items{sku: 1, other: 3}}, inventory.Confirmed),
					w.mustTx(ctx, tx, w.newAsk(inventory.Items{sku: 4}), inventory.Held))
			})
			w.has(sku, 0, 4, 1)
			w.has(other, 3, 0, 3)
			w.no(w.again(second.ID), inventory.ErrSoldOut)
		}},
		{"a confirm and a release are committed with the transaction, or not at all", func(w *txWorld[Tx]) {
			sku := w.sku(6)
			sold, back := w.hold(inventory.Items{sku: 2}, longTTL), w.hold(inventory.Items{sku: 3}, longTTL)
			settle := func(ctx context.Context, tx Tx) error {
				return errors.Join(
					w.mustTx(ctx, tx, inventory.Ask{Act: inventory.Confirm, ID: sold}, inventory.Confirmed),
					w.mustTx(ctx, tx, inventory.Ask{Act: inventory.Release, ID: back}, inventory.Released),
					w.h.Effect(ctx, tx, sold))
			}
			w.undone(settle)
			w.has(sku, 1, 5, 0)
			w.yes(w.again(sold), inventory.Held, true)
			w.committed(settle)
			w.has(sku, 4, 0, 2)
			w.effects(sold, 1)
			w.committed(settle) // a transaction that is run again, since its reply was lost
			w.has(sku, 4, 0, 2)
		}},
		{"an expired hold is confirmed in a transaction as without one", func(w *txWorld[Tx]) {
			sku, other := w.sku(2), w.sku(1)
			id, lapsed := w.hold(inventory.Items{sku: 2}, shortTTL), w.hold(inventory.Items{other: 1}, shortTTL)
			w.expired(sku, 2)
			w.expired(other, 1)
			w.hold(inventory.Items{other: 1}, longTTL)
			confirm := inventory.Ask{Act: inventory.Confirm, ID: id}
			w.undone(func(ctx context.Context, tx Tx) error { return w.mustTx(ctx, tx, confirm, inventory.Confirmed) })
			w.has(sku, 2, 0, 0)
			w.committed(func(ctx context.Context, tx Tx) error {
				late, err := w.askTx(ctx, tx, inventory.Ask{Act: inventory.Confirm, ID: lapsed})
				return errors.Join(w.mustTx(ctx, tx, confirm, inventory.Confirmed), asked{late, err}.fails(inventory.ErrHoldExpired))
			})
			w.has(sku, 0, 0, 2)
			w.has(other, 0, 1, 0)
			w.lapsed(w.confirm(lapsed), other, true)
		}},
		{"a savepoint that fails takes its reservation with it, and nothing else", func(w *txWorld[Tx]) {
			sku := w.sku(6)
			kept, lost := w.newAsk(inventory.Items{sku: 1}), w.newAsk(inventory.Items{sku: 3})
			w.committed(func(ctx context.Context, tx Tx) error {
				if err := w.mustTx(ctx, tx, kept, inventory.Held); err != nil {
					return err
				}
				err := w.h.Txns.Savepoint(ctx, tx, func(ctx context.Context) error {
					return errors.Join(w.mustTx(ctx, tx, lost, inventory.Held), errUndo)
				})
				if !errors.Is(err, errUndo) {
					return fmt.Errorf("the savepoint: %w", err)
				}
				return w.mustTx(ctx, tx, w.newAsk(inventory.Items{sku: 5}), inventory.Held)
			})
			w.has(sku, 0, 6, 0)
			w.no(w.confirm(lost.ID), inventory.ErrNotFound)
			w.yes(w.again(kept.ID), inventory.Held, true)
		}},
		{"bad input and a missing hold are answers that leave the transaction usable", func(w *txWorld[Tx]) {
			sku := w.sku(5)
			s := inventory.NewTx(w.h.Store, inventory.Config{})
			id, unknown := w.id(), w.name("unknown")
			w.committed(func(ctx context.Context, tx Tx) error {
				_, zero := s.ReserveTx(ctx, tx, id, inventory.Items{sku: 0}, longTTL)
				_, forever := s.ReserveTx(ctx, tx, id, inventory.Items{sku: 1}, 1<<62)
				_, nobody := s.ConfirmTx(ctx, tx, id)
				_, nothing := s.ReleaseTx(ctx, tx, id)
				_, missing := s.ReserveTx(ctx, tx, id, inventory.Items{unknown: 1, sku: 1}, longTTL)
				w.invalid("zero", zero)
				w.invalid("for ever", forever)
				for _, err := range []error{nobody, nothing} {
					w.no(inventory.Answer{Err: err}, inventory.ErrNotFound)
				}
				w.unknown(missing, unknown)
				_, err := s.ReserveTx(ctx, tx, id, inventory.Items{sku: 1}, longTTL)
				return errors.Join(err, w.h.Effect(ctx, tx, id))
			})
			w.has(sku, 4, 1, 0)
			w.effects(id, 1)
		}},
	}
}
