package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

// Stock is the stock of a store, for inventory.New and inventory.NewTx. It is safe for concurrent use.
type Stock struct{ store *Store }

// Stock returns the store's stock.
func (s *Store) Stock() Stock { return Stock{s} }

var (
	_ inventory.TxStore[*Tx] = Stock{}
	_ inventory.LedgerStore  = Stock{}
	_ inventory.SplitStore   = Stock{}
)

// shelves are all state of the stock. Whoever needs the store's mutex as well takes that one first.
type shelves struct {
	mu         sync.Mutex
	skus       map[string]*shelf
	holds      map[string]*inventory.Record
	deliveries map[string]delivered
	locked     map[string]*Tx     // by SKU: the transaction that is at work on it
	asked      map[string]*Tx     // by id of a hold, likewise: it may be new to two transactions with other SKUs
	ends       map[int64][]string // ids of holds by the second in which they expired when they were last looked for
	settled    []settled          // holds that are over, in the order in which that happened
	delivered  []settled          // deliveries, likewise
	waits      map[*Tx]*Tx        // which transaction waits for which
	waiting    int                // callers that wait for a transaction
}

// shelf is one SKU.
type shelf struct {
	buckets                     []inventory.Bucket
	expiring                    []expiring      // by bucket
	order                       inventory.Items // what the last order was of; the records of the same orders share it
	deliveredFolded, soldFolded int64           // what is no longer in the books
}

// due says that something has expired in one of its buckets.
func (e *shelf) due(second int64) bool {
	for i := range e.expiring {
		if e.expiring[i].due(second) > 0 {
			return true
		}
	}
	return false
}

type delivered struct {
	items inventory.Items
	away  bool
}

type settled struct {
	id string
	at time.Time
}

// expiring are the units of one bucket that are held, by the second in which they expire.
type expiring struct {
	units    map[int64]int64
	earliest int64 // no second in units is before it
}

// due is how much has expired. When nothing has, the next look need not go through all of them again.
func (e *expiring) due(second int64) (units int64) {
	if second < e.earliest {
		return 0
	}
	for at, q := range e.units {
		if at <= second {
			units += q
		}
	}
	if units == 0 {
		e.earliest = second + 1
	}
	return units
}

// freed forgets what has expired.
func (e *expiring) freed(second int64) {
	e.earliest = second + 1
	maps.DeleteFunc(e.units, func(at, _ int64) bool { return at <= second })
}

func (e *expiring) add(second, units int64) {
	if e.units == nil {
		e.units = map[int64]int64{}
	}
	e.earliest = min(e.earliest, second)
	if e.units[second] += units; e.units[second] == 0 {
		delete(e.units, second)
	}
}

func newShelves() *shelves {
	return &shelves{
		skus: map[string]*shelf{}, holds: map[string]*inventory.Record{},
		deliveries: map[string]delivered{}, locked: map[string]*Tx{}, asked: map[string]*Tx{}, ends: map[int64][]string{},
		waits: map[*Tx]*Tx{},
	}
}

// Reserve decides the asks in order; see inventory.Store.
func (s Stock) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return s.decide(ctx, "reserve", asks)
}

// Settle decides the asks in order; see inventory.Store.
func (s Stock) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return s.decide(ctx, "settle", asks)
}

func (s Stock) decide(ctx context.Context, point string, asks []inventory.Ask) ([]inventory.Answer, error) {
	if err := s.store.step(ctx, point); err != nil {
		return nil, err
	}
	answers := make([]inventory.Answer, len(asks))
	k := s.store.stock
	for i, a := range asks {
		if err := k.lockFor(ctx, nil, a); err != nil {
			if i > 0 { // the asks before it stand, and say the same again
				err = fmt.Errorf("memory: %s: %w: %w", point, fifty.ErrUnknownOutcome, err)
			}
			return nil, err
		}
		// Linearization point: the mutex is held from here to the unlock, so nobody sees the stock in between.
		now := s.store.now()
		if a.Act != inventory.Reserve || !k.reserve(now, a, &answers[i]) {
			b := k.batch(now, nil, a)
			answers[i], _ = b.Decide(a) // all buckets are there
			k.apply(b.Changes(), now)
		}
		k.mu.Unlock()
	}
	return answers, nil
}

// reserve is the common case by itself, since it is what a hot SKU is about: a new id, one SKU that is not
// split, nothing expired, and enough. Anything else is left to the Batch.
func (k *shelves) reserve(now time.Time, a inventory.Ask, answer *inventory.Answer) bool {
	if len(a.Items) != 1 || k.holds[a.ID] != nil {
		return false
	}
	for sku, q := range a.Items {
		e := k.skus[sku]
		if e == nil || len(e.buckets) != 1 || e.buckets[0].Available < q || e.expiring[0].due(now.Unix()) > 0 {
			return false
		}
		b := &e.buckets[0]
		if e.order[sku] != q {
			e.order = inventory.Items{sku: q}
		}
		kept := &struct { // in one piece of memory
			inventory.Record
			part [1]inventory.Part
		}{part: [1]inventory.Part{{BucketID: b.BucketID, Quantity: q}}}
		kept.Record = inventory.Record{
			ID: a.ID, Items: e.order, State: inventory.Held, Reserved: now, Parts: kept.part[:],
			Expires: inventory.ExpirySecond(now, a.TTL, b.FreedTo),
		}
		r := &kept.Record
		b.Available -= q
		b.Held += q
		e.expiring[0].add(r.Expires, q)
		k.holds[r.ID] = r
		k.ends[r.Expires] = append(k.ends[r.Expires], r.ID)
		*answer = inventory.Answer{Hold: r.Hold(now)}
		answer.Hold.Items = a.Items // the caller's own: the other is nobody's to change
	}
	return true
}

// batch is what an ask is decided on: all buckets of its SKUs and of its hold's, with what tx has changed.
func (k *shelves) batch(now time.Time, tx *Tx, asks ...inventory.Ask) *inventory.Batch {
	var buckets []inventory.Bucket
	var known []inventory.Record
	seen := map[string]bool{}
	view := k.view(tx)
	for _, a := range asks {
		skus := a.Items.SKUs()
		if r := view.hold(a.ID); r != nil {
			known = append(known, copied(r))
			skus = append(skus, r.Items.SKUs()...)
		}
		for _, sku := range skus {
			if !seen[sku] {
				seen[sku] = true
				buckets = append(buckets, view.buckets(sku, now.Unix())...)
			}
		}
	}
	return inventory.NewBatch(now, buckets, known)
}

// copied is a record that shares nothing with another: what callers hand in and what they get is theirs to
// change. Parts are seen by nobody else.
func copied(r *inventory.Record) inventory.Record {
	c := *r
	c.Items, c.Log = maps.Clone(r.Items), copiedLog(r.Log)
	return c
}

func copiedLog(log []inventory.Entry) []inventory.Entry {
	log = slices.Clone(log)
	for i := range log {
		log[i].Items = maps.Clone(log[i].Items)
	}
	return log
}

// apply writes what was decided.
func (k *shelves) apply(c inventory.Changes, now time.Time) {
	for _, b := range c.Created {
		if k.skus[b.SKU] == nil {
			k.skus[b.SKU] = &shelf{buckets: make([]inventory.Bucket, b.Count), expiring: make([]expiring, b.Count)}
		}
	}
	for _, b := range slices.Concat(c.Created, c.Buckets) {
		k.skus[b.SKU].buckets[b.Number] = b
	}
	for _, f := range c.Freed {
		k.skus[f.SKU].expiring[f.Number].freed(f.Second)
	}
	for _, m := range c.Moves {
		k.skus[m.SKU].expiring[m.Number].add(m.Second, m.Quantity)
	}
	for _, r := range c.Added {
		k.write(r, now)
		if r.State == inventory.Held {
			k.ends[r.Expires] = append(k.ends[r.Expires], r.ID)
		}
	}
	for _, r := range c.Changed {
		k.write(r, now)
	}
}

func (k *shelves) write(r *inventory.Record, now time.Time) {
	kept := copied(r)
	k.holds[r.ID] = &kept
	if r.State != inventory.Held {
		k.settled = append(k.settled, settled{r.ID, now})
	}
}

// Supply books a delivery; see inventory.Store.
func (s Stock) Supply(ctx context.Context, d inventory.Delivery) error {
	if err := s.store.step(ctx, "supply"); err != nil {
		return err
	}
	k := s.store.stock
	if err := k.lockSKUs(ctx, d.Items.SKUs()...); err != nil {
		return err
	}
	defer k.mu.Unlock()
	if first, ok := k.deliveries[d.ID]; ok {
		if first.away != d.Away || !maps.Equal(first.items, d.Items) {
			return &inventory.MismatchError{ID: d.ID, First: maps.Clone(first.items)}
		}
		return nil
	}
	now := s.store.now()
	b := k.batch(now, nil, inventory.Ask{Items: d.Items})
	if err := b.Supply(d); err != nil {
		return err
	}
	// Linearization point: the delivery and the levels appear at once, under the mutex.
	k.apply(b.Changes(), now)
	k.deliveries[d.ID] = delivered{maps.Clone(d.Items), d.Away}
	k.delivered = append(k.delivered, settled{d.ID, now})
	return nil
}

// Availability reads the levels; see inventory.Store.
func (s Stock) Availability(ctx context.Context, skus []string) ([]inventory.Level, error) {
	if err := s.store.step(ctx, "availability"); err != nil {
		return nil, err
	}
	k := s.store.stock
	k.mu.Lock()
	defer k.mu.Unlock()
	now := s.store.now().Unix()
	levels := make([]inventory.Level, 0, len(skus))
	for _, sku := range skus {
		e := k.skus[sku]
		if e == nil {
			return nil, &inventory.UnknownSKUError{SKU: sku}
		}
		l := inventory.Level{SKU: sku}
		for i, b := range e.buckets {
			due := e.expiring[i].due(now)
			l.Supply += b.Supply
			l.Available += b.Available + due
			l.Held += b.Held - due
			l.Sold += b.Sold
		}
		levels = append(levels, l)
	}
	return levels, nil
}
