package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

// History returns what happened to a hold; see inventory.LedgerStore.
func (s Stock) History(ctx context.Context, id string) ([]inventory.Entry, error) {
	if err := s.store.step(ctx, "history"); err != nil {
		return nil, err
	}
	k := s.store.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.holds[id]
	if r == nil {
		return nil, inventory.ErrNotFound
	}
	return copiedLog(r.History(s.store.now())), nil
}

// Check adds up the books; see inventory.LedgerStore.
func (s Stock) Check(ctx context.Context) ([]inventory.Fault, error) {
	if err := s.store.step(ctx, "check"); err != nil {
		return nil, err
	}
	k := s.store.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	sums := k.sums()
	var faults []inventory.Fault
	differ := func(sku string, bucket int, what string, level, records int64) {
		if level != records && len(faults) < inventory.FaultsMax {
			faults = append(faults, inventory.Fault{SKU: sku, Bucket: bucket, What: what, Level: level, Records: records})
		}
	}
	for _, sku := range slices.Sorted(maps.Keys(k.skus)) {
		e := k.skus[sku]
		supply, sold := int64(0), int64(0)
		for i, b := range e.buckets {
			supply += b.Supply
			sold += b.Sold
			differ(sku, i, "supply", b.Supply, b.Available+b.Held+b.Sold)
			differ(sku, i, "held", b.Held, sums.held[b.BucketID])
			differ(sku, i, "expiring", b.Held, sum(e.expiring[i].units))
		}
		differ(sku, -1, "supply", supply, sums.delivered[sku]+e.deliveredFolded)
		differ(sku, -1, "sold", sold, sums.sold[sku]+e.soldFolded)
		differ(sku, -1, "refusals", e.buckets[0].Refusals, sums.refused[sku])
	}
	return faults, nil
}

// sums is what the books add up to.
type sums struct {
	held                     map[inventory.BucketID]int64
	sold, delivered, refused map[string]int64
}

func (k *shelves) sums() sums {
	all := sums{map[inventory.BucketID]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}}
	for _, r := range k.holds {
		if r.State == inventory.Refused {
			all.refused[r.Short.SKU]++
		}
		for _, p := range r.Parts {
			switch {
			case r.State == inventory.Confirmed:
				all.sold[p.SKU] += p.Quantity
			case r.Expires > k.skus[p.SKU].buckets[p.Number].FreedTo:
				all.held[p.BucketID] += p.Quantity
			}
		}
	}
	for _, d := range k.deliveries {
		for sku, q := range d.items {
			all.delivered[sku] += d.signed(q)
		}
	}
	return all
}

func (d delivered) signed(q int64) int64 {
	if d.away {
		return -q
	}
	return q
}

func sum(units map[int64]int64) (all int64) {
	for _, q := range units {
		all += q
	}
	return all
}

// sweepLooks is how many records a sweep looks at before it lets others have the stock.
const sweepLooks = 1000

// Sweep frees what has expired and forgets what was settled longer than keep ago; see inventory.Store. What a
// transaction is at work on is left for the next time.
func (s Stock) Sweep(ctx context.Context, keep time.Duration, limit int) (removed int, err error) {
	if err := s.store.step(ctx, "sweep"); err != nil {
		return 0, err
	}
	before := s.store.now().Add(-keep)
	for more := true; more && removed < limit && ctx.Err() == nil; {
		var n int
		n, more = s.sweep(before, min(limit-removed, sweepLooks))
		removed += n
	}
	return removed, ctx.Err()
}

// sweep is a part of Sweep, for which nobody else has the stock. more says that there is some left to do.
func (s Stock) sweep(before time.Time, limit int) (removed int, more bool) {
	k := s.store.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	now := s.store.now()
	for sku, e := range k.skus {
		if k.locked[sku] == nil && e.due(now.Unix()) {
			view := stockView{shelves: k}
			k.apply(inventory.NewBatch(now, view.buckets(sku, now.Unix()), nil).Changes(), now)
		}
	}
	removed = k.forgetSettled(before, limit)
	n, more := k.forgetExpired(before, limit-removed)
	removed += n
	removed += k.forgetDeliveries(before, limit-removed)
	return removed, more || removed == limit
}

// isLocked says whether a transaction is at work on a hold or on a SKU of it: it may have read what a sweep
// would change.
func (k *shelves) isLocked(r *inventory.Record) bool {
	if len(k.asked) == 0 {
		return false
	}
	return k.busy(nil, r.ID, r.Items.SKUs()) != nil
}

// forgetSettled removes holds that were settled before a time, and keeps what they add up to.
func (k *shelves) forgetSettled(before time.Time, limit int) (removed int) {
	for len(k.settled) > 0 && removed < limit && !k.settled[0].at.After(before) {
		r := k.holds[k.settled[0].id]
		if k.isLocked(r) {
			break
		}
		for _, p := range r.Parts { // it was confirmed: others have none
			k.skus[p.SKU].soldFolded += p.Quantity
		}
		if r.State == inventory.Refused {
			k.skus[r.Short.SKU].buckets[0].Refusals--
		}
		delete(k.holds, r.ID)
		k.settled = k.settled[1:]
		removed++
	}
	return removed
}

// forgetExpired removes holds that expired before a time and were never settled. more says that there may be
// some left.
func (k *shelves) forgetExpired(before time.Time, limit int) (removed int, more bool) {
	looks := 0
	for second, ids := range k.ends {
		if second > before.Unix() {
			continue
		}
		for len(ids) > 0 && removed < limit && looks < sweepLooks {
			r := k.holds[ids[0]]
			if r != nil && r.State == inventory.Held && !k.forgetHeld(r, second, &removed) {
				break
			}
			ids = ids[1:]
			looks++
		}
		if k.ends[second] = ids; len(ids) == 0 {
			delete(k.ends, second)
		}
	}
	return removed, looks == sweepLooks
}

// forgetHeld removes a hold that was to expire in a second, once its units are freed. One that was extended is
// looked for again in its new second. It says whether this one is done with.
func (k *shelves) forgetHeld(r *inventory.Record, second int64, removed *int) bool {
	switch {
	case r.Expires > second:
		k.ends[r.Expires] = append(k.ends[r.Expires], r.ID)
		return true
	case k.isLocked(r) || !k.isFreed(r):
		return false
	}
	delete(k.holds, r.ID)
	*removed++
	return true
}

func (k *shelves) isFreed(r *inventory.Record) bool {
	return !slices.ContainsFunc(r.Parts, func(p inventory.Part) bool {
		return k.skus[p.SKU].buckets[p.Number].FreedTo < r.Expires
	})
}

func (k *shelves) forgetDeliveries(before time.Time, limit int) (removed int) {
	for len(k.delivered) > 0 && removed < limit && !k.delivered[0].at.After(before) {
		id := k.delivered[0].id // a transaction makes none, and writes no sum of them
		for sku, q := range k.deliveries[id].items {
			k.skus[sku].deliveredFolded += k.deliveries[id].signed(q)
		}
		delete(k.deliveries, id)
		k.delivered = k.delivered[1:]
		removed++
	}
	return removed
}

// Split changes into how many buckets a SKU is split; see inventory.SplitStore.
func (s Stock) Split(ctx context.Context, sku string, count int) error {
	if count < 1 || count > inventory.BucketsMax {
		return &fifty.InvalidError{Field: "count", Problem: fmt.Sprintf("is %d; there may be 1 to %d", count, inventory.BucketsMax)}
	}
	if err := s.store.step(ctx, "split"); err != nil {
		return err
	}
	k := s.store.stock
	if err := k.lockSKUs(ctx, sku); err != nil {
		return err
	}
	defer k.mu.Unlock()
	e := k.skus[sku]
	if e == nil {
		return &inventory.UnknownSKUError{SKU: sku}
	}
	now := s.store.now()
	latest := now.Unix()
	for _, b := range e.buckets {
		latest = max(latest, b.FreedTo)
	}
	view := stockView{shelves: k}
	k.apply(inventory.NewBatch(time.Unix(latest, 0), view.buckets(sku, latest), nil).Changes(), now)
	for i := range e.buckets {
		e.buckets[i].FreedTo = latest
	}
	// Linearization point: the buckets, what expires in them and the parts of their holds change at once.
	moved := make([]expiring, count)
	for i, old := range e.expiring {
		for second, units := range old.units {
			moved[inventory.Moved(i, count)].add(second, units)
		}
	}
	e.buckets, e.expiring = inventory.Split(e.buckets, count), moved
	for _, r := range k.holds {
		for i, p := range r.Parts {
			if p.SKU == sku {
				r.Parts[i].Number = inventory.Moved(p.Number, count)
			}
		}
	}
	return nil
}
