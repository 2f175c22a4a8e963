package inventorytest

import (
	"errors"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

var supplyCases = []claim{
	{"a delivery makes a SKU that is new, and adds to one that is there", func(w *world) {
		sku := w.sku(3)
		w.has(sku, 3, 0, 0)
		w.restock(inventory.Items{sku: 4})
		w.has(sku, 7, 0, 0)
	}},
	{"a delivery counts once, however often it arrives", func(w *world) {
		a, b := w.sku(1), w.sku(1)
		d := inventory.Delivery{ID: w.id(), Items: inventory.Items{a: 5, b: 6}}
		for range 3 {
			w.deliver(d)
		}
		w.has(a, 6, 0, 0)
		w.has(b, 7, 0, 0)
	}},
	{"a delivery's id with other items is a mismatch and changes nothing", func(w *world) {
		sku, other := w.sku(5), w.sku(5)
		d := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 2}}
		w.deliver(d)
		for what, wrong := range map[string]inventory.Delivery{
			"another quantity":   {ID: d.ID, Items: inventory.Items{sku: 3}},
			"another SKU":        {ID: d.ID, Items: inventory.Items{other: 2}},
			"one more SKU":       {ID: d.ID, Items: inventory.Items{sku: 2, other: 2}},
			"another direction":  {ID: d.ID, Items: inventory.Items{sku: 2}, Away: true},
			"an unknown SKU too": {ID: d.ID, Items: inventory.Items{sku: 2, w.name("unknown"): 1}},
		} {
			err := w.store.Supply(w.ctx, wrong)
			mismatch, ok := errors.AsType[*inventory.MismatchError](err)
			if !ok || mismatch.ID != d.ID || mismatch.First[sku] != 2 || len(mismatch.First) != 1 {
				w.Errorf("%s: got %v, want a *MismatchError with the first items", what, err)
			}
		}
		w.has(sku, 7, 0, 0)
		w.has(other, 5, 0, 0)
	}},
	{"what is withdrawn comes from what is available, and no more", func(w *world) {
		sku := w.sku(5)
		w.hold(inventory.Items{sku: 2}, longTTL)
		away := inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 4}, Away: true}
		short, ok := errors.AsType[*inventory.SoldOutError](w.store.Supply(w.ctx, away))
		if !ok || short.SKU != sku || short.Wanted != 4 || short.Available != 3 {
			w.Errorf("got %v, want a *SoldOutError of 4 wanted, 3 available", short)
		}
		w.has(sku, 3, 2, 0)
		w.restock(inventory.Items{sku: 1})
		w.deliver(away) // a refused withdrawal is not recorded
		w.deliver(away)
		w.has(sku, 0, 2, 0)
	}},
	{"a withdrawal may take what expired holds have", func(w *world) {
		sku := w.sku(2)
		id := w.hold(inventory.Items{sku: 2}, shortTTL)
		w.expired(sku, 2)
		w.deliver(inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 2}, Away: true})
		w.has(sku, 0, 0, 0)
		w.no(w.confirm(id), inventory.ErrHoldExpired)
		w.has(sku, 0, 0, 0)
	}},
	{"a SKU that was never supplied is unknown to a withdrawal and to a look", func(w *world) {
		sku, unknown := w.sku(1), w.name("unknown")
		err := w.store.Supply(w.ctx, inventory.Delivery{ID: w.id(), Items: inventory.Items{sku: 1, unknown: 1}, Away: true})
		w.unknown(err, unknown)
		_, err = w.store.Availability(w.ctx, []string{sku, unknown})
		w.unknown(err, unknown)
		w.has(sku, 1, 0, 0)
	}},
	{"a supply above the bound is refused as a whole", func(w *world) {
		full, other := w.sku(1), w.sku(1)
		left := int64(inventory.SupplyMax - 1)
		for left > 0 {
			n := min(left, inventory.SupplyMax/4)
			w.restock(inventory.Items{full: n})
			left -= n
		}
		w.hold(inventory.Items{full: 1}, longTTL) // what is held counts too
		d := inventory.Delivery{ID: w.id(), Items: inventory.Items{other: 1, full: 1}}
		if err := w.store.Supply(w.ctx, d); !errors.Is(err, fifty.ErrInvalid) {
			w.Errorf("got %v, want a *fifty.InvalidError", err)
		}
		w.has(full, inventory.SupplyMax-1, 1, 0)
		w.has(other, 1, 0, 0)
	}},
	{"levels come in the order in which they were asked for", func(w *world) {
		a, b, c := w.sku(1), w.sku(2), w.sku(3)
		got, err := w.store.Availability(w.ctx, []string{c, a, b, a})
		if err != nil || len(got) != 4 || got[0].SKU != c || got[1].SKU != a || got[2].SKU != b || got[3].SKU != a || got[2].Supply != 2 {
			w.Errorf("got %+v, %v", got, err)
		}
		if none, err := w.store.Availability(w.ctx, nil); err != nil || len(none) != 0 {
			w.Errorf("of no SKU: %+v, %v", none, err)
		}
	}},
	{"names are compared byte by byte", func(w *world) {
		base := w.name("name")
		for i, name := range []string{base, base + "A", base + "a", base + " ", base + "é", base + "e\u0301", base + "'\"\\%_", base + "ß", base + "ss"} {
			w.skus[name] = true
			w.deliver(inventory.Delivery{ID: name, Items: inventory.Items{name: int64(i + 1)}})
			w.holdAs(name, inventory.Items{name: 1}, longTTL)
			w.has(name, int64(i), 1, 0)
		}
	}},
}

// unknown checks an error that names an unknown SKU.
func (w *world) unknown(err error, sku string) {
	w.Helper()
	if e, ok := errors.AsType[*inventory.UnknownSKUError](err); !ok || e.SKU != sku {
		w.Errorf("got %v, want an *UnknownSKUError of %s", err, sku)
	}
}
