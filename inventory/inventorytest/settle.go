package inventorytest

import (
	"errors"
	"maps"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

var settleCases = []claim{
	{"a confirm sells what is held, once", func(w *world) {
		a, b := w.sku(5), w.sku(5)
		id := w.hold(inventory.Items{a: 2, b: 1}, longTTL)
		for i := range 3 {
			got := w.confirm(id)
			w.yes(got, inventory.Confirmed, i > 0)
			if !maps.Equal(got.Hold.Sold, w.asked[id]) || !maps.Equal(got.Hold.Items, w.asked[id]) || got.Hold.ExpiresIn != 0 {
				w.Errorf("got %v", show(got))
			}
			w.has(a, 3, 0, 2)
			w.has(b, 4, 0, 1)
		}
	}},
	{"a confirm of a part sells it and gives the rest back", func(w *world) {
		a, b := w.sku(5), w.sku(5)
		id := w.hold(inventory.Items{a: 3, b: 2}, longTTL)
		for i := range 2 {
			got := w.part(id, inventory.Items{a: 1})
			w.yes(got, inventory.Confirmed, i > 0)
			if !maps.Equal(got.Hold.Sold, inventory.Items{a: 1}) || !maps.Equal(got.Hold.Items, w.asked[id]) {
				w.Errorf("got %v", show(got))
			}
			w.has(a, 4, 0, 1)
			w.has(b, 5, 0, 0)
		}
		for _, other := range []inventory.Items{{a: 2}, {a: 1, b: 1}, {a: 3, b: 2}, {b: 1}} {
			w.no(w.part(id, other), inventory.ErrMismatch)
		}
		w.no(w.confirm(id), inventory.ErrMismatch)
		w.has(a, 4, 0, 1)
		w.has(b, 5, 0, 0)
	}},
	{"a confirm of all by its items is a confirm", func(w *world) {
		sku := w.sku(5)
		id := w.hold(inventory.Items{sku: 3}, longTTL)
		w.yes(w.part(id, inventory.Items{sku: 3}), inventory.Confirmed, false)
		w.yes(w.confirm(id), inventory.Confirmed, true)
		w.has(sku, 2, 0, 3)
	}},
	{"a confirm of more than is held is refused and changes nothing", func(w *world) {
		sku, other := w.sku(5), w.sku(5)
		id := w.hold(inventory.Items{sku: 2}, longTTL)
		for _, items := range []inventory.Items{{sku: 3}, {other: 1}, {sku: 1, other: 1}, {w.name("unknown"): 1}} {
			w.no(w.part(id, items), fifty.ErrInvalid)
		}
		w.has(sku, 3, 2, 0)
		w.has(other, 5, 0, 0)
		w.yes(w.confirm(id), inventory.Confirmed, false)
	}},
	{"a release gives units back, once", func(w *world) { // as where a second release made the stock grow
		a, b := w.sku(5), w.sku(5)
		id := w.hold(inventory.Items{a: 2, b: 1}, longTTL)
		for i := range 3 {
			w.yes(w.release(id), inventory.Released, i > 0)
			w.has(a, 5, 0, 0)
			w.has(b, 5, 0, 0)
		}
	}},
	{"what was confirmed is not released, and what was released is not confirmed", func(w *world) {
		sku := w.sku(5)
		confirmed, released := w.hold(inventory.Items{sku: 2}, longTTL), w.hold(inventory.Items{sku: 1}, longTTL)
		w.yes(w.confirm(confirmed), inventory.Confirmed, false)
		w.yes(w.release(released), inventory.Released, false)
		for range 2 {
			w.wrongState(w.release(confirmed), "release", inventory.Confirmed)
			w.wrongState(w.extend(confirmed, longTTL), "extend", inventory.Confirmed)
			w.wrongState(w.confirm(released), "confirm", inventory.Released)
			w.wrongState(w.part(released, inventory.Items{sku: 1}), "confirm", inventory.Released)
			w.wrongState(w.extend(released, longTTL), "extend", inventory.Released)
			w.has(sku, 3, 0, 2)
		}
	}},
	{"what was refused can't be settled", func(w *world) {
		sku := w.sku(0)
		id := w.id()
		w.no(w.reserve(id, inventory.Items{sku: 1}, longTTL), inventory.ErrSoldOut)
		w.restock(inventory.Items{sku: 5})
		w.wrongState(w.confirm(id), "confirm", inventory.Refused)
		w.wrongState(w.release(id), "release", inventory.Refused)
		w.wrongState(w.extend(id, longTTL), "extend", inventory.Refused)
		w.has(sku, 5, 0, 0)
	}},
	{"a hold that nobody reserved is not found", func(w *world) {
		id := w.id()
		w.no(w.confirm(id), inventory.ErrNotFound)
		w.no(w.part(id, inventory.Items{w.sku(1): 1}), inventory.ErrNotFound)
		w.no(w.release(id), inventory.ErrNotFound)
		w.no(w.extend(id, longTTL), inventory.ErrNotFound)
	}},
	{"an extension moves the expiry, and never back", func(w *world) {
		sku := w.sku(5)
		id := w.hold(inventory.Items{sku: 2}, time.Minute)
		got := w.extend(id, longTTL)
		w.yes(got, inventory.Held, false)
		if left := got.Hold.ExpiresIn; left <= longTTL-time.Minute || left > longTTL+time.Second {
			w.Errorf("it expires in %v after an extension to %v", left, longTTL)
		}
		got = w.extend(id, time.Second)
		w.yes(got, inventory.Held, false)
		if left := got.Hold.ExpiresIn; left <= longTTL-time.Minute {
			w.Errorf("it expires in %v after a shorter extension", left)
		}
		if left := w.again(id).Hold.ExpiresIn; left <= longTTL-time.Minute {
			w.Errorf("it expires in %v when asked again", left)
		}
		w.has(sku, 3, 2, 0)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.has(sku, 3, 0, 2)
	}},
}

// wrongState checks an error about the state of a hold.
func (w *world) wrongState(got inventory.Answer, wanted string, state inventory.State) {
	w.Helper()
	e, ok := errors.AsType[*inventory.StateError](got.Err)
	if !ok || e.Wanted != wanted || e.Hold.State != state || e.Hold.ID != got.Hold.ID {
		w.Errorf("got %v, want a *StateError of %s, %v", show(got), wanted, state)
	}
}
