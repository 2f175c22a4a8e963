package postgres

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// reserveQuickly decides what it can of the open asks in one message. The rest stays open, and is decided by
// the Batch: it is the Batch's decision in all cases, made in SQL for the simple one.
func (s Stock[Tx]) reserveQuickly(ctx context.Context, d *deciding) error {
	if sku, short := s.allShort(d); short {
		return quickly(s.reserveNone(ctx, d, sku))
	}
	quick := s.plain(d)
	if len(quick) == 0 {
		return nil
	}
	var err error
	sku, one := oneSKU(d, quick)
	if one && len(quick) == 1 {
		return quickly(s.reserveOne(ctx, d, quick[0]))
	}
	done := false
	if !s.layout.expectsKnown() {
		if one {
			done, err = s.reserveMany(ctx, d, quick, sku)
		} else {
			done, err = s.reserveNew(ctx, d, quick)
		}
	}
	if !done && (err == nil || isLookAgain(err)) {
		err = s.reserveAll(ctx, d, quick)
	}
	return quickly(err)
}

// quickly is the error of a quick statement: none when it was rolled back, since then the Batch decides.
func quickly(err error) error {
	if err == nil || isLookAgain(err) {
		return nil
	}
	return lockTimeout(err)
}

// allShort says of asks about one SKU, whose ids differ, whether it is remembered as one that is not split and
// has not enough.
func (s Stock[Tx]) allShort(d *deciding) (sku string, short bool) {
	sku, one := oneSKU(d, d.open)
	if !one || s.layout.of(sku) != (hint{short: true}) || s.layout.expectsKnown() {
		return "", false
	}
	ids := make(map[string]bool, len(d.open))
	for _, i := range d.open {
		ids[d.asks[i].ID] = true
	}
	return sku, len(ids) == len(d.open)
}

// reserveNone refuses all open asks, which are about one SKU, if there is not enough for any of them. Otherwise
// they stay open.
func (s Stock[Tx]) reserveNone(ctx context.Context, d *deciding, sku string) error {
	sorted := slices.SortedFunc(slices.Values(d.open), func(i, j int) int { return cmp.Compare(d.asks[i].ID, d.asks[j].ID) })
	ids, quantities := make([]string, len(sorted)), make([]int64, len(sorted))
	least, bound := int64(math.MaxInt64), int64(math.MaxInt64)
	for at, i := range sorted {
		a := d.asks[i]
		ids[at], quantities[at] = a.ID, a.Items[sku]
		least, bound = min(least, quantities[at]), min(bound, a.RefusalsMax)
	}
	var now time.Time
	var available int64
	lock := s.sql.reserveLock.with([]string{sku}, s.lockTimeout())
	none := s.sql.reserveNone.with(ids, quantities, sku, least, bound).into(&now, &available)
	if err := s.store.engine.oneTrip(ctx, lock, none); err != nil || none.rows == 0 {
		return err
	}
	for at, i := range sorted {
		short := inventory.SoldOut{SKU: sku, Wanted: quantities[at], Available: available}
		r := inventory.Record{ID: ids[at], Items: d.asks[i].Items, State: inventory.Refused, Short: short}
		d.answers[i] = inventory.Answer{Hold: r.Hold(now), Err: &inventory.SoldOutError{SoldOut: short}}
	}
	d.answered(sorted)
	return nil
}

// plain are the asks that may be simple, in the order of their ids. They come before the others, so one that
// shares a SKU with an earlier one that is not simple, or an id with any earlier one, is not simple either.
func (s Stock[Tx]) plain(d *deciding) (quick []int) {
	seen, left := make(map[string]bool, len(d.open)), leftBehind{}
	for _, i := range d.open {
		a := d.asks[i]
		switch {
		case seen[a.ID] || left.has(a.ID, a.Items): // answered behind the first
		case s.layout.isPlain(a.Items):
			quick = append(quick, i)
		default:
			left.add(a.ID, a.Items)
		}
		seen[a.ID] = true
	}
	slices.SortStableFunc(quick, func(i, j int) int { return cmp.Compare(d.asks[i].ID, d.asks[j].ID) })
	return quick
}

// quickTTL is a time to live as the quick statements take it: microseconds, rounded up, which gives the same
// second as nanoseconds do, since the server's clock has whole microseconds.
func quickTTL(ttl time.Duration) int64 {
	return int64((ttl + time.Microsecond - 1) / time.Microsecond)
}

// answered takes the asks out of those that are open.
func (d *deciding) answered(done []int) {
	if len(done) == len(d.open) {
		d.open = nil
		return
	}
	is := make(map[int]bool, len(done))
	for _, i := range done {
		is[i] = true
	}
	d.open = slices.DeleteFunc(slices.Clone(d.open), func(i int) bool { return is[i] })
}

// knowing is the one of two statements that asks for known ids, if there may be some.
func (s Stock[Tx]) knowing(asks, fresh statement) statement {
	if s.layout.mayBeKnown() {
		return asks
	}
	return fresh
}

func (s Stock[Tx]) reserveOne(ctx context.Context, d *deciding, i int) error {
	a := d.asks[i]
	for sku, quantity := range a.Items {
		one := s.knowing(s.sql.reserveOne, s.sql.freshOne).with(a.ID, sku, quantity, quickTTL(a.TTL), s.lockTimeout())
		if err := s.store.run(ctx, one); err != nil || one.rows == 0 {
			return err
		}
	}
	d.held([]int{i})
	return nil
}

// held answers asks that were just decided, and takes them out of those that are open.
func (d *deciding) held(quick []int) {
	for _, i := range quick {
		d.answers[i] = heldFor(d.asks[i])
	}
	d.answered(quick)
}

// heldFor is the answer to an order that was just decided: it expires within the second after its time.
func heldFor(a inventory.Ask) inventory.Answer {
	return inventory.Answer{Hold: inventory.Hold{ID: a.ID, Items: a.Items, State: inventory.Held, ExpiresIn: a.TTL}}
}

// oneSKU is the SKU that all these asks are about, and nothing else.
func oneSKU(d *deciding, quick []int) (sku string, one bool) {
	for at, i := range quick {
		if len(d.asks[i].Items) != 1 {
			return "", false
		}
		for name := range d.asks[i].Items {
			if at > 0 && name != sku {
				return "", false
			}
			sku = name
		}
	}
	return sku, true
}

// reserveMany decides asks about one SKU, of different ids, which are in order. When it is not done, nothing was
// written: there is not enough, or an id is known.
func (s Stock[Tx]) reserveMany(ctx context.Context, d *deciding, quick []int, sku string) (done bool, err error) {
	n := len(quick)
	ids, quantities, ttls := make([]string, n), make([]int64, n), make([]int64, n)
	var ends, units []int64 // the times to live that differ
	var sum int64
	for at, i := range quick {
		a := d.asks[i]
		ids[at], quantities[at], ttls[at] = a.ID, a.Items[sku], quickTTL(a.TTL)
		sum += quantities[at]
		end := slices.Index(ends, ttls[at])
		if end < 0 {
			end = len(ends)
			ends, units = append(ends, ttls[at]), append(units, 0)
		}
		units[end] += quantities[at]
	}
	many := s.knowing(s.sql.reserveMany, s.sql.freshMany).with(ids, quantities, ttls, sku, sum, ends, units, s.lockTimeout())
	if err := s.store.run(ctx, many); err != nil || many.rows == 0 {
		return false, err
	}
	d.held(quick)
	return true, nil
}

// reserveAll decides asks of different ids, which are in order.
func (s Stock[Tx]) reserveAll(ctx context.Context, d *deciding, quick []int) error {
	lock, all := s.quickCalls(d, quick)
	var now time.Time
	var fits bool
	var row holdRow
	known := map[string]inventory.Record{}
	all.into(append([]any{&now, &fits}, row.columns()...)...)
	all.each = func() error {
		if row.id == "" {
			return nil
		}
		r, err := row.record()
		known[r.ID] = r
		return err
	}
	// Linearization point: the end of the message, which is its commit.
	if err := s.store.engine.oneTrip(ctx, lock, all); err != nil {
		return err
	}
	if !fits {
		for _, i := range quick {
			s.layout.isShort(d.asks[i].Items.SKUs()...)
		}
		return nil
	}
	b := inventory.NewBatch(now, nil, nil)
	if len(known) > 0 {
		s.layout.knownSeen()
		records := make([]inventory.Record, 0, len(known))
		for _, r := range known {
			records = append(records, r)
		}
		b = inventory.NewBatch(now, nil, records)
	}
	for _, i := range quick {
		a := d.asks[i]
		if _, ok := known[a.ID]; ok {
			d.answers[i], _ = b.Decide(a) // an id that is known needs no stock
			continue
		}
		r := inventory.Record{ID: a.ID, Items: a.Items, State: inventory.Held, Expires: inventory.ExpirySecond(now, a.TTL, 0)}
		d.answers[i] = inventory.Answer{Hold: r.Hold(now)}
	}
	d.answered(quick)
	return nil
}

// quickCalls are the statements of reserveAll.
func (s Stock[Tx]) quickCalls(d *deciding, quick []int) (lock, all *call) {
	o := ordersOf(d, quick)
	args := []any{o.ids, o.skus, o.quantities, o.items, o.ttls}
	var numbers, lineQuantities []int64
	var lineSKUs []string
	locks := map[string]bool{}
	several := slices.ContainsFunc(quick, func(i int) bool { return len(d.asks[i].Items) > 1 })
	for at, i := range quick {
		for sku, q := range d.asks[i].Items {
			locks[sku] = true
			if several {
				numbers, lineSKUs, lineQuantities = append(numbers, int64(at+1)), append(lineSKUs, sku), append(lineQuantities, q)
			}
		}
	}
	lock = s.sql.reserveLock.with(slices.Collect(maps.Keys(locks)), s.lockTimeout())
	if several {
		return lock, s.sql.reserveSeveral.with(append(args, numbers, lineSKUs, lineQuantities)...)
	}
	return lock, s.sql.reserveAll.with(args...)
}
