package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/inventory"
)

// expiredHold is one whose time is over, and its SKU.
type expiredHold struct {
	sku, id string
	units   int64 // of the hold; the SKU has no others
}

// expiredHolds is a source of them; see ripe.
func (w *world) expiredHolds(units int64, most int) func() expiredHold {
	return ripe(w, most, func() (expiredHold, string, int64) {
		sku := w.sku(units)
		return expiredHold{sku, w.hold(inventory.Items{sku: units}, shortTTL), units}, sku, units
	})
}

// sweeps is a caller that sweeps.
func (w *world) sweeps(keep time.Duration, to *error) func(ctx context.Context) {
	return func(ctx context.Context) { _, *to = w.store.Sweep(ctx, keep, sweepMost) }
}

// eitherOr checks that a confirm of an expired hold and a reservation of its units exclude each other.
func (w *world) eitherOr(h expiredHold, sold, got asked, next string) error {
	if sold.got.Err == nil {
		return errors.Join(sold.is(inventory.Confirmed), got.fails(inventory.ErrSoldOut),
			w.stands(h.sku, h.units, h.id, next), w.mustHave(h.sku, 0, 0, h.units))
	}
	return errors.Join(sold.fails(inventory.ErrHoldExpired), got.is(inventory.Held),
		w.stands(h.sku, h.units, h.id, next), w.mustHave(h.sku, 0, h.units, 0))
}

var expiredRaceCases = []claim{
	{"in every order one of a late confirm and the next reservation gets the units", func(w *world) {
		next := w.expiredHolds(2, several)
		w.race(ofRipe, func() interleave.Case {
			h, id := next(), w.id()
			var sold, got asked
			return interleave.Case{
				Callers: []func(context.Context){w.confirms(h.id, &sold), w.reserves(id, inventory.Items{h.sku: 2}, &got)},
				Check:   func() error { return w.eitherOr(h, sold, got, id) },
			}
		})
	}},
	{"in every order a late confirm, the next reservation and a sweep sell the units once", func(w *world) {
		next := w.expiredHolds(1, several)
		w.race(ofThree, func() interleave.Case {
			h, id := next(), w.id()
			var sold, got asked
			var swept error
			return interleave.Case{
				Callers: []func(context.Context){w.confirms(h.id, &sold), w.reserves(id, inventory.Items{h.sku: 1}, &got), w.sweeps(longKeep, &swept)},
				Check:   func() error { return errors.Join(swept, w.eitherOr(h, sold, got, id)) },
			}
		})
	}},
	{"in every order units of an expired hold are given to one of two", func(w *world) {
		next := w.expiredHolds(1, several)
		w.race(ofRipe, w.sale(2, func() (string, int64, func() string) { return next().sku, 1, w.id }))
	}},
	{"in every order units of an expired hold are freed once, whoever does it", func(w *world) {
		next := w.expiredHolds(3, several)
		w.race(ofThree, func() interleave.Case {
			h, id := next(), w.id()
			var back, got asked
			var swept error
			callers := []func(context.Context){w.releases(h.id, &back), w.reserves(id, inventory.Items{h.sku: 1}, &got), w.sweeps(longKeep, &swept)}
			return interleave.Case{Callers: callers, Check: func() error {
				return errors.Join(swept, back.is(inventory.Released), got.is(inventory.Held), w.stands(h.sku, 3, h.id, id), w.mustHave(h.sku, 2, 1, 0))
			}}
		})
	}},
	{"in every order an extension of an expired hold revives nothing", func(w *world) {
		next := w.expiredHolds(1, several)
		w.race(ofRipe, func() interleave.Case {
			h, id := next(), w.id()
			var more, got asked
			return interleave.Case{
				Callers: []func(context.Context){w.extends(h.id, &more), w.reserves(id, inventory.Items{h.sku: 1}, &got)},
				Check: func() error {
					return errors.Join(more.fails(inventory.ErrHoldExpired), got.is(inventory.Held), w.mustHave(h.sku, 0, 1, 0))
				},
			}
		})
	}},
	{"in every order a late confirm and a release exclude each other", func(w *world) {
		next := w.expiredHolds(2, several)
		w.race(ofRipe, func() interleave.Case {
			h := next()
			var sold, back asked
			return interleave.Case{Callers: []func(context.Context){w.confirms(h.id, &sold), w.releases(h.id, &back)}, Check: func() error {
				if sold.got.Err == nil {
					return errors.Join(sold.is(inventory.Confirmed), back.fails(inventory.ErrState), w.mustHave(h.sku, 0, 0, 2))
				}
				return errors.Join(back.is(inventory.Released), sold.fails(inventory.ErrState), w.mustHave(h.sku, 2, 0, 0))
			}}
		})
	}},
	{"in every order one of two late confirms gets the only unit that is left", func(w *world) {
		type two struct{ sku, a, b string }
		next := ripe(w, several, func() (two, string, int64) {
			sku := w.sku(2)
			h := two{sku, w.hold(inventory.Items{sku: 1}, shortTTL), w.hold(inventory.Items{sku: 1}, shortTTL)}
			return h, sku, 2
		})
		w.race(ofRipe, func() interleave.Case {
			h := next()
			w.hold(inventory.Items{h.sku: 1}, longTTL)
			var a, b asked
			return interleave.Case{Callers: []func(context.Context){w.confirms(h.a, &a), w.confirms(h.b, &b)}, Check: func() error {
				won, lost := a, b
				if a.got.Err != nil {
					won, lost = b, a
				}
				return errors.Join(won.is(inventory.Confirmed), lost.fails(inventory.ErrHoldExpired), w.mustHave(h.sku, 0, 1, 1))
			}}
		})
	}},
	{"in every order a withdrawal and a late confirm exclude each other", func(w *world) {
		next := w.expiredHolds(1, several)
		w.race(ofRipe, func() interleave.Case {
			h := next()
			var sold asked
			var away error
			d := inventory.Delivery{ID: w.id(), Items: inventory.Items{h.sku: 1}, Away: true}
			return interleave.Case{Callers: []func(context.Context){w.confirms(h.id, &sold), w.delivers(d, &away)}, Check: func() error {
				if away == nil {
					return errors.Join(sold.fails(inventory.ErrHoldExpired), w.mustHave(h.sku, 0, 0, 0))
				}
				if !errors.Is(away, inventory.ErrSoldOut) {
					return away
				}
				return errors.Join(sold.is(inventory.Confirmed), w.mustHave(h.sku, 0, 0, 1))
			}}
		})
	}},
	{"in every order a sweep frees nothing that is confirmed, and forgets it at most", func(w *world) {
		next := w.expiredHolds(1, 1)
		w.race(ofRipe, func() interleave.Case {
			h := next()
			var sold asked
			var swept error
			return interleave.Case{Callers: []func(context.Context){w.confirms(h.id, &sold), w.sweeps(shortAge, &swept)}, Check: func() error {
				if swept != nil || sold.err != nil {
					return errors.Join(swept, sold.err)
				}
				if err := sweptOrNot(sold.got, inventory.Confirmed); err != nil {
					return err
				}
				if sold.got.Err != nil {
					return w.mustHave(h.sku, 1, 0, 0)
				}
				return w.mustHave(h.sku, 0, 0, 1)
			}}
		})
	}},
	{"in every order two sweeps forget everything once", func(w *world) {
		next := ripe(w, 1, func() (expiredHold, string, int64) {
			sku := w.sku(4)
			id := w.hold(inventory.Items{sku: 1}, longTTL)
			w.yes(w.confirm(id), inventory.Confirmed, false)
			w.no(w.reserve(w.id(), inventory.Items{sku: 9}, longTTL), inventory.ErrSoldOut)
			return expiredHold{sku, w.hold(inventory.Items{sku: 2}, shortTTL), 2}, sku, 3
		})
		w.race(ofRipe, func() interleave.Case {
			h := next()
			var a, b error
			return interleave.Case{Callers: []func(context.Context){w.sweeps(shortAge, &a), w.sweeps(shortAge, &b)}, Check: func() error {
				err := errors.Join(a, b, w.mustHave(h.sku, 3, 0, 1))
				if err == nil && w.f.NoLedger == "" {
					err = w.mustBeSound()
				}
				return err
			}}
		})
	}},
}

// splits is a caller that splits.
func (w *world) splits(sku string, buckets int, to *error) func(ctx context.Context) {
	splitter := w.splitter()
	return func(ctx context.Context) { *to = splitter.Split(ctx, sku, buckets) }
}

var splitRaceCases = []claim{
	{"in every order a reservation finds the last unit while its SKU is split", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku, id := w.sku(1), w.id()
			var got asked
			var split error
			return interleave.Case{
				Callers: []func(context.Context){w.reserves(id, inventory.Items{sku: 1}, &got), w.splits(sku, 3, &split)},
				Check: func() error {
					return errors.Join(split, got.is(inventory.Held), w.stands(sku, 1, id), w.mustHave(sku, 0, 1, 0))
				},
			}
		})
	}},
	{"in every order a split between two reservations sells the last unit once", func(w *world) {
		w.race(ofThree, func() interleave.Case {
			sku := w.split(1, 2)
			home := 0
			c := w.sale(2, func() (string, int64, func() string) {
				return sku, 1, func() string { home++; return w.idAt(home%2, 2) }
			})()
			var split error
			check := c.Check
			c.Callers = append(c.Callers, w.splits(sku, 1, &split))
			c.Check = func() error { return errors.Join(split, check()) }
			return c
		})
	}},
	{"in every order a hold is settled while its SKU is split", func(w *world) {
		w.race(ofThree, func() interleave.Case {
			sku := w.split(4, 2)
			first, second := w.hold(inventory.Items{sku: 3}, longTTL), w.hold(inventory.Items{sku: 1}, longTTL)
			var sold, back asked
			var split error
			callers := []func(context.Context){w.confirms(first, &sold), w.releases(second, &back), w.splits(sku, 3, &split)}
			return interleave.Case{Callers: callers, Check: func() error {
				return errors.Join(split, sold.is(inventory.Confirmed), back.is(inventory.Released), w.stands(sku, 4, first, second), w.mustHave(sku, 1, 0, 3))
			}}
		})
	}},
	{"in every order a unit that moves between buckets is found", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			// There is a unit at every moment: first in bucket 0, and once the hold in bucket 1 is released, there.
			sku := w.split(2, 2)
			held, mover, probe := w.idAt(1, 2), w.idAt(0, 2), w.idAt(1, 2)
			w.holdAs(held, inventory.Items{sku: 1}, longTTL)
			var back, moved, got asked
			release, reserve := w.releases(held, &back), w.reserves(mover, inventory.Items{sku: 1}, &moved)
			callers := []func(context.Context){w.reserves(probe, inventory.Items{sku: 1}, &got), func(ctx context.Context) {
				release(ctx)
				reserve(ctx)
			}}
			return interleave.Case{Callers: callers, Check: func() error {
				if err := errors.Join(back.is(inventory.Released), got.is(inventory.Held), moved.is(inventory.Held)); err != nil {
					return fmt.Errorf("a unit was there all the time: %w", err)
				}
				return errors.Join(w.stands(sku, 2, mover, probe), w.mustHave(sku, 0, 2, 0))
			}}
		})
	}},
	{"in every order the last units of a split SKU are sold once", func(w *world) {
		w.race(ofThree, func() interleave.Case {
			home := 0
			return w.sale(3, func() (string, int64, func() string) {
				return w.split(2, 2), 2, func() string { home++; return w.idAt(home%2, 2) }
			})()
		})
	}},
	{"in every order one of two orders that are larger than a bucket is held", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.split(4, 2)
			a, b := w.idAt(0, 2), w.idAt(1, 2)
			var one, two asked
			callers := []func(context.Context){w.reserves(a, inventory.Items{sku: 3}, &one), w.reserves(b, inventory.Items{sku: 3}, &two)}
			return interleave.Case{Callers: callers, Check: func() error {
				won, lost := one, two
				if one.got.Err != nil {
					won, lost = two, one
				}
				return errors.Join(won.is(inventory.Held), lost.fails(inventory.ErrSoldOut), w.stands(sku, 4, a, b), w.mustHave(sku, 1, 3, 0))
			}}
		})
	}},
}
