package inventorytest

import (
	"errors"
	"maps"

	"github.com/fiftyhosts/fifty/inventory"
)

var ledgerCases = []claim{
	{"a hold's history says what happened, oldest first", func(w *world) {
		sku := w.sku(10)
		confirmed := w.hold(inventory.Items{sku: 3}, longTTL)
		for range 3 {
			w.yes(w.extend(confirmed, 2*longTTL), inventory.Held, false)
		}
		w.yes(w.part(confirmed, inventory.Items{sku: 1}), inventory.Confirmed, false)
		w.yes(w.part(confirmed, inventory.Items{sku: 1}), inventory.Confirmed, true)
		w.history(confirmed, line{"reserved", inventory.Items{sku: 3}}, line{"extended", inventory.Items{sku: 3}}, line{"confirmed", inventory.Items{sku: 1}})

		released := w.hold(inventory.Items{sku: 2}, longTTL)
		w.yes(w.release(released), inventory.Released, false)
		w.yes(w.release(released), inventory.Released, true)
		w.history(released, line{"reserved", inventory.Items{sku: 2}}, line{"released", inventory.Items{sku: 2}})

		refused := w.id()
		w.no(w.reserve(refused, inventory.Items{sku: 100}, longTTL), inventory.ErrSoldOut)
		w.history(refused, line{"refused", inventory.Items{sku: 100}})
	}},
	{"the history of a hold that expired says so, and how it ended", func(w *world) {
		sku := w.sku(3)
		late, lapsed := w.hold(inventory.Items{sku: 1}, shortTTL), w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 3)
		w.history(late, line{"reserved", inventory.Items{sku: 1}}, line{"expired", inventory.Items{sku: 1}})
		w.yes(w.confirm(late), inventory.Confirmed, false)
		w.history(late, line{"reserved", inventory.Items{sku: 1}}, line{"confirmed", inventory.Items{sku: 1}})
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.lapsed(w.confirm(lapsed), sku, false)
		w.history(lapsed, line{"reserved", inventory.Items{sku: 2}}, line{"lapsed", inventory.Items{sku: 2}})
	}},
	{"the history of a hold that is unknown or was swept away is not found", func(w *world) {
		sku := w.sku(3)
		id := w.hold(inventory.Items{sku: 1}, longTTL)
		w.yes(w.confirm(id), inventory.Confirmed, false)
		w.pass(shortAge)
		w.swept(shortAge)
		for _, gone := range []string{id, w.id()} {
			if _, err := w.ledger().History(w.ctx, gone); !errors.Is(err, inventory.ErrNotFound) {
				w.Errorf("got %v, want ErrNotFound", err)
			}
		}
	}},
	{"the books add up after each step of a hold", func(w *world) {
		sku, other := w.split(12, 3), w.sku(5)
		w.sound()
		id := w.hold(inventory.Items{sku: 7, other: 1}, longTTL)
		w.sound()
		w.yes(w.extend(id, 2*longTTL), inventory.Held, false)
		w.sound()
		w.yes(w.part(id, inventory.Items{sku: 5}), inventory.Confirmed, false)
		w.sound()
		short := w.hold(inventory.Items{sku: 6, other: 2}, shortTTL)
		w.sound()
		w.expired(other, 5)
		w.sound() // as long as nobody has freed it, it counts as held in both
		w.hold(inventory.Items{sku: 1}, longTTL)
		w.sound()
		w.yes(w.part(short, inventory.Items{sku: 6}), inventory.Confirmed, false)
		w.sound()
		w.deliver(inventory.Delivery{ID: w.id(), Items: inventory.Items{other: 3}, Away: true})
		w.sound()
		w.has(sku, 0, 1, 11)
		w.has(other, 2, 0, 0)
	}},
}

// line is one of a history.
type line struct {
	what  string
	items inventory.Items
}

func (w *world) history(id string, want ...line) {
	w.Helper()
	got, err := w.ledger().History(w.ctx, id)
	if err != nil || len(got) != len(want) {
		w.Errorf("the history of %s is %+v, %v; want %+v", id, got, err, want)
		return
	}
	for i, e := range got {
		if e.What != want[i].what || !maps.Equal(e.Items, want[i].items) || e.At.IsZero() || e.Times < 1 {
			w.Errorf("line %d of %s is %+v, want %+v", i, id, e, want[i])
		}
		if i > 0 && e.At.Before(got[i-1].At) {
			w.Errorf("line %d of %s is older than the one before: %+v", i, id, got)
		}
	}
}
