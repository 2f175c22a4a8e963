package inventorytest

import (
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

var expiryCases = []claim{
	{"units of an expired hold are free for the next order, without a sweep", func(w *world) {
		sku := w.sku(2)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 2)
		w.has(sku, 2, 0, 0)
		w.hold(inventory.Items{sku: 2}, longTTL)
		w.has(sku, 0, 2, 0)
		w.yes(w.again(id), inventory.Expired, true)
		w.soldOut(w.reserve(w.id(), inventory.Items{sku: 1}, longTTL), sku, 1, 0, false)
	}},
	{"a hold expires at the second that the store's clock says", func(w *world) {
		if w.f.Advance == nil {
			return // nobody can stand at that instant
		}
		sku := w.sku(1)
		id := w.id()
		got := w.reserve(id, inventory.Items{sku: 1}, 10*time.Second)
		left := got.Hold.ExpiresIn
		if left < 10*time.Second || left > 11*time.Second {
			w.Errorf("a hold of 10 s expires in %v", left)
		}
		w.f.Advance(left - time.Microsecond)
		w.has(sku, 0, 1, 0)
		w.yes(w.again(id), inventory.Held, true)
		w.f.Advance(time.Microsecond)
		w.has(sku, 1, 0, 0)
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.yes(w.again(id), inventory.Expired, true)
		w.no(w.confirm(id), inventory.ErrHoldExpired)
	}},
	{"an expired hold is confirmed if its units are still there", func(w *world) {
		a, b := w.sku(2), w.sku(5)
		id := w.hold(inventory.Items{a: 2, b: 1}, shortTTL)
		w.expired(a, 2)
		got := w.confirm(id)
		w.yes(got, inventory.Confirmed, false)
		w.yes(w.confirm(id), inventory.Confirmed, true)
		w.has(a, 0, 0, 2)
		w.has(b, 4, 0, 1)
	}},
	{"an expired hold that others have freed is confirmed if there are units again", func(w *world) {
		sku := w.sku(2)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 2)
		other := w.hold(inventory.Items{sku: 1}, longTTL) // frees it
		w.yes(w.release(other), inventory.Released, false)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.has(sku, 0, 0, 2)
	}},
	{"an expired hold whose units are gone lapses for good", func(w *world) {
		sku := w.sku(2)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 2)
		other := w.hold(inventory.Items{sku: 1}, longTTL)
		w.lapsed(w.confirm(id), sku, false)
		w.has(sku, 1, 1, 0)
		w.yes(w.release(other), inventory.Released, false)
		w.restock(inventory.Items{sku: 5})
		for range 2 {
			w.lapsed(w.confirm(id), sku, true)
			w.lapsed(w.part(id, inventory.Items{sku: 1}), sku, true)
			w.no(w.extend(id, longTTL), inventory.ErrHoldExpired)
			w.yes(w.again(id), inventory.Lapsed, true)
			got := w.release(id)
			if got.Err != nil || got.Hold.State != inventory.Lapsed {
				w.Errorf("releasing it: %v", show(got))
			}
			w.has(sku, 7, 0, 0)
		}
	}},
	{"an expired hold of several SKUs is confirmed as a whole or not at all", func(w *world) {
		a, b := w.sku(1), w.sku(1)
		id := w.hold(inventory.Items{a: 1, b: 1}, shortTTL)
		w.expired(a, 1)
		w.hold(inventory.Items{b: 1}, longTTL)
		w.lapsed(w.confirm(id), b, false)
		w.has(a, 1, 0, 0)
		w.has(b, 0, 1, 0)
	}},
	{"of an expired hold a part is confirmed if that part is there", func(w *world) {
		a, b := w.sku(3), w.sku(1)
		id := w.hold(inventory.Items{a: 3, b: 1}, shortTTL)
		w.expired(a, 3)
		w.hold(inventory.Items{a: 1, b: 1}, longTTL)
		w.yes(w.part(id, inventory.Items{a: 2}), inventory.Confirmed, false)
		w.has(a, 0, 1, 2)
		w.has(b, 0, 1, 0)
	}},
	{"an extension never revives", func(w *world) {
		untouched, freed := w.sku(1), w.sku(2)
		first, second := w.hold(inventory.Items{untouched: 1}, shortTTL), w.hold(inventory.Items{freed: 1}, shortTTL)
		w.expired(freed, 2)
		w.hold(inventory.Items{freed: 1}, longTTL)
		for _, id := range []string{first, second} {
			for range 2 {
				got := w.extend(id, longTTL)
				w.no(got, inventory.ErrHoldExpired)
				if got.Hold.State != inventory.Expired {
					w.Errorf("its state is %v", got.Hold.State)
				}
			}
			w.yes(w.again(id), inventory.Expired, true)
		}
		w.has(untouched, 1, 0, 0)
		w.has(freed, 1, 1, 0)
		w.hold(inventory.Items{untouched: 1}, longTTL)
	}},
	{"an extended hold does not expire at its first time", func(w *world) {
		sku, clock := w.sku(2), w.sku(1)
		id := w.hold(inventory.Items{sku: 1}, shortTTL)
		if got := w.extend(id, longTTL); got.Err != nil {
			// The second was over. The next one has just begun.
			id = w.hold(inventory.Items{sku: 1}, shortTTL)
			w.yes(w.extend(id, longTTL), inventory.Held, false)
		}
		w.hold(inventory.Items{clock: 1}, shortTTL)
		w.expired(clock, 1)
		w.yes(w.again(id), inventory.Held, true)
		w.soldOut(w.reserve(w.id(), inventory.Items{sku: 2}, longTTL), sku, 2, 1, false)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.has(sku, 1, 0, 1)
	}},
	{"units of an expired hold are freed once", func(w *world) {
		sku := w.sku(3)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 3)
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.has(sku, 1, 2, 0)
		w.yes(w.release(id), inventory.Released, false)
		w.has(sku, 1, 2, 0)
		w.yes(w.release(id), inventory.Released, true)
		w.swept(longKeep)
		w.has(sku, 1, 2, 0)
	}},
	{"an expired hold that was released stays released", func(w *world) {
		sku := w.sku(3)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 3)
		w.yes(w.release(id), inventory.Released, false)
		w.has(sku, 3, 0, 0)
		w.wrongState(w.confirm(id), "confirm", inventory.Released)
		w.has(sku, 3, 0, 0)
	}},
	{"a hold that expires does not take the units of another with it", func(w *world) {
		sku := w.sku(3)
		w.hold(inventory.Items{sku: 1}, shortTTL)
		kept := w.hold(inventory.Items{sku: 1}, longTTL)
		sold := w.hold(inventory.Items{sku: 1}, shortTTL)
		if got := w.confirm(sold); got.Err != nil {
			w.Fatalf("%v", show(got))
		}
		w.expired(sku, 1)
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.has(sku, 0, 2, 1)
		w.yes(w.confirm(kept), inventory.Confirmed, false)
		w.has(sku, 0, 1, 2)
	}},
}

// lapsed checks the answer to a late confirm.
func (w *world) lapsed(got inventory.Answer, sku string, replayed bool) {
	w.Helper()
	e, ok := errors.AsType[*inventory.HoldExpiredError](got.Err)
	if !ok || e.Short.SKU != sku || got.Hold.State != inventory.Lapsed || got.Hold.Replayed != replayed {
		w.Errorf("got %v, want a *HoldExpiredError for %s, replayed %v", show(got), sku, replayed)
	}
}
