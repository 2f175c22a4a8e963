package inventory

import (
	"slices"
	"time"

	"github.com/fiftyhosts/fifty"
)

// Batch decides asks over buckets that a store has locked. It is what all stores share that decide outside
// the database: they lock, read in a later statement, hand over what they read, ask, and write the changes.
//
// The rules (H12, H14):
//
//   - Reserve and Confirm decide behind the same locks, by a clock that was read behind them.
//   - An expired hold is free only once somebody has freed it, under the lock: NewBatch does, for every bucket
//     that it gets. So its units are counted once, whoever is quicker, its confirm or the next reservation.
//   - An order is decided as a whole, and each SKU by its sum.
//   - A split SKU is sold out only when all its buckets, locked together, say so.
//
// A Batch is not safe for concurrent use.
type Batch struct {
	now     time.Time
	buckets map[BucketID]*Bucket
	counts  map[string]int // by SKU: its buckets, as the locked ones say
	holds   map[string]*Record

	created map[BucketID]bool
	dirty   map[BucketID]bool
	freed   map[BucketID]bool
	moves   map[Expiring]int64
	probed  map[string]bool // SKUs whose home was short, so that all buckets are here
	added   []*Record
	changed []*Record
}

// Expiring are the units of a bucket that expire in one second.
type Expiring struct {
	BucketID
	Second int64
}

// NewBatch starts with the locked buckets and the holds that are known of those asked for. now is the store's
// clock, read after the last lock was taken, and so are the holds and each bucket's Due. Of every SKU that an
// ask names, or that a known hold has parts of, there must be at least one bucket, best the home of the ask's
// ID and those of the parts; a SKU without any counts as unknown.
func NewBatch(now time.Time, buckets []Bucket, known []Record) *Batch {
	b := &Batch{
		now: now, buckets: make(map[BucketID]*Bucket, len(buckets)), counts: map[string]int{},
		holds: make(map[string]*Record, len(known)), created: map[BucketID]bool{}, dirty: map[BucketID]bool{},
		freed: map[BucketID]bool{}, moves: map[Expiring]int64{}, probed: map[string]bool{},
	}
	for _, k := range buckets {
		if k.Due > 0 {
			k.Held -= k.Due
			k.Available += k.Due
			k.FreedTo = max(k.FreedTo, now.Unix())
			k.Due = 0
			b.dirty[k.BucketID], b.freed[k.BucketID] = true, true
		}
		b.buckets[k.BucketID], b.counts[k.SKU] = &k, k.Count
	}
	for _, r := range known {
		b.holds[r.ID] = r.clone()
	}
	return b
}

// Decide decides one ask; what it changes is seen by the next one. With more set, it could not be decided,
// and nothing was changed: ask again in a later Batch that has all buckets of each of those SKUs. The store
// must then have let go of the locks that it has, so that buckets are always locked in order.
func (b *Batch) Decide(a Ask) (answer Answer, more []string) {
	if a.Act == Reserve {
		return b.reserve(a)
	}
	r := b.holds[a.ID]
	if r == nil {
		return Answer{Err: ErrNotFound}, nil
	}
	switch a.Act {
	case Confirm:
		return b.confirm(r, a)
	case Release:
		return b.release(r)
	default:
		return b.extend(r, a.TTL)
	}
}

func (b *Batch) reserve(a Ask) (Answer, []string) {
	if r := b.holds[a.ID]; r != nil {
		return b.again(r, a), nil
	}
	for sku := range a.Items {
		if b.counts[sku] == 0 {
			return Answer{Err: &UnknownSKUError{SKU: sku}}, nil
		}
	}
	parts, short, more := b.find(a.ID, a.Items)
	switch {
	case short != nil:
		return b.refuse(a, *short), nil
	case more != nil:
		return Answer{}, more
	}
	r := &Record{ID: a.ID, Items: a.Items, State: Held, Parts: parts, Expires: b.expiry(parts, a.TTL), Reserved: b.now}
	b.hold(r, parts)
	b.add(r)
	return Answer{Hold: r.Hold(b.now)}, nil
}

// again answers an ask whose id is known: as it was answered first.
func (b *Batch) again(r *Record, a Ask) Answer {
	h := r.Hold(b.now)
	h.Replayed = true
	switch {
	case !sameItems(r.Items, a.Items):
		return Answer{Hold: h, Err: &MismatchError{ID: r.ID, First: r.Items}}
	case r.State == Refused:
		return Answer{Hold: h, Err: &SoldOutError{SoldOut: r.Short, Replayed: true}}
	default:
		return Answer{Hold: h}
	}
}

// refuse records that there was not enough. The number of refusals is bounded, and at the bound nothing is
// recorded or forgotten (H16): an old refusal that went away would turn a retry into a sale.
func (b *Batch) refuse(a Ask, short SoldOut) Answer {
	first := b.buckets[BucketID{short.SKU, 0}]
	if first == nil || first.Refusals >= a.RefusalsMax {
		return Answer{Err: ErrBusy}
	}
	first.Refusals++
	b.dirty[first.BucketID] = true
	r := &Record{ID: a.ID, Items: a.Items, State: Refused, Short: short, Reserved: b.now}
	b.add(r)
	return Answer{Hold: r.Hold(b.now), Err: &SoldOutError{SoldOut: short}}
}

func (b *Batch) confirm(r *Record, a Ask) (Answer, []string) {
	h := r.Hold(b.now)
	wanted := a.Items
	if wanted == nil {
		wanted = r.Items
	}
	switch r.State {
	case Held:
	case Confirmed:
		if h.Replayed = sameItems(h.Sold, wanted); !h.Replayed {
			return Answer{Hold: h, Err: &MismatchError{ID: r.ID, First: h.Sold}}, nil
		}
		return Answer{Hold: h}, nil
	case Lapsed:
		h.Replayed = true
		return Answer{Hold: h, Err: &HoldExpiredError{Hold: h, Short: r.Short}}, nil
	default:
		return Answer{Hold: h, Err: &StateError{Wanted: a.Act.String(), Hold: h}}, nil
	}
	if !wanted.within(r.Items) {
		return Answer{Hold: h, Err: &fifty.InvalidError{Field: "items", Problem: "has more than the hold; confirm what it has or less"}}, nil
	}
	return b.sell(r, wanted)
}

// sell makes sold units of held ones. What of the hold was freed meanwhile is taken again, as one with the
// rest or not at all.
func (b *Batch) sell(r *Record, wanted Items) (Answer, []string) {
	if more := b.elsewhere(r); more != nil {
		return Answer{}, more
	}
	kept, gone := b.split(r)
	missing := Items{}
	for sku, q := range wanted {
		if q -= unitsOf(kept, sku); q > 0 {
			missing[sku] = q
		}
	}
	taken, short, more := []Part(nil), (*SoldOut)(nil), []string(nil)
	if len(gone) > 0 {
		taken, short, more = b.find(r.ID, missing)
	}
	if more != nil {
		return Answer{}, more
	}
	b.giveBack(r, kept)
	if short != nil {
		r.State, r.Short, r.Parts = Lapsed, *short, nil
		r.note("lapsed", r.Items, b.now)
		b.change(r)
		h := r.Hold(b.now)
		return Answer{Hold: h, Err: &HoldExpiredError{Hold: h, Short: r.Short}}, nil
	}
	r.Parts = append(firstOf(kept, wanted), taken...)
	for _, p := range r.Parts {
		k := b.touch(p.BucketID)
		k.Available -= p.Quantity
		k.Sold += p.Quantity
	}
	r.State = Confirmed
	r.note("confirmed", wanted, b.now)
	b.change(r)
	return Answer{Hold: r.Hold(b.now)}, nil
}

func (b *Batch) release(r *Record) (Answer, []string) {
	h := r.Hold(b.now)
	switch r.State {
	case Held:
	case Released, Lapsed: // there is nothing left to give back
		h.Replayed = true
		return Answer{Hold: h}, nil
	default:
		return Answer{Hold: h, Err: &StateError{Wanted: Release.String(), Hold: h}}, nil
	}
	if more := b.elsewhere(r); more != nil {
		return Answer{}, more
	}
	kept, _ := b.split(r)
	b.giveBack(r, kept)
	r.State, r.Parts = Released, nil
	r.note("released", r.Items, b.now)
	b.change(r)
	return Answer{Hold: r.Hold(b.now)}, nil
}

// extend moves the expiry, never backwards. It never revives.
func (b *Batch) extend(r *Record, ttl time.Duration) (Answer, []string) {
	h := r.Hold(b.now)
	if r.State == Lapsed {
		return Answer{Hold: h, Err: &HoldExpiredError{Hold: h, Short: r.Short}}, nil
	}
	if r.State != Held {
		return Answer{Hold: h, Err: &StateError{Wanted: Extend.String(), Hold: h}}, nil
	}
	if more := b.elsewhere(r); more != nil {
		return Answer{}, more
	}
	if _, gone := b.split(r); len(gone) > 0 || h.State == Expired {
		h.State, h.ExpiresIn = Expired, 0
		return Answer{Hold: h, Err: &HoldExpiredError{Hold: h}}, nil
	}
	if to := b.expiry(r.Parts, ttl); to > r.Expires {
		for _, p := range r.Parts {
			b.moves[Expiring{p.BucketID, r.Expires}] -= p.Quantity
			b.moves[Expiring{p.BucketID, to}] += p.Quantity
		}
		r.Expires = to
		r.note("extended", r.Items, b.now)
		b.change(r)
	}
	return Answer{Hold: r.Hold(b.now)}, nil
}

// find looks for units, without taking them: parts where all are there, short for the first SKU of which
// there is certainly not enough, more when only further buckets can tell.
func (b *Batch) find(id string, items Items) (parts []Part, short *SoldOut, more []string) {
	for _, sku := range items.SKUs() {
		found, all := b.findSKU(id, sku, items[sku])
		switch {
		case found != nil:
			parts = append(parts, found...)
		case all < 0:
			more = append(more, sku)
		case short == nil:
			short = &SoldOut{SKU: sku, Wanted: items[sku], Available: all}
		}
	}
	if short != nil {
		if b.buckets[BucketID{short.SKU, 0}] == nil {
			return nil, nil, append(more, short.SKU)
		}
		return nil, short, nil
	}
	if more != nil {
		return nil, nil, more
	}
	return parts, nil, nil
}

// findSKU finds units of one SKU: in its home, or else in any bucket if all are here. Without parts, all is
// what there is, or -1 when that is not known.
func (b *Batch) findSKU(id, sku string, quantity int64) (parts []Part, all int64) {
	home := b.home(id, sku)
	if k := b.buckets[BucketID{sku, home}]; k != nil && k.Available >= quantity {
		return []Part{{k.BucketID, quantity}}, 0
	}
	count := b.counts[sku]
	for i := range count {
		k := b.buckets[BucketID{sku, i}]
		if k == nil {
			return nil, -1
		}
		all += k.Available
	}
	if all < quantity {
		return nil, all
	}
	b.probed[sku] = true
	for i := range count {
		k := b.buckets[BucketID{sku, (home + i) % count}]
		if take := min(k.Available, quantity); take > 0 {
			parts = append(parts, Part{k.BucketID, take})
			quantity -= take
		}
	}
	return parts, 0
}

func (b *Batch) home(id, sku string) int { return Home(id, b.counts[sku]) }

// elsewhere returns the SKUs of a hold that has parts in buckets which are not here.
func (b *Batch) elsewhere(r *Record) (more []string) {
	for _, p := range r.Parts {
		if b.buckets[p.BucketID] == nil && !slices.Contains(more, p.SKU) {
			more = append(more, p.SKU)
		}
	}
	return more
}

// hold sets aside the units of a new hold.
func (b *Batch) hold(r *Record, parts []Part) {
	for _, p := range parts {
		k := b.touch(p.BucketID)
		k.Available -= p.Quantity
		k.Held += p.Quantity
		b.moves[Expiring{p.BucketID, r.Expires}] += p.Quantity
	}
}

// giveBack returns held units of a hold to what is available.
func (b *Batch) giveBack(r *Record, kept []Part) {
	for _, p := range kept {
		k := b.touch(p.BucketID)
		k.Available += p.Quantity
		k.Held -= p.Quantity
		b.moves[Expiring{p.BucketID, r.Expires}] -= p.Quantity
	}
}

// split tells apart what a hold still holds and what was freed.
func (b *Batch) split(r *Record) (kept, gone []Part) {
	for _, p := range r.Parts {
		if r.Expires <= b.buckets[p.BucketID].FreedTo {
			gone = append(gone, p)
		} else {
			kept = append(kept, p)
		}
	}
	return kept, gone
}

// expiry is the second in which a hold of these parts expires.
func (b *Batch) expiry(parts []Part, ttl time.Duration) int64 {
	var freedTo int64
	for _, p := range parts {
		freedTo = max(freedTo, b.buckets[p.BucketID].FreedTo)
	}
	return ExpirySecond(b.now, ttl, freedTo)
}

// ExpirySecond is the second in which a hold expires: after its time, rounded up, and after everything that
// was freed already, should the store's clock have gone backwards.
func ExpirySecond(now time.Time, ttl time.Duration, freedTo int64) int64 {
	return max(now.Add(ttl+time.Second-1).Unix(), freedTo+1)
}

func (b *Batch) touch(id BucketID) *Bucket {
	b.dirty[id] = true
	return b.buckets[id]
}

func (b *Batch) add(r *Record) {
	b.holds[r.ID] = r
	b.added = append(b.added, r)
}

// change remembers that a hold is to be written, once. One that is new is written anyway.
func (b *Batch) change(r *Record) {
	if !slices.Contains(b.changed, r) && !slices.Contains(b.added, r) {
		b.changed = append(b.changed, r)
	}
}
