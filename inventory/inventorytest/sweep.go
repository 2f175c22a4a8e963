package inventorytest

import (
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

const (
	sweepMost   = 100_000 // a limit that no case reaches
	sweepsMax   = 1000
	shortAge    = time.Millisecond // that a record must reach to be forgotten
	sweepLittle = 2
)

var sweepCases = []claim{
	{"a sweep forgets what is over, and the levels stay", func(w *world) {
		sku := w.sku(20)
		confirmed, part := w.hold(inventory.Items{sku: 2}, longTTL), w.hold(inventory.Items{sku: 3}, longTTL)
		released, held := w.hold(inventory.Items{sku: 1}, longTTL), w.hold(inventory.Items{sku: 4}, longTTL)
		refused := w.id()
		w.no(w.reserve(refused, inventory.Items{sku: 100}, longTTL), inventory.ErrSoldOut)
		w.yes(w.confirm(confirmed), inventory.Confirmed, false)
		w.yes(w.part(part, inventory.Items{sku: 1}), inventory.Confirmed, false)
		w.yes(w.release(released), inventory.Released, false)
		w.pass(shortAge)
		if n := w.swept(shortAge); n < 4 {
			w.Errorf("%d records were removed, want at least 4", n)
		}
		w.has(sku, 13, 4, 3)
		for _, id := range []string{confirmed, part, released, refused} {
			w.no(w.confirm(id), inventory.ErrNotFound)
		}
		w.yes(w.again(held), inventory.Held, true)
		w.sound()
		w.holdAs(refused, inventory.Items{sku: 13}, longTTL) // its id is new again
		w.yes(w.confirm(held), inventory.Confirmed, false)
		w.has(sku, 0, 13, 7)
	}},
	{"a sweep forgets nothing that is younger than it keeps", func(w *world) {
		sku := w.sku(5)
		delivery := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 5}}
		w.deliver(delivery)
		confirmed, released := w.hold(inventory.Items{sku: 2}, longTTL), w.hold(inventory.Items{sku: 1}, longTTL)
		expired, refused := w.hold(inventory.Items{sku: 1}, shortTTL), w.id()
		w.no(w.reserve(refused, inventory.Items{sku: 100}, longTTL), inventory.ErrSoldOut)
		w.yes(w.confirm(confirmed), inventory.Confirmed, false)
		w.yes(w.release(released), inventory.Released, false)
		w.expired(sku, 8)
		w.swept(longKeep)
		w.yes(w.again(confirmed), inventory.Confirmed, true)
		w.yes(w.again(released), inventory.Released, true)
		w.yes(w.again(expired), inventory.Expired, true)
		w.no(w.again(refused), inventory.ErrSoldOut)
		w.deliver(delivery)
		w.has(sku, 8, 0, 2)
		w.yes(w.confirm(expired), inventory.Confirmed, false) // the sweep freed it, and its units are there
		w.has(sku, 7, 0, 3)
	}},
	{"a sweep forgets expired holds, and gives nothing back twice", func(w *world) {
		sku := w.sku(5)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		extended := w.hold(inventory.Items{sku: 1}, time.Minute)
		w.yes(w.extend(extended, longTTL), inventory.Held, false)
		w.expired(sku, 4)
		w.pass(shortAge + time.Second)
		for range 3 {
			w.swept(shortAge)
			w.has(sku, 4, 1, 0)
		}
		w.no(w.confirm(id), inventory.ErrNotFound)
		w.yes(w.again(extended), inventory.Held, true)
		w.holdAs(id, inventory.Items{sku: 4}, longTTL)
		w.has(sku, 0, 5, 0)
	}},
	{"a delivery that was swept away is still in the levels", func(w *world) {
		sku := w.sku(5)
		w.deliver(inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 3}, Away: true})
		w.pass(shortAge)
		w.swept(shortAge)
		w.has(sku, 2, 0, 0)
		w.sound()
		w.restock(inventory.Items{sku: 1})
		w.has(sku, 3, 0, 0)
	}},
	{"a sweep works on at most as many records as it is told", func(w *world) {
		w.pass(shortAge)
		w.swept(shortAge) // what others have left
		sku := w.sku(10)
		var ids []string
		for range 5 {
			id := w.hold(inventory.Items{sku: 1}, longTTL)
			w.yes(w.confirm(id), inventory.Confirmed, false)
			ids = append(ids, id)
		}
		w.pass(shortAge)
		for range sweepsMax {
			n, err := w.store.Sweep(w.ctx, shortAge, sweepLittle)
			if err != nil || n > sweepLittle {
				w.Fatalf("%d removed, %v", n, err)
			}
			w.sound()
			if n == 0 {
				break
			}
		}
		w.has(sku, 5, 0, 5)
		for _, id := range ids {
			w.no(w.confirm(id), inventory.ErrNotFound)
		}
	}},
	{"a sweep makes room for refusals, and only for those that it forgets", func(w *world) {
		sku := w.sku(0)
		ask := func() error {
			return w.told(inventory.Ask{Act: inventory.Reserve, ID: w.id(), Items: inventory.Items{sku: 1}, TTL: longTTL, RefusalsMax: 2}).Err
		}
		for round := range 2 {
			for i := range 4 {
				want := inventory.ErrSoldOut
				if i >= 2 {
					want = inventory.ErrBusy
				}
				w.no(inventory.Answer{Err: ask()}, want)
			}
			if round == 0 {
				w.swept(longKeep)
				w.no(inventory.Answer{Err: ask()}, inventory.ErrBusy)
				w.pass(shortAge)
				w.swept(shortAge)
			}
		}
	}},
	{"a sweep never frees what is held or sold", func(w *world) {
		sku := w.sku(4)
		sold, held := w.hold(inventory.Items{sku: 1}, shortTTL), w.hold(inventory.Items{sku: 1}, longTTL)
		late := w.hold(inventory.Items{sku: 1}, shortTTL)
		w.yes(w.confirm(sold), inventory.Confirmed, false)
		w.expired(sku, 2)
		w.yes(w.confirm(late), inventory.Confirmed, false)
		for _, keep := range []time.Duration{longKeep, shortAge} {
			w.pass(shortAge)
			w.swept(keep)
			w.has(sku, 1, 1, 2)
		}
		w.yes(w.confirm(held), inventory.Confirmed, false)
		w.has(sku, 1, 0, 3)
	}},
}

// swept sweeps all that there is, and returns how many records were removed.
func (w *world) swept(keep time.Duration) int {
	w.Helper()
	removed := 0
	for range sweepsMax {
		n, err := w.store.Sweep(w.ctx, keep, sweepMost)
		if err != nil {
			w.Fatalf("Sweep: %v", err)
		}
		if removed += n; n < sweepMost {
			return removed
		}
	}
	w.Fatalf("a sweep never ends")
	return removed
}

// sweptOrNot checks the answer to a settlement that a sweep may have come before.
func sweptOrNot(got inventory.Answer, want inventory.State) error {
	if got.Err == inventory.ErrNotFound || got.Err == nil && got.Hold.State == want {
		return nil
	}
	return fmt.Errorf("got %v, want %v or not found", show(got), want)
}
