package inventorytest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/inventory"
)

// asked is what one caller of a race got.
type asked struct {
	got inventory.Answer
	err error
}

// asks is a caller that asks one thing.
func (w *world) asks(a inventory.Ask, to *asked) func(ctx context.Context) {
	if a.Act == inventory.Reserve {
		w.asked[a.ID] = a.Items
	}
	return func(ctx context.Context) { to.got, to.err = w.ask(ctx, a) }
}

func (w *world) reserves(id string, items inventory.Items, to *asked) func(ctx context.Context) {
	return w.asks(inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: longTTL}, to)
}

func (w *world) confirms(id string, to *asked) func(ctx context.Context) {
	return w.asks(inventory.Ask{Act: inventory.Confirm, ID: id}, to)
}

func (w *world) releases(id string, to *asked) func(ctx context.Context) {
	return w.asks(inventory.Ask{Act: inventory.Release, ID: id}, to)
}

func (w *world) extends(id string, to *asked) func(ctx context.Context) {
	return w.asks(inventory.Ask{Act: inventory.Extend, ID: id, TTL: 2 * longTTL}, to)
}

// delivers is a caller with a delivery.
func (w *world) delivers(d inventory.Delivery, to *error) func(ctx context.Context) {
	return func(ctx context.Context) { *to = w.store.Supply(ctx, d) }
}

// answered fails unless each caller got an answer, whatever it is.
func answered(all ...asked) error {
	for i, a := range all {
		if a.err != nil {
			return fmt.Errorf("caller %d got no answer: %w", i, a.err)
		}
	}
	return nil
}

// is fails unless an answer is a yes that left the hold in a state.
func (a asked) is(state inventory.State) error {
	if a.err != nil {
		return a.err
	}
	if a.got.Err != nil || a.got.Hold.State != state {
		return fmt.Errorf("got %v, want %v", show(a.got), state)
	}
	return nil
}

// fails fails unless an answer is an error of a kind.
func (a asked) fails(kind error) error {
	if a.err != nil {
		return a.err
	}
	if !errors.Is(a.got.Err, kind) {
		return fmt.Errorf("got %v, want %q", show(a.got), kind)
	}
	return nil
}

// stands asks for an order again: what was said first must be said again. Then it adds up what its SKU must
// have, by what every order of the race has become.
func (w *world) stands(sku string, supply int64, ids ...string) error {
	var held, sold int64
	for _, id := range ids {
		got, err := w.ask(w.ctx, inventory.Ask{Act: inventory.Reserve, ID: id, Items: w.asked[id], TTL: longTTL})
		if err != nil {
			return err
		}
		if !got.Hold.Replayed {
			return fmt.Errorf("order %s was forgotten: asked again it got %v", id, show(got))
		}
		switch got.Hold.State {
		case inventory.Held:
			held += got.Hold.Items[sku]
		case inventory.Confirmed:
			sold += got.Hold.Sold[sku]
		}
	}
	return w.mustHave(sku, supply-held-sold, held, sold)
}

// sale races n buyers of one unit each for some units.
func (w *world) sale(n int, begin func() (sku string, units int64, id func() string)) func() interleave.Case {
	return func() interleave.Case {
		sku, units, newID := begin()
		ids, results := make([]string, n), make([]asked, n)
		c := interleave.Case{Check: func() error {
			got := int64(0)
			for _, r := range results {
				if r.err == nil && r.got.Err == nil {
					got++
					continue
				}
				if err := r.fails(inventory.ErrSoldOut); err != nil {
					return err
				}
			}
			if got != min(units, int64(n)) {
				return fmt.Errorf("%d of %d got one of %d units", got, n, units)
			}
			if err := w.stands(sku, units, ids...); err != nil {
				return err
			}
			return w.mustHave(sku, units-got, got, 0)
		}}
		for i := range n {
			ids[i] = newID()
			c.Callers = append(c.Callers, w.reserves(ids[i], inventory.Items{sku: 1}, &results[i]))
		}
		return c
	}
}

var raceCases = []claim{
	{"in every order one of two reservations gets the last unit", func(w *world) {
		w.race(ofTwo, w.sale(2, func() (string, int64, func() string) { return w.sku(1), 1, w.id }))
	}},
	{"in every order two of three reservations get the last two units", func(w *world) {
		w.race(ofThree, w.sale(3, func() (string, int64, func() string) { return w.sku(2), 2, w.id }))
	}},
	{"in every order an order that is sent twice is held once", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku, id := w.sku(1), w.id()
			var a, b asked
			return interleave.Case{
				Callers: []func(context.Context){w.reserves(id, inventory.Items{sku: 1}, &a), w.reserves(id, inventory.Items{sku: 1}, &b)},
				Check: func() error {
					if err := errors.Join(a.is(inventory.Held), b.is(inventory.Held)); err != nil {
						return err
					}
					if a.got.Hold.Replayed == b.got.Hold.Replayed {
						return fmt.Errorf("replayed: %v and %v, want one of them", a.got.Hold.Replayed, b.got.Hold.Replayed)
					}
					return errors.Join(w.stands(sku, 1, id), w.mustHave(sku, 0, 1, 0))
				},
			}
		})
	}},
	{"in every order an order that is refused twice is refused once", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku, id := w.sku(0), w.id()
			var a, b asked
			return interleave.Case{
				Callers: []func(context.Context){w.reserves(id, inventory.Items{sku: 1}, &a), w.reserves(id, inventory.Items{sku: 1}, &b)},
				Check: func() error {
					if err := errors.Join(a.fails(inventory.ErrSoldOut), b.fails(inventory.ErrSoldOut)); err != nil {
						return err
					}
					if a.got.Hold.Replayed == b.got.Hold.Replayed {
						return errors.New("both or none of them are replays")
					}
					return w.stands(sku, 0, id)
				},
			}
		})
	}},
	{"in every order one id with two SKUs is one hold and one mismatch", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			first, second, id := w.sku(1), w.sku(1), w.id()
			var a, b asked
			callers := []func(context.Context){w.reserves(id, inventory.Items{first: 1}, &a), w.reserves(id, inventory.Items{second: 1}, &b)}
			return interleave.Case{Callers: callers, Check: func() error {
				won, lost, taken, free := a, b, first, second
				if a.got.Err != nil {
					won, lost, taken, free = b, a, second, first
				}
				return errors.Join(won.is(inventory.Held), lost.fails(inventory.ErrMismatch), w.mustHave(taken, 0, 1, 0), w.mustHave(free, 1, 0, 0))
			}}
		})
	}},
	{"in every order orders that cross are held as a whole, one of them", func(w *world) {
		w.race(ofThree, func() interleave.Case {
			x, y, z := w.sku(1), w.sku(1), w.sku(1)
			orders := []inventory.Items{{x: 1, y: 1}, {y: 1, z: 1}, {x: 1, z: 1}}
			results, ids := make([]asked, 3), make([]string, 3)
			c := interleave.Case{Check: func() error {
				held := map[string]int64{}
				yes := 0
				for i, r := range results {
					if r.got.Err == nil && r.err == nil {
						yes++
						for sku := range orders[i] {
							held[sku]++
						}
					} else if err := r.fails(inventory.ErrSoldOut); err != nil {
						return err
					}
				}
				if yes != 1 {
					return fmt.Errorf("%d of three orders were held", yes)
				}
				for _, sku := range []string{x, y, z} {
					if err := w.stands(sku, 1, ids...); err != nil {
						return err
					}
					if err := w.mustHave(sku, 1-held[sku], held[sku], 0); err != nil {
						return err
					}
				}
				return nil
			}}
			for i := range orders {
				ids[i] = w.id()
				c.Callers = append(c.Callers, w.reserves(ids[i], orders[i], &results[i]))
			}
			return c
		})
	}},
	{"in every order batches that cross are all answered", func(w *world) { w.race(ofTwo, w.crossingBatches) }},
	{"in every order one of confirm and release wins", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(2)
			id := w.hold(inventory.Items{sku: 1}, longTTL)
			var sold, back asked
			return interleave.Case{
				Callers: []func(context.Context){w.confirms(id, &sold), w.releases(id, &back)},
				Check: func() error {
					if sold.got.Err == nil {
						return errors.Join(sold.is(inventory.Confirmed), back.fails(inventory.ErrState), w.mustHave(sku, 1, 0, 1))
					}
					return errors.Join(back.is(inventory.Released), sold.fails(inventory.ErrState), w.mustHave(sku, 2, 0, 0))
				},
			}
		})
	}},
	{"in every order two releases give back once", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(2)
			id := w.hold(inventory.Items{sku: 1}, longTTL)
			w.hold(inventory.Items{sku: 1}, longTTL)
			var a, b asked
			return interleave.Case{
				Callers: []func(context.Context){w.releases(id, &a), w.releases(id, &b)},
				Check: func() error {
					if a.got.Hold.Replayed == b.got.Hold.Replayed {
						return errors.New("both or none of them are replays")
					}
					return errors.Join(a.is(inventory.Released), b.is(inventory.Released), w.mustHave(sku, 1, 1, 0))
				},
			}
		})
	}},
	{"in every order two confirms sell once", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(2)
			id := w.hold(inventory.Items{sku: 2}, longTTL)
			var a, b, part asked
			return interleave.Case{
				Callers: []func(context.Context){w.confirms(id, &a), w.confirms(id, &b)},
				Check: func() error {
					w.asks(inventory.Ask{Act: inventory.Confirm, ID: id, Items: inventory.Items{sku: 1}}, &part)(w.ctx)
					if a.got.Hold.Replayed == b.got.Hold.Replayed {
						return errors.New("both or none of them are replays")
					}
					return errors.Join(a.is(inventory.Confirmed), b.is(inventory.Confirmed), part.fails(inventory.ErrMismatch), w.mustHave(sku, 0, 0, 2))
				},
			}
		})
	}},
	{"in every order one of two confirms of different parts wins", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(5)
			id := w.hold(inventory.Items{sku: 5}, longTTL)
			var one, two asked
			confirm := func(units int64, to *asked) func(context.Context) {
				return w.asks(inventory.Ask{Act: inventory.Confirm, ID: id, Items: inventory.Items{sku: units}}, to)
			}
			return interleave.Case{Callers: []func(context.Context){confirm(1, &one), confirm(2, &two)}, Check: func() error {
				if one.got.Err == nil {
					return errors.Join(one.is(inventory.Confirmed), two.fails(inventory.ErrMismatch), w.mustHave(sku, 4, 0, 1))
				}
				return errors.Join(two.is(inventory.Confirmed), one.fails(inventory.ErrMismatch), w.mustHave(sku, 3, 0, 2))
			}}
		})
	}},
	{"in every order an extension changes nothing of what was settled", func(w *world) {
		w.race(ofThree, func() interleave.Case {
			sku := w.sku(3)
			id := w.hold(inventory.Items{sku: 2}, longTTL)
			var more, sold, other asked
			callers := []func(context.Context){w.extends(id, &more), w.confirms(id, &sold), w.reserves(w.id(), inventory.Items{sku: 1}, &other)}
			return interleave.Case{Callers: callers, Check: func() error {
				if more.got.Err != nil {
					if err := more.fails(inventory.ErrState); err != nil {
						return err
					}
				}
				return errors.Join(answered(more), sold.is(inventory.Confirmed), other.is(inventory.Held), w.mustHave(sku, 0, 1, 2))
			}}
		})
	}},
	{"in every order a release and a reservation of its unit agree", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(1)
			id, next := w.hold(inventory.Items{sku: 1}, longTTL), w.id()
			var back, got asked
			callers := []func(context.Context){w.releases(id, &back), w.reserves(next, inventory.Items{sku: 1}, &got)}
			return interleave.Case{Callers: callers, Check: func() error {
				if got.got.Err != nil {
					return errors.Join(back.is(inventory.Released), got.fails(inventory.ErrSoldOut), w.stands(sku, 1, id, next), w.mustHave(sku, 1, 0, 0))
				}
				return errors.Join(back.is(inventory.Released), got.is(inventory.Held), w.stands(sku, 1, id, next), w.mustHave(sku, 0, 1, 0))
			}}
		})
	}},
	{"in every order a delivery that is sent twice counts once", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.sku(1)
			d := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 5}}
			var a, b error
			return interleave.Case{
				Callers: []func(context.Context){w.delivers(d, &a), w.delivers(d, &b)},
				Check:   func() error { return errors.Join(a, b, w.mustHave(sku, 6, 0, 0)) },
			}
		})
	}},
	{"in every order two deliveries of a new SKU both count", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku := w.name("sku")
			w.skus[sku] = true
			var a, b error
			one := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 1}, Buckets: 2}
			two := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 2}}
			return interleave.Case{
				Callers: []func(context.Context){w.delivers(one, &a), w.delivers(two, &b)},
				Check:   func() error { return errors.Join(a, b, w.mustHave(sku, 3, 0, 0)) },
			}
		})
	}},
	{"in every order one of a withdrawal and a reservation gets the last unit", func(w *world) {
		w.race(ofTwo, func() interleave.Case {
			sku, id := w.sku(1), w.id()
			var away error
			var got asked
			d := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 1}, Away: true}
			return interleave.Case{Callers: []func(context.Context){w.delivers(d, &away), w.reserves(id, inventory.Items{sku: 1}, &got)}, Check: func() error {
				if away == nil {
					return errors.Join(got.fails(inventory.ErrSoldOut), w.stands(sku, 0, id), w.mustHave(sku, 0, 0, 0))
				}
				if !errors.Is(away, inventory.ErrSoldOut) {
					return away
				}
				return errors.Join(got.is(inventory.Held), w.mustHave(sku, 0, 1, 0))
			}}
		})
	}},
}

// crossingBatches is a race of two batches with the same orders the other way round.
func (w *world) crossingBatches() interleave.Case {
	x, y := w.sku(1), w.sku(1)
	asks := []inventory.Ask{
		{Act: inventory.Reserve, ID: w.id(), Items: inventory.Items{x: 1}, TTL: longTTL, RefusalsMax: refusalsMax},
		{Act: inventory.Reserve, ID: w.id(), Items: inventory.Items{y: 1}, TTL: longTTL, RefusalsMax: refusalsMax},
	}
	w.asked[asks[0].ID], w.asked[asks[1].ID] = asks[0].Items, asks[1].Items
	var got [2][]inventory.Answer
	var errs [2]error
	batch := func(i int, asks ...inventory.Ask) func(context.Context) {
		return func(ctx context.Context) { got[i], errs[i] = w.store.Reserve(ctx, asks) }
	}
	return interleave.Case{
		Callers: []func(context.Context){batch(0, asks[0], asks[1]), batch(1, asks[1], asks[0])},
		Check: func() error {
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			for i := range asks {
				a, b := got[0][i], got[1][1-i]
				if a.Err != nil || b.Err != nil || a.Hold.Replayed == b.Hold.Replayed {
					return fmt.Errorf("order %d got %v and %v", i, show(a), show(b))
				}
			}
			return errors.Join(w.stands(x, 1, asks[0].ID), w.stands(y, 1, asks[1].ID))
		},
	}
}
