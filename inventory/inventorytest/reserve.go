package inventorytest

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

var reserveCases = []claim{
	{"a reservation sets units aside and says for how long", func(w *world) {
		a, b := w.sku(5), w.sku(5)
		id, items := w.id(), inventory.Items{a: 2, b: 3}
		got := w.reserve(id, items, longTTL)
		w.yes(got, inventory.Held, false)
		h := got.Hold
		if h.ID != id || !maps.Equal(h.Items, items) || len(h.Sold) != 0 || h.ExpiresIn <= longTTL-time.Minute || h.ExpiresIn > longTTL+time.Second {
			w.Errorf("got %v", show(got))
		}
		w.has(a, 3, 2, 0)
		w.has(b, 2, 3, 0)
	}},
	{"an id gets its yes again, with what has become of it, and nothing changes", func(w *world) {
		sku := w.sku(50)
		states := map[inventory.State]string{}
		for _, state := range []inventory.State{inventory.Held, inventory.Confirmed, inventory.Released} {
			states[state] = w.hold(inventory.Items{sku: 10}, longTTL)
		}
		w.yes(w.confirm(states[inventory.Confirmed]), inventory.Confirmed, false)
		w.yes(w.release(states[inventory.Released]), inventory.Released, false)
		for state, id := range states {
			for range 3 {
				got := w.again(id)
				w.yes(got, state, true)
				if got.Hold.ID != id || got.Hold.Items[sku] != 10 {
					w.Errorf("the replay of %s is %v", id, show(got))
				}
			}
		}
		w.has(sku, 30, 10, 10)
	}},
	{"a hold does not stand in its own way", func(w *world) { // as where a shopper's retry counted against the shopper
		sku := w.sku(2)
		id := w.hold(inventory.Items{sku: 2}, longTTL)
		w.yes(w.again(id), inventory.Held, true)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.yes(w.again(id), inventory.Confirmed, true)
		w.has(sku, 0, 0, 2)
	}},
	{"a refusal says of what there is not enough, and changes nothing else", func(w *world) {
		sku := w.sku(3)
		id := w.id()
		got := w.reserve(id, inventory.Items{sku: 4}, longTTL)
		w.soldOut(got, sku, 4, 3, false)
		if got.Hold.State != inventory.Refused || got.Hold.ID != id {
			w.Errorf("its hold is %v", show(got))
		}
		w.has(sku, 3, 0, 0)
	}},
	{"a refused id stays refused, also when there is stock again", func(w *world) {
		sku := w.sku(0)
		id := w.id()
		w.soldOut(w.reserve(id, inventory.Items{sku: 1}, longTTL), sku, 1, 0, false)
		w.restock(inventory.Items{sku: 5})
		for range 2 {
			w.soldOut(w.again(id), sku, 1, 0, true)
		}
		w.has(sku, 5, 0, 0)
		w.hold(inventory.Items{sku: 1}, longTTL) // a new intent has a new id
	}},
	{"an id with other items is a mismatch and changes nothing", func(w *world) {
		sku, other := w.sku(5), w.sku(0)
		held := w.hold(inventory.Items{sku: 2}, longTTL)
		refused := w.id()
		w.no(w.reserve(refused, inventory.Items{other: 1}, longTTL), inventory.ErrSoldOut)
		w.restock(inventory.Items{other: 5})
		for _, id := range []string{held, refused} {
			for what, items := range map[string]inventory.Items{
				"less": {sku: 1}, "more": {sku: 3}, "another SKU": {other: 2}, "one more SKU": {sku: 2, other: 1},
				"an unknown SKU": {w.name("unknown"): 1}, "far too much": {sku: 1000},
			} {
				got := w.told(inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: longTTL})
				mismatch, ok := errors.AsType[*inventory.MismatchError](got.Err)
				if !ok || mismatch.ID != id || !maps.Equal(mismatch.First, w.asked[id]) {
					w.Errorf("%s: got %v, want a *MismatchError with the first items", what, show(got))
				}
			}
		}
		w.has(sku, 3, 2, 0)
		w.has(other, 5, 0, 0)
	}},
	{"an order of several SKUs is held as a whole or not at all", func(w *world) {
		a, b, c := w.sku(5), w.sku(1), w.sku(0)
		id := w.id()
		w.soldOut(w.reserve(id, inventory.Items{a: 1, b: 2, c: 1}, longTTL), b, 2, 1, false)
		w.has(a, 5, 0, 0)
		w.has(b, 1, 0, 0)
		w.has(c, 0, 0, 0)
		w.restock(inventory.Items{b: 1, c: 1})
		w.soldOut(w.again(id), b, 2, 1, true)
		id = w.hold(inventory.Items{a: 1, b: 2, c: 1}, longTTL)
		w.yes(w.release(id), inventory.Released, false)
		w.has(a, 5, 0, 0)
		w.has(b, 2, 0, 0)
		w.has(c, 1, 0, 0)
	}},
	{"lines of one order that share an item are checked by their sum", func(w *world) {
		sku := w.sku(3)
		order := inventory.Items{}
		order.Add(sku, 2)
		order.Add(sku, 2)
		w.soldOut(w.reserve(w.id(), order, longTTL), sku, 4, 3, false)
		w.has(sku, 3, 0, 0)
		w.restock(inventory.Items{sku: 1})
		w.hold(order, longTTL)
		w.has(sku, 0, 4, 0)
	}},
	{"an order with an unknown SKU changes nothing, and its id is not used up", func(w *world) {
		sku, unknown := w.sku(5), w.name("unknown")
		id := w.id()
		items := inventory.Items{sku: 2, unknown: 1}
		got := w.reserve(id, items, longTTL)
		w.unknown(got.Err, unknown)
		w.has(sku, 5, 0, 0)
		w.no(w.confirm(id), inventory.ErrNotFound)
		w.skus[unknown] = true
		w.restock(inventory.Items{unknown: 1})
		w.holdAs(id, items, longTTL)
		w.has(sku, 3, 2, 0)
	}},
	{"the last unit is sold, and not one more", func(w *world) {
		sku := w.sku(3)
		for i := range int64(5) {
			got := w.reserve(w.id(), inventory.Items{sku: 1}, longTTL)
			if i < 3 {
				w.yes(got, inventory.Held, false)
			} else {
				w.soldOut(got, sku, 1, 0, false)
			}
		}
		w.has(sku, 0, 3, 0)
	}},
	{"the largest quantities are exact", func(w *world) {
		sku := w.sku(1)
		w.restock(inventory.Items{sku: 3 * inventory.QuantityMax})
		id := w.hold(inventory.Items{sku: inventory.QuantityMax}, longTTL)
		w.hold(inventory.Items{sku: inventory.QuantityMax}, longTTL)
		w.has(sku, inventory.QuantityMax+1, 2*inventory.QuantityMax, 0)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.has(sku, inventory.QuantityMax+1, inventory.QuantityMax, inventory.QuantityMax)
	}},
	{"the refusals of a SKU are bounded, and at the bound none is forgotten", func(w *world) {
		sku := w.sku(0)
		ask := func(id string) inventory.Answer {
			w.asked[id] = inventory.Items{sku: 1}
			return w.told(inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{sku: 1}, TTL: longTTL, RefusalsMax: 2})
		}
		ids := []string{w.id(), w.id(), w.id()}
		w.no(ask(ids[0]), inventory.ErrSoldOut)
		w.no(ask(ids[1]), inventory.ErrSoldOut)
		for range 2 {
			w.no(ask(ids[2]), inventory.ErrBusy)
		}
		w.restock(inventory.Items{sku: 3})
		for _, id := range ids[:2] {
			w.soldOut(ask(id), sku, 1, 0, true)
		}
		w.yes(ask(ids[2]), inventory.Held, false) // nothing was recorded of it
		w.has(sku, 2, 1, 0)
	}},
	{"what was called off before it began changed nothing", func(w *world) {
		sku := w.sku(5)
		held, id := w.hold(inventory.Items{sku: 1}, longTTL), w.id()
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		for _, a := range []inventory.Ask{
			{Act: inventory.Reserve, ID: id, Items: inventory.Items{sku: 1}, TTL: longTTL},
			{Act: inventory.Confirm, ID: held},
			{Act: inventory.Release, ID: held},
		} {
			if answer, err := w.ask(ctx, a); err == nil {
				w.Errorf("%v under an ended context: %v", a.Act, show(answer))
			}
		}
		if err := w.store.Supply(ctx, inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 1}}); err == nil {
			w.Errorf("Supply under an ended context succeeded")
		}
		w.has(sku, 4, 1, 0)
		w.no(w.confirm(id), inventory.ErrNotFound)
	}},
	{"what a caller does with its items or with an answer changes nothing", func(w *world) {
		sku := w.sku(5)
		id, items := w.id(), inventory.Items{sku: 1}
		first := w.reserve(id, items, longTTL)
		items[sku] = 3
		spoil(first.Hold)
		got := w.again(id)
		w.yes(got, inventory.Held, true)
		spoil(got.Hold)
		sold := w.confirm(id)
		w.yes(sold, inventory.Confirmed, false)
		spoil(sold.Hold)
		w.yes(w.again(id), inventory.Confirmed, true)
		w.yes(w.confirm(id), inventory.Confirmed, true)
		mismatch, ok := errors.AsType[*inventory.MismatchError](w.told(inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{sku: 4}}).Err)
		if ok {
			mismatch.First[sku] = 4
		}
		w.yes(w.again(id), inventory.Confirmed, true)
		w.has(sku, 4, 0, 1)
	}},
}

// spoil writes over what an answer has.
func spoil(h inventory.Hold) {
	for _, items := range []inventory.Items{h.Items, h.Sold} {
		for sku := range items {
			items[sku] = 1000
		}
	}
}

// soldOut checks a refusal.
func (w *world) soldOut(got inventory.Answer, sku string, wanted, available int64, replayed bool) {
	w.Helper()
	short, ok := errors.AsType[*inventory.SoldOutError](got.Err)
	want := inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: sku, Wanted: wanted, Available: available}, Replayed: replayed}
	if !ok || *short != want || got.Hold.Replayed != replayed {
		w.Errorf("got %v, want %+v", show(got), want)
	}
}
