package inventorytest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

var stockCases = []claim{
	{"bad input is refused by a typed error and changes nothing", func(w *world) {
		s := inventory.New(w.store, inventory.Config{HoldMax: longTTL})
		sku := w.sku(10)
		held := w.hold(inventory.Items{sku: 2}, longTTL)
		for what, try := range badInput(w, s, sku, held) {
			w.invalid(what, try())
		}
		w.has(sku, 8, 2, 0)
		w.yes(w.again(held), inventory.Held, true)
	}},
	{"Stock keeps its answers under every strategy", func(w *world) {
		for name, strategy := range strategies {
			s := inventory.New(w.store, inventory.Config{Strategy: strategy})
			sku := w.newSKU(s, 5)
			id, refused := w.id(), w.id()
			for i := range 2 {
				h, err := s.Reserve(w.ctx, id, inventory.Items{sku: 3}, time.Minute)
				w.stock(name+": Reserve", h, err, inventory.Held, i > 0)
				_, err = s.Reserve(w.ctx, refused, inventory.Items{sku: 3}, time.Minute)
				if short, ok := errors.AsType[*inventory.SoldOutError](err); !ok || short.Available != 2 || short.Replayed != (i > 0) {
					w.Errorf("%s: got %v, want a *SoldOutError, replayed %v", name, err, i > 0)
				}
			}
			h, err := s.Extend(w.ctx, id, time.Hour)
			w.stock(name+": Extend", h, err, inventory.Held, false)
			for i := range 2 {
				h, err = s.ConfirmPart(w.ctx, id, inventory.Items{sku: 2})
				w.stock(name+": ConfirmPart", h, err, inventory.Confirmed, i > 0)
			}
			if _, err := s.Confirm(w.ctx, id); !errors.Is(err, inventory.ErrMismatch) {
				w.Errorf("%s: confirming all after a part: %v", name, err)
			}
			if _, err := s.Release(w.ctx, id); !errors.Is(err, inventory.ErrState) {
				w.Errorf("%s: releasing what was confirmed: %v", name, err)
			}
			if _, err := s.Release(w.ctx, w.id()); !errors.Is(err, inventory.ErrNotFound) {
				w.Errorf("%s: releasing what is not there: %v", name, err)
			}
			if err := s.Withdraw(w.ctx, w.id(), inventory.Items{sku: 1}); err != nil {
				w.Errorf("%s: Withdraw: %v", name, err)
			}
			w.has(sku, 2, 0, 2)
		}
	}},
	{"a sale is exact under every strategy, whoever comes when", func(w *world) {
		const units, buyers = 40, 60
		for name, strategy := range strategies {
			s := inventory.New(w.store, inventory.Config{Strategy: strategy})
			sku := w.newSKU(s, units)
			var got, refused atomic.Int64
			var all sync.WaitGroup
			for i := range buyers {
				id := w.id()
				all.Go(func() {
					_, err := s.Reserve(w.ctx, id, inventory.Items{sku: 1}, longTTL)
					if err == nil {
						got.Add(1)
						if _, err = s.Confirm(w.ctx, id); err == nil && i%3 == 0 {
							_, err = s.Reserve(w.ctx, id, inventory.Items{sku: 1}, longTTL) // a late retry
						}
					} else if errors.Is(err, inventory.ErrSoldOut) {
						refused.Add(1)
						err = nil
					}
					if err != nil {
						w.Errorf("%s: %v", name, err)
					}
				})
			}
			all.Wait()
			if got.Load() != units || refused.Load() != buyers-units {
				w.Errorf("%s: %d of %d got one, %d were refused", name, got.Load(), units, refused.Load())
			}
			w.has(sku, 0, 0, units)
		}
	}},
}

var strategies = map[string]inventory.Strategy{"row": inventory.Row, "combined": inventory.Combined, "buckets": inventory.Buckets(3)}

// invalid checks the error of a call with bad input.
func (w *world) invalid(what string, err error) {
	w.Helper()
	if invalid, ok := errors.AsType[*fifty.InvalidError](err); !ok || invalid.Field == "" {
		w.Errorf("%s: got %v, want a *fifty.InvalidError that names a field", what, err)
	}
}

// newSKU is one that s has made.
func (w *world) newSKU(s *inventory.Stock, units int64) string {
	w.Helper()
	sku := w.name("sku")
	w.skus[sku] = true
	if err := s.Supply(w.ctx, w.id(), inventory.Items{sku: units}); err != nil {
		w.Fatalf("Supply: %v", err)
	}
	return sku
}

// stock checks an answer of a Stock.
func (w *world) stock(what string, h inventory.Hold, err error, state inventory.State, replayed bool) {
	w.Helper()
	if err != nil || h.State != state || h.Replayed != replayed {
		w.Errorf("%s: got %v", what, show(inventory.Answer{Hold: h, Err: err}))
	}
}

// badInput is what callers may get wrong, by name.
func badInput(w *world, s *inventory.Stock, sku, held string) map[string]func() error {
	all := map[string]func() error{}
	reserve := func(id string, items inventory.Items, ttl time.Duration) func() error {
		return func() error { _, err := s.Reserve(w.ctx, id, items, ttl); return err }
	}
	supply := func(id string, items inventory.Items) func() error {
		return func() error { return s.Supply(w.ctx, id, items) }
	}
	many := inventory.Items{}
	for i := range inventory.ItemsMax + 1 {
		many[fmt.Sprint(sku, i)] = 1
	}
	for what, items := range map[string]inventory.Items{
		"no items": nil, "none": {}, "zero": {sku: 0}, "negative": {sku: -1},
		"overflowing": {sku: inventory.QuantityMax + 1}, "the least of all": {sku: -1 << 63}, "the most of all": {sku: 1<<63 - 1},
		"one of two": {sku: 1, sku + "x": 0}, "too many SKUs": many,
		"a SKU without a name": {"": 1}, "a SKU with a long name": {strings.Repeat("x", inventory.NameMax+1): 1},
		"a SKU with NUL": {"a\x00b": 1}, "a SKU that is no text": {"\xff": 1},
	} {
		all["reserve: "+what] = reserve(w.id(), items, time.Minute)
		all["supply: "+what] = supply(w.id(), items)
		all["withdraw: "+what] = func() error { return s.Withdraw(w.ctx, w.id(), items) }
		all["confirm a part: "+what] = func() error { _, err := s.ConfirmPart(w.ctx, held, maps.Clone(items)); return err }
	}
	for what, id := range map[string]string{
		"empty": "", "too long": strings.Repeat("x", inventory.NameMax+1), "with NUL": "a\x00b", "no text": "\xff",
	} {
		all["id of reserve: "+what] = reserve(id, inventory.Items{sku: 1}, time.Minute)
		all["id of supply: "+what] = supply(id, inventory.Items{sku: 1})
		all["id of confirm: "+what] = func() error { _, err := s.Confirm(w.ctx, id); return err }
		all["id of release: "+what] = func() error { _, err := s.Release(w.ctx, id); return err }
		all["id of extend: "+what] = func() error { _, err := s.Extend(w.ctx, id, time.Minute); return err }
	}
	for what, ttl := range map[string]time.Duration{
		"none": 0, "negative": -time.Minute, "below a second": time.Second - 1, "too long": longTTL + 1, "the longest of all": 1<<63 - 1,
	} {
		all["time of reserve: "+what] = reserve(w.id(), inventory.Items{sku: 1}, ttl)
		all["time of extend: "+what] = func() error { _, err := s.Extend(w.ctx, held, ttl); return err }
	}
	all["SKU of availability"] = func() error { _, err := s.Availability(w.ctx, sku, ""); return err }
	return all
}
