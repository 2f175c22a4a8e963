package inventorytest_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

// clock is the store's, which only the suite moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// reference is a store by definition: levels and holds behind a mutex, with a fault if there is one. It has
// none of what package inventory decides with, so the two check each other. It is split in name only.
type reference struct {
	hook  inventorytest.Hook
	clock *clock
	fault fault

	mu sync.Mutex
	db *state
}

// state is all that the reference stores.
type state struct {
	now        time.Time
	levels     map[string]inventory.Level
	refusals   map[string]int64
	folded     map[string]inventory.Level // what sweeps have removed: Supply and Sold
	holds      map[string]hold
	deliveries map[string]delivery
	buckets    map[string]int
}

type hold struct {
	items, sold inventory.Items
	state       inventory.State
	expires     int64
	freed       bool // its units went back when its time was over
	short       inventory.SoldOut
	reserved    time.Time
	settled     time.Time
	log         []inventory.Entry
}

type delivery struct {
	items inventory.Items
	away  bool
	at    time.Time
}

func newReference(hook inventorytest.Hook, c *clock, f fault) *reference {
	return &reference{hook: hook, clock: c, fault: f, db: &state{
		levels: map[string]inventory.Level{}, refusals: map[string]int64{}, folded: map[string]inventory.Level{},
		holds: map[string]hold{}, deliveries: map[string]delivery{}, buckets: map[string]int{},
	}}
}

// with returns a maker of stores that have a fault.
func with(f fault) (func(testing.TB, inventorytest.Hook) inventory.Store, inventorytest.Features) {
	c := newClock()
	newStore := func(_ testing.TB, hook inventorytest.Hook) inventory.Store { return newReference(hook, c, f) }
	return newStore, inventorytest.Features{Advance: c.advance, Blocked: func(context.Context) int { return 0 }}
}

func (s *state) clone() *state {
	return &state{
		now: s.now, levels: maps.Clone(s.levels), refusals: maps.Clone(s.refusals), folded: maps.Clone(s.folded),
		holds: maps.Clone(s.holds), deliveries: maps.Clone(s.deliveries), buckets: maps.Clone(s.buckets),
	}
}

// merge writes what fn has changed of before, in after: levels as differences, records as they are.
func (s *state) merge(before, after *state) {
	for sku, l := range after.levels {
		old, now := before.levels[sku], s.levels[sku]
		s.levels[sku] = inventory.Level{
			SKU: sku, Supply: now.Supply + l.Supply - old.Supply, Available: now.Available + l.Available - old.Available,
			Held: now.Held + l.Held - old.Held, Sold: now.Sold + l.Sold - old.Sold,
		}
		s.refusals[sku] += after.refusals[sku] - before.refusals[sku]
	}
	for id, h := range after.holds {
		if old, ok := before.holds[id]; !ok || old.state != h.state || old.expires != h.expires || old.freed != h.freed {
			s.holds[id] = h
		}
	}
	for id, d := range after.deliveries {
		s.deliveries[id] = d
	}
}

// do is one act on the store.
func (r *reference) do(ctx context.Context, point string, fn func(s *state)) error {
	r.hook(ctx, point)
	if ctx.Err() != nil && r.fault != contextIgnored {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.db.now = r.clock.Now()
	if r.fault != readThenWrite {
		fn(r.db)
		return nil
	}
	before := r.db.clone()
	r.mu.Unlock()
	after := before.clone()
	fn(after)
	r.hook(ctx, point+".write")
	r.mu.Lock()
	r.db.merge(before, after)
	return nil
}

func (r *reference) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return r.batch(ctx, "reserve", asks)
}

func (r *reference) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return r.batch(ctx, "settle", asks)
}

func (r *reference) batch(ctx context.Context, point string, asks []inventory.Ask) ([]inventory.Answer, error) {
	answers := make([]inventory.Answer, len(asks))
	err := r.do(ctx, point, func(s *state) {
		first := s.clone()
		for i, a := range asks {
			switch r.fault {
			case batchLooksOnce:
				after := first.clone()
				answers[i] = r.decide(after, a)
				s.merge(first, after)
			case batchTwice:
				if _, known := first.holds[a.ID]; !known {
					delete(s.holds, a.ID) // it looks for known ids before it begins
				}
				answers[i] = r.decide(s, a)
			default:
				answers[i] = r.decide(s, a)
			}
		}
	})
	if r.fault == batchReversed {
		slices.Reverse(answers)
	}
	return answers, err
}

// copied is what a caller may do with as it likes.
func (r *reference) copied(items inventory.Items) inventory.Items {
	if r.fault == itemsShared {
		return items
	}
	return maps.Clone(items)
}

func (r *reference) show(s *state, id string, h hold, replayed bool) inventory.Hold {
	shown := inventory.Hold{ID: id, Items: r.copied(h.items), Sold: r.copied(h.sold), State: h.state, Replayed: replayed}
	if h.state == inventory.Held {
		if shown.ExpiresIn = time.Unix(h.expires, 0).Sub(s.now); shown.ExpiresIn <= 0 {
			shown.State, shown.ExpiresIn = inventory.Expired, 0
		}
	}
	return shown
}

func (r *reference) name(name string) string {
	if r.fault == namesFolded {
		return strings.ToLower(name)
	}
	return name
}

func (r *reference) Supply(ctx context.Context, d inventory.Delivery) (err error) {
	callErr := r.do(ctx, "supply", func(s *state) { err = r.supply(s, d) })
	if callErr != nil {
		return callErr
	}
	return err
}

func (r *reference) Availability(ctx context.Context, skus []string) (levels []inventory.Level, err error) {
	callErr := r.do(ctx, "availability", func(s *state) {
		for _, sku := range skus {
			l, ok := s.levels[r.name(sku)]
			if !ok {
				levels, err = nil, &inventory.UnknownSKUError{SKU: sku}
				return
			}
			for _, h := range s.holds {
				if r.isDue(s, h) && r.fault != looksAtLevels {
					l.Available += h.items[sku]
					l.Held -= h.items[sku]
				}
			}
			levels = append(levels, l)
		}
	})
	if callErr != nil {
		return nil, callErr
	}
	return levels, err
}

func (r *reference) Split(ctx context.Context, sku string, count int) (err error) {
	if count < 1 || count > inventory.BucketsMax {
		return invalid("count")
	}
	callErr := r.do(ctx, "split", func(s *state) {
		if _, ok := s.levels[sku]; !ok {
			err = &inventory.UnknownSKUError{SKU: sku}
			return
		}
		if r.fault == splitLoses {
			l := s.levels[sku]
			lost := l.Available % int64(count)
			l.Available -= lost
			l.Supply -= lost
			s.levels[sku] = l
		}
		s.buckets[sku] = count
	})
	if callErr != nil {
		return callErr
	}
	return err
}

func (r *reference) History(ctx context.Context, id string) (all []inventory.Entry, err error) {
	err = r.do(ctx, "history", func(s *state) {
		h, ok := s.holds[id]
		if !ok {
			err = inventory.ErrNotFound
			return
		}
		first := inventory.Entry{What: "reserved", Items: h.items, At: h.reserved, Times: 1}
		if h.state == inventory.Refused {
			first.What = "refused"
		}
		all = append(all, first)
		if r.fault != historyForgets {
			all = append(all, h.log...)
		}
		if h.state == inventory.Held && h.expires <= s.now.Unix() {
			all = append(all, inventory.Entry{What: "expired", Items: h.items, At: time.Unix(h.expires, 0), Times: 1})
		}
	})
	if all == nil && err == nil {
		err = inventory.ErrNotFound
	}
	return all, err
}

func (r *reference) Check(ctx context.Context) (faults []inventory.Fault, err error) {
	err = r.do(ctx, "check", func(s *state) {
		sums := map[string]inventory.Level{}
		for sku, l := range s.folded {
			sums[sku] = l
		}
		add := func(sku string, change inventory.Level) {
			l := sums[sku]
			l.Supply += change.Supply
			l.Held += change.Held
			l.Sold += change.Sold
			sums[sku] = l
		}
		for _, d := range s.deliveries {
			for sku, q := range d.items {
				if d.away {
					q = -q
				}
				add(sku, inventory.Level{Supply: q})
			}
		}
		for _, h := range s.holds {
			for sku, q := range h.items {
				if h.state == inventory.Held && !h.freed {
					add(sku, inventory.Level{Held: q})
				}
				add(sku, inventory.Level{Sold: h.sold[sku]})
			}
		}
		for sku, l := range s.levels {
			for what, pair := range map[string][2]int64{
				"held": {l.Held, sums[sku].Held}, "sold": {l.Sold, sums[sku].Sold}, "supply": {l.Supply, sums[sku].Supply},
				"law": {l.Supply, l.Available + l.Held + l.Sold},
			} {
				if pair[0] != pair[1] {
					faults = append(faults, inventory.Fault{SKU: sku, Bucket: -1, What: what, Level: pair[0], Records: pair[1]})
				}
			}
		}
	})
	return faults, err
}
