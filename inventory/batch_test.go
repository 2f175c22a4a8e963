package inventory_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/inventory"
)

// table is what a store would keep, and nothing more: each batch gets only what a store would lock and read.
type table struct {
	now      time.Time
	buckets  map[inventory.BucketID]inventory.Bucket
	expiring map[inventory.Expiring]int64
	holds    map[string]inventory.Record
}

func newTable() *table {
	return &table{
		now: time.Unix(1_000_000, 0), buckets: map[inventory.BucketID]inventory.Bucket{},
		expiring: map[inventory.Expiring]int64{}, holds: map[string]inventory.Record{},
	}
}

// batch locks the home buckets of an id, those of its parts, and all buckets of some SKUs.
func (s *table) batch(id string, items inventory.Items, all []string) *inventory.Batch {
	wanted := map[inventory.BucketID]bool{}
	for sku := range items {
		wanted[inventory.BucketID{SKU: sku, Number: inventory.Home(id, s.buckets[inventory.BucketID{SKU: sku}].Count)}] = true
	}
	var known []inventory.Record
	if r, ok := s.holds[id]; ok {
		known = append(known, r)
		for _, p := range r.Parts {
			wanted[p.BucketID] = true
		}
		for sku := range r.Items {
			wanted[inventory.BucketID{SKU: sku, Number: inventory.Home(id, s.buckets[inventory.BucketID{SKU: sku}].Count)}] = true
		}
	}
	for _, sku := range all {
		for b := range s.buckets {
			wanted[b] = wanted[b] || b.SKU == sku
		}
	}
	var locked []inventory.Bucket
	for b := range wanted {
		k, ok := s.buckets[b]
		if !ok {
			continue
		}
		for at, q := range s.expiring {
			if at.BucketID == b && at.Second <= s.now.Unix() {
				k.Due += q
			}
		}
		locked = append(locked, k)
	}
	return inventory.NewBatch(s.now, locked, known)
}

func (s *table) write(c inventory.Changes) {
	for _, k := range append(c.Created, c.Buckets...) {
		if err := k.Law(); err != nil || k.Due != 0 {
			panic(fmt.Sprint(err, k.Due))
		}
		s.buckets[k.BucketID] = k
	}
	for _, f := range c.Freed {
		maps.DeleteFunc(s.expiring, func(at inventory.Expiring, _ int64) bool {
			return at.BucketID == f.BucketID && at.Second <= f.Second
		})
	}
	for _, m := range c.Moves {
		if s.expiring[m.Expiring] += m.Quantity; s.expiring[m.Expiring] < 0 {
			panic("units expire that nobody holds")
		}
	}
	for _, r := range append(c.Added, c.Changed...) {
		s.holds[r.ID] = *r
	}
}

func (s *table) ask(a inventory.Ask) inventory.Answer {
	a.RefusalsMax = 1000
	b := s.batch(a.ID, a.Items, nil)
	answer, more := b.Decide(a)
	if more != nil {
		if c := b.Changes(); len(c.Moves)+len(c.Added)+len(c.Changed) > 0 {
			panic("an ask that was not decided changed something")
		}
		b = s.batch(a.ID, a.Items, more)
		if answer, more = b.Decide(a); more != nil {
			// A hold of several SKUs may find out one by one.
			b = s.batch(a.ID, a.Items, s.skus())
			if answer, more = b.Decide(a); more != nil {
				panic("all buckets are here, and still more are wanted")
			}
		}
	}
	s.write(b.Changes())
	return answer
}

func (s *table) skus() (all []string) {
	for b := range s.buckets {
		if b.Number == 0 {
			all = append(all, b.SKU)
		}
	}
	return all
}

func (s *table) supply(d inventory.Delivery) error {
	b := s.batch("", nil, d.Items.SKUs())
	if err := b.Supply(d); err != nil {
		return err
	}
	s.write(b.Changes())
	return nil
}

// split is what a store does for SplitStore.
func (s *table) split(sku string, count int) {
	latest := s.now.Unix()
	for _, k := range s.buckets {
		if k.SKU == sku {
			latest = max(latest, k.FreedTo)
		}
	}
	now := s.now
	s.now = time.Unix(latest, 0)
	b := s.batch("", nil, []string{sku})
	s.write(b.Changes())
	s.now = now
	var before []inventory.Bucket
	for id, k := range s.buckets {
		if id.SKU == sku {
			k.FreedTo = latest
			before = append(before, k)
			delete(s.buckets, id)
		}
	}
	for _, k := range inventory.Split(before, count) {
		s.buckets[k.BucketID] = k
	}
	moved := func(id inventory.BucketID) inventory.BucketID {
		if id.SKU == sku {
			id.Number = inventory.Moved(id.Number, count)
		}
		return id
	}
	expiring := map[inventory.Expiring]int64{}
	for at, q := range s.expiring {
		at.BucketID = moved(at.BucketID)
		expiring[at] += q
	}
	s.expiring = expiring
	for id, r := range s.holds {
		parts := append([]inventory.Part(nil), r.Parts...)
		for i := range parts {
			parts[i].BucketID = moved(parts[i].BucketID)
		}
		r.Parts = parts
		s.holds[id] = r
	}
}

// plain is the same stock by definition: who holds what until when, and nothing else.
type plain struct {
	supply map[string]int64
	holds  map[string]*plainHold
}

type plainHold struct {
	items, sold inventory.Items
	state       inventory.State
	expires     int64
}

// free is what nobody has: of a hold that has expired, nothing.
func (p *plain) free(sku string, now int64) int64 {
	n := p.supply[sku]
	for _, h := range p.holds {
		if h.state == inventory.Held && h.expires > now {
			n -= h.items[sku]
		}
		n -= h.sold[sku]
	}
	return n
}

func (p *plain) enough(items inventory.Items, now int64) bool {
	for sku, q := range items {
		if p.free(sku, now) < q {
			return false
		}
	}
	return true
}

// TestStockIsExactWhateverIsAskedInWhateverOrder: every yes, no and level is that of the plain definition,
// over split and unsplit SKUs, expiries and strategies that change.
func TestStockIsExactWhateverIsAskedInWhateverOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, p := newTable(), &plain{supply: map[string]int64{}, holds: map[string]*plainHold{}}
		skus := rapid.SampledFrom([]string{"a", "b", "c"})
		ids := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8"})
		items := rapid.Custom(func(t *rapid.T) inventory.Items {
			return inventory.Items(rapid.MapOfN(skus, rapid.Int64Range(1, 6), 1, 2).Draw(t, "items"))
		})
		for _, sku := range []string{"a", "b", "c"} {
			d := inventory.Delivery{Items: inventory.Items{sku: 10}, Buckets: rapid.IntRange(0, 5).Draw(t, "buckets")}
			if err := s.supply(d); err != nil {
				t.Fatal(err)
			}
			p.supply[sku] = 10
		}
		ttl := func() time.Duration { return time.Duration(rapid.IntRange(1, 5).Draw(t, "ttl")) * time.Second }
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) { p.reserve(t, s, ids.Draw(t, "id"), items.Draw(t, "items"), ttl()) },
			"confirm": func(t *rapid.T) { p.confirm(t, s, ids.Draw(t, "id"), nil) },
			"part":    func(t *rapid.T) { p.confirm(t, s, ids.Draw(t, "id"), items.Draw(t, "items")) },
			"release": func(t *rapid.T) { p.release(t, s, ids.Draw(t, "id")) },
			"extend":  func(t *rapid.T) { p.extend(t, s, ids.Draw(t, "id"), ttl()) },
			"wait":    func(*rapid.T) { s.now = s.now.Add(time.Second) },
			"split":   func(t *rapid.T) { s.split(skus.Draw(t, "sku"), rapid.IntRange(1, 6).Draw(t, "count")) },
			"withdraw": func(t *rapid.T) {
				sku, q := skus.Draw(t, "sku"), rapid.Int64Range(1, 4).Draw(t, "units")
				enough := p.free(sku, s.now.Unix()) >= q
				err := s.supply(inventory.Delivery{Items: inventory.Items{sku: q}, Away: true})
				if (err == nil) != enough {
					t.Fatalf("taking away %d of %s: %v, enough is %v", q, sku, err, enough)
				}
				if enough {
					p.supply[sku] -= q
				}
			},
			"": func(t *rapid.T) { p.compare(t, s) },
		})
	})
}

func (p *plain) reserve(t *rapid.T, s *table, id string, items inventory.Items, ttl time.Duration) {
	enough := p.enough(items, s.now.Unix())
	got := s.ask(inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: ttl})
	h := p.holds[id]
	switch {
	case h != nil && !maps.Equal(h.items, items):
		want(t, got, inventory.ErrMismatch)
	case h != nil && h.state == inventory.Refused:
		want(t, got, inventory.ErrSoldOut)
	case h != nil:
		want(t, got, nil)
		if !got.Hold.Replayed {
			t.Fatalf("a known id was held again: %+v", got.Hold)
		}
	case enough:
		want(t, got, nil)
		p.holds[id] = &plainHold{items: items, state: inventory.Held, expires: s.now.Unix() + int64(ttl.Seconds())}
	default:
		want(t, got, inventory.ErrSoldOut)
		p.holds[id] = &plainHold{items: items, state: inventory.Refused}
	}
}

func (p *plain) confirm(t *rapid.T, s *table, id string, part inventory.Items) {
	got := s.ask(inventory.Ask{Act: inventory.Confirm, ID: id, Items: part})
	h := p.holds[id]
	if h == nil {
		want(t, got, inventory.ErrNotFound)
		return
	}
	wanted := part
	if part == nil {
		wanted = h.items
	}
	covered := true
	for sku, q := range wanted {
		covered = covered && q <= h.items[sku]
	}
	switch {
	case h.state == inventory.Confirmed && maps.Equal(h.sold, wanted):
		want(t, got, nil)
	case h.state == inventory.Confirmed:
		want(t, got, inventory.ErrMismatch)
	case h.state == inventory.Lapsed:
		want(t, got, inventory.ErrHoldExpired)
	case h.state != inventory.Held:
		want(t, got, inventory.ErrState)
	case !covered:
		if got.Err == nil {
			t.Fatalf("more was confirmed than held: %v of %v", wanted, h.items)
		}
	case h.expires > s.now.Unix() || p.enough(wanted, s.now.Unix()):
		want(t, got, nil)
		h.state, h.sold = inventory.Confirmed, wanted
	default:
		want(t, got, inventory.ErrHoldExpired)
		h.state = inventory.Lapsed
	}
}

func (p *plain) release(t *rapid.T, s *table, id string) {
	got := s.ask(inventory.Ask{Act: inventory.Release, ID: id})
	h := p.holds[id]
	switch {
	case h == nil:
		want(t, got, inventory.ErrNotFound)
	case h.state == inventory.Confirmed || h.state == inventory.Refused:
		want(t, got, inventory.ErrState)
	default:
		want(t, got, nil)
		if h.state == inventory.Held {
			h.state = inventory.Released
		}
	}
}

func (p *plain) extend(t *rapid.T, s *table, id string, ttl time.Duration) {
	got := s.ask(inventory.Ask{Act: inventory.Extend, ID: id, TTL: ttl})
	h := p.holds[id]
	switch {
	case h == nil:
		want(t, got, inventory.ErrNotFound)
	case h.state == inventory.Lapsed || h.state == inventory.Held && h.expires <= s.now.Unix():
		want(t, got, inventory.ErrHoldExpired)
	case h.state != inventory.Held:
		want(t, got, inventory.ErrState)
	default:
		want(t, got, nil)
		h.expires = max(h.expires, s.now.Unix()+int64(ttl.Seconds()))
	}
}

// compare checks the law and every level. What has expired may still be held in the table, until it is asked.
func (p *plain) compare(t *rapid.T, s *table) {
	for sku, supply := range p.supply {
		var free, sum int64
		for id, k := range s.buckets {
			if id.SKU != sku {
				continue
			}
			free += k.Available
			sum += k.Supply
			for at, q := range s.expiring {
				if at.BucketID == id && at.Second <= s.now.Unix() {
					free += q
				}
			}
		}
		if want := p.free(sku, s.now.Unix()); free != want || sum != supply {
			t.Fatalf("%s has %d free of %d, want %d of %d", sku, free, sum, want, supply)
		}
	}
	for id, h := range p.holds {
		if r := s.holds[id]; r.State != h.state {
			t.Fatalf("hold %s is %v, want %v", id, r.State, h.state)
		}
	}
}

func want(t *rapid.T, got inventory.Answer, want error) {
	if !errors.Is(got.Err, want) {
		t.Fatalf("got %v (%v), want %v", got.Err, got.Hold.State, want)
	}
}
