package inventorytest

import (
	"errors"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

var splitCases = []claim{
	{"a SKU is split and joined without losing anything", func(w *world) {
		sku, other := w.sku(20), w.sku(5)
		held, confirmed := w.hold(inventory.Items{sku: 3, other: 1}, longTTL), w.hold(inventory.Items{sku: 2}, longTTL)
		released, refused := w.hold(inventory.Items{sku: 1}, longTTL), w.id()
		w.no(w.reserve(refused, inventory.Items{sku: 100}, longTTL), inventory.ErrSoldOut)
		w.yes(w.confirm(confirmed), inventory.Confirmed, false)
		for _, buckets := range []int{4, 7, 2, inventory.BucketsMax, 1, 3} {
			w.resplit(sku, buckets)
			w.has(sku, 14, 4, 2)
			w.yes(w.again(held), inventory.Held, true)
			w.yes(w.confirm(confirmed), inventory.Confirmed, true)
			w.soldOut(w.again(refused), sku, 100, 14, true)
			w.sound()
		}
		w.yes(w.confirm(held), inventory.Confirmed, false)
		w.yes(w.release(released), inventory.Released, false)
		w.has(sku, 15, 0, 5)
		w.has(other, 4, 0, 1)
	}},
	{"a split into no buckets or too many is refused, and so is one of an unknown SKU", func(w *world) {
		sku := w.sku(5)
		for _, n := range []int{-1, 0, inventory.BucketsMax + 1} {
			if err := w.splitter().Split(w.ctx, sku, n); !errors.Is(err, fifty.ErrInvalid) {
				w.Errorf("Split into %d: %v, want a *fifty.InvalidError", n, err)
			}
		}
		unknown := w.name("unknown")
		w.unknown(w.splitter().Split(w.ctx, unknown, 2), unknown)
		w.has(sku, 5, 0, 0)
	}},
	{"holds that were split expire, and are extended, like others", func(w *world) {
		sku := w.split(9, 3)
		short, kept := w.hold(inventory.Items{sku: 4}, shortTTL), w.hold(inventory.Items{sku: 2}, longTTL)
		w.resplit(sku, 2)
		w.yes(w.extend(kept, 2*longTTL), inventory.Held, false)
		w.expired(sku, 7)
		w.resplit(sku, 5)
		w.has(sku, 7, 2, 0)
		w.sound()
		w.yes(w.confirm(short), inventory.Confirmed, false)
		w.has(sku, 3, 2, 4)
		w.resplit(sku, 1)
		w.yes(w.release(kept), inventory.Released, false)
		w.has(sku, 5, 0, 4)
	}},
	{"holds of two split SKUs move with their own", func(w *world) {
		a, b := w.split(4, 4), w.split(4, 4)
		id := w.hold(inventory.Items{a: 4, b: 4}, longTTL)
		w.resplit(a, 2)
		w.sound()
		w.resplit(b, 3)
		w.sound()
		w.yes(w.part(id, inventory.Items{a: 3, b: 2}), inventory.Confirmed, false)
		w.has(a, 1, 0, 3)
		w.has(b, 2, 0, 2)
	}},
	{"a split SKU sells its last unit, and not one more", func(w *world) {
		const units, buckets = 11, 4
		sku := w.split(units, buckets)
		for i := range units + 3 {
			got := w.reserve(w.id(), inventory.Items{sku: 1}, longTTL)
			if i < units {
				w.yes(got, inventory.Held, false)
			} else {
				w.soldOut(got, sku, 1, 0, false)
			}
		}
		w.has(sku, 0, units, 0)
	}},
	{"a split SKU serves an order that is larger than a bucket", func(w *world) {
		sku := w.split(10, 5)
		id := w.hold(inventory.Items{sku: 9}, longTTL)
		w.soldOut(w.reserve(w.id(), inventory.Items{sku: 2}, longTTL), sku, 2, 1, false)
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.yes(w.part(id, inventory.Items{sku: 4}), inventory.Confirmed, false)
		w.has(sku, 5, 1, 4)
		w.hold(inventory.Items{sku: 5}, longTTL)
		w.has(sku, 0, 6, 4)
	}},
	{"a split SKU is not sold out while any bucket has a unit", func(w *world) {
		const buckets = 3
		sku := w.split(buckets, buckets)
		var holds []string
		for home := range buckets {
			id := w.idAt(home, buckets)
			w.holdAs(id, inventory.Items{sku: 1}, longTTL)
			holds = append(holds, id)
		}
		for at, id := range holds {
			w.yes(w.release(id), inventory.Released, false)
			for home := range buckets {
				other := w.idAt(home, buckets)
				got := w.reserve(other, inventory.Items{sku: 1}, longTTL)
				w.yes(got, inventory.Held, false)
				w.yes(w.release(other), inventory.Released, false)
			}
			w.holdAs(w.idAt(at, buckets), inventory.Items{sku: 1}, longTTL)
			w.has(sku, 0, buckets, 0)
		}
	}},
	{"a split SKU finds units that expired in any bucket", func(w *world) {
		const buckets = 3
		sku := w.split(buckets, buckets)
		w.holdAs(w.idAt(2, buckets), inventory.Items{sku: 1}, shortTTL)
		w.holdAs(w.idAt(0, buckets), inventory.Items{sku: 1}, longTTL)
		w.holdAs(w.idAt(1, buckets), inventory.Items{sku: 1}, longTTL)
		w.expired(sku, 1)
		w.holdAs(w.idAt(0, buckets), inventory.Items{sku: 1}, longTTL)
		w.soldOut(w.reserve(w.idAt(2, buckets), inventory.Items{sku: 1}, longTTL), sku, 1, 0, false)
		w.has(sku, 0, 3, 0)
	}},
	{"a delivery to a split SKU reaches every bucket, and a withdrawal takes from all", func(w *world) {
		sku := w.split(2, 4)
		w.restock(inventory.Items{sku: 6})
		for home := range 4 {
			w.holdAs(w.idAt(home, 4), inventory.Items{sku: 1}, longTTL)
		}
		w.has(sku, 4, 4, 0)
		w.deliver(inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 4}, Away: true})
		w.has(sku, 0, 4, 0)
		w.soldOut(w.reserve(w.id(), inventory.Items{sku: 1}, longTTL), sku, 1, 0, false)
	}},
	{"an order of split SKUs and others is held as a whole or not at all", func(w *world) {
		a, b, c := w.split(8, 4), w.split(3, 3), w.sku(1)
		id := w.id()
		w.soldOut(w.reserve(id, inventory.Items{a: 8, b: 3, c: 2}, longTTL), c, 2, 1, false)
		w.soldOut(w.reserve(w.id(), inventory.Items{a: 7, b: 4, c: 1}, longTTL), b, 4, 3, false)
		w.has(a, 8, 0, 0)
		w.has(b, 3, 0, 0)
		id = w.hold(inventory.Items{a: 8, b: 2, c: 1}, longTTL)
		w.yes(w.part(id, inventory.Items{a: 5, c: 1}), inventory.Confirmed, false)
		w.has(a, 3, 0, 5)
		w.has(b, 3, 0, 0)
		w.has(c, 0, 0, 1)
	}},
}
