package inventorytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/internal/suite"
	"github.com/fiftyhosts/fifty/inventory"
)

// asksTx is a caller that asks in a transaction of its own, with an effect if the answer is a yes. After
// anything else it is rolled back.
func (w *txWorld[Tx]) asksTx(a inventory.Ask, to *asked) func(ctx context.Context) {
	if a.Act == inventory.Reserve {
		w.asked[a.ID] = a.Items
	}
	return func(ctx context.Context) {
		err := w.transact(ctx, func(ctx context.Context, tx Tx) error {
			*to = asked{}
			if to.got, to.err = w.askTx(ctx, tx, a); to.err != nil {
				return to.err
			}
			interleave.Point(ctx, "effect")
			return errors.Join(to.got.Err, w.h.Effect(ctx, tx, a.ID))
		})
		if to.err == nil && to.got.Err == nil {
			to.err = err
		}
	}
}

func (w *txWorld[Tx]) reservesTx(id string, items inventory.Items, to *asked) func(ctx context.Context) {
	return w.asksTx(inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: longTTL}, to)
}

// effectsAre fails unless so many effects of the names together are committed.
func (w *txWorld[Tx]) effectsAre(want int, names ...string) error {
	all := 0
	for _, name := range names {
		n, err := w.h.Effects(w.ctx, name)
		if err != nil {
			return err
		}
		all += n
	}
	if all != want {
		return fmt.Errorf("%d effects, want %d", all, want)
	}
	return nil
}

var ofTx = suite.Size{Min: 4, All: 60}

func txRaceCases[Tx any]() []txClaim[Tx] {
	return []txClaim[Tx]{
		{"in every order one of two transactions gets the last unit", func(w *txWorld[Tx]) {
			w.race(ofTx, func() interleave.Case {
				sku, a, b := w.sku(1), w.id(), w.id()
				var one, two asked
				callers := []func(context.Context){w.reservesTx(a, inventory.Items{sku: 1}, &one), w.reservesTx(b, inventory.Items{sku: 1}, &two)}
				return interleave.Case{Callers: callers, Check: func() error {
					won, lost := one, two
					if one.got.Err != nil {
						won, lost = two, one
					}
					return errors.Join(won.is(inventory.Held), lost.fails(inventory.ErrSoldOut), w.mustHave(sku, 0, 1, 0), w.effectsAre(1, a, b))
				}}
			})
		}},
		{"in every order a transaction and an order by itself get the last unit once", func(w *txWorld[Tx]) {
			w.race(ofTx, func() interleave.Case {
				sku, a, b := w.sku(1), w.id(), w.id()
				var one, two asked
				callers := []func(context.Context){w.reservesTx(a, inventory.Items{sku: 1}, &one), w.reserves(b, inventory.Items{sku: 1}, &two)}
				return interleave.Case{Callers: callers, Check: func() error {
					if one.got.Err == nil {
						return errors.Join(one.is(inventory.Held), two.fails(inventory.ErrSoldOut), w.mustHave(sku, 0, 1, 0), w.effectsAre(1, a))
					}
					return errors.Join(one.fails(inventory.ErrSoldOut), two.is(inventory.Held), w.mustHave(sku, 0, 1, 0), w.effectsAre(0, a))
				}}
			})
		}},
		{"in every order one id in two transactions is one hold", func(w *txWorld[Tx]) {
			w.race(ofTx, func() interleave.Case {
				sku, id := w.sku(2), w.id()
				var one, two asked
				callers := []func(context.Context){w.reservesTx(id, inventory.Items{sku: 2}, &one), w.reservesTx(id, inventory.Items{sku: 2}, &two)}
				return interleave.Case{Callers: callers, Check: func() error {
					if one.got.Hold.Replayed == two.got.Hold.Replayed {
						return errors.New("both or none of them are replays")
					}
					return errors.Join(one.is(inventory.Held), two.is(inventory.Held), w.mustHave(sku, 0, 2, 0), w.effectsAre(2, id))
				}}
			})
		}},
		{"in every order one id with two SKUs in two transactions is one hold", func(w *txWorld[Tx]) {
			w.race(ofTx, func() interleave.Case {
				first, second, id := w.sku(1), w.sku(1), w.id()
				var a, b asked
				callers := []func(context.Context){w.reservesTx(id, inventory.Items{first: 1}, &a), w.reservesTx(id, inventory.Items{second: 1}, &b)}
				return interleave.Case{Callers: callers, Check: func() error {
					won, lost, taken, free := a, b, first, second
					if a.got.Err != nil {
						won, lost, taken, free = b, a, second, first
					}
					return errors.Join(won.is(inventory.Held), lost.fails(inventory.ErrMismatch),
						w.mustHave(taken, 0, 1, 0), w.mustHave(free, 1, 0, 0), w.effectsAre(1, id))
				}}
			})
		}},
		{"in every order one of a late confirm in a transaction and the next reservation gets the units", func(w *txWorld[Tx]) {
			next := w.expiredHolds(2, several)
			w.race(ofRipe, func() interleave.Case {
				h, id := next(), w.id()
				var sold, got asked
				confirm := w.asksTx(inventory.Ask{Act: inventory.Confirm, ID: h.id}, &sold)
				callers := []func(context.Context){confirm, w.reserves(id, inventory.Items{h.sku: 2}, &got)}
				return interleave.Case{Callers: callers, Check: func() error {
					// A transaction that could not sell was rolled back, so its hold may yet find units.
					if sold.got.Err == nil {
						return errors.Join(w.eitherOr(h, sold, got, id), w.effectsAre(1, h.id))
					}
					return errors.Join(sold.fails(inventory.ErrHoldExpired), got.is(inventory.Held), w.mustHave(h.sku, 0, 2, 0), w.effectsAre(0, h.id))
				}}
			})
		}},
		{"in every order a transaction and a sweep agree", func(w *txWorld[Tx]) {
			next := ripe(w.world, 1, func() (expiredHold, string, int64) {
				sku := w.sku(4)
				sold := w.hold(inventory.Items{sku: 1}, longTTL)
				w.yes(w.confirm(sold), inventory.Confirmed, false)
				for range 2 {
					w.no(w.reserve(w.id(), inventory.Items{sku: 9}, longTTL), inventory.ErrSoldOut)
				}
				return expiredHold{sku, w.hold(inventory.Items{sku: 2}, shortTTL), 2}, sku, 3
			})
			w.race(ofRipe, func() interleave.Case {
				h, id := next(), w.id()
				var got asked
				var swept error
				callers := []func(context.Context){w.reservesTx(id, inventory.Items{h.sku: 3}, &got), w.sweeps(shortAge, &swept)}
				return interleave.Case{Callers: callers, Check: func() error {
					err := errors.Join(swept, got.is(inventory.Held), w.mustHave(h.sku, 0, 3, 1))
					if err == nil && w.f.NoLedger == "" {
						err = w.mustBeSound()
					}
					return err
				}}
			})
		}},
		{"in every order a transaction finds the last unit while its SKU is split", func(w *txWorld[Tx]) {
			if w.f.NoSplit != "" {
				return
			}
			w.race(ofTx, func() interleave.Case {
				sku, id := w.split(2, 2), w.id()
				var got asked
				var split error
				callers := []func(context.Context){w.reservesTx(id, inventory.Items{sku: 2}, &got), w.splits(sku, 3, &split)}
				return interleave.Case{Callers: callers, Check: func() error {
					return errors.Join(split, got.is(inventory.Held), w.mustHave(sku, 0, 2, 0), w.effectsAre(1, id))
				}}
			})
		}},
	}
}
