package postgres

import (
	"cmp"
	"context"
	"slices"
)

// reserveNew decides asks of different ids, which are in order. When it is not done, nothing was written: there is
// not enough of anything, or an id is known. When there is enough of some SKUs only, nothing was written either, and
// the Batch decides which orders fit.
func (s Stock[Tx]) reserveNew(ctx context.Context, d *deciding, quick []int) (done bool, err error) {
	o, dues := ordersOf(d, quick), duesOf(d, quick)
	n := len(dues)
	skus, dueSKUs := make([]string, 0, n), make([]string, 0, n)
	sums, dueTTLs, dueUnits := make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	for _, due := range dues {
		dueSKUs, dueTTLs, dueUnits = append(dueSKUs, due.sku), append(dueTTLs, due.ttl), append(dueUnits, due.units)
		if last := len(skus) - 1; last >= 0 && skus[last] == due.sku {
			sums[last] += due.units
		} else {
			skus, sums = append(skus, due.sku), append(sums, due.units)
		}
	}
	enter := s.sql.reserveEnter.with(s.lockTimeout()).into(new(int64))
	all := s.knowing(s.sql.reserveNew, s.sql.freshNew).with(o.ids, o.skus, o.quantities, o.items, o.ttls, skus, sums, dueSKUs, dueTTLs, dueUnits)
	// Linearization point: the end of the message, which is its commit.
	if err := s.store.engine.oneTrip(ctx, enter, all); err != nil || all.rows == 0 {
		if isState(err, notWhole) {
			return true, nil
		}
		return false, err
	}
	d.held(quick)
	return true, nil
}

// due are units of one SKU that are held for as long.
type due struct {
	sku        string
	ttl, units int64
}

// duesOf are the units that asks want, in the order of their SKUs.
func duesOf(d *deciding, quick []int) []due {
	all := make([]due, 0, len(quick))
	for _, i := range quick {
		a := d.asks[i]
		for sku, q := range a.Items {
			all = append(all, due{sku, quickTTL(a.TTL), q})
		}
	}
	slices.SortFunc(all, func(a, b due) int { return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.ttl, b.ttl)) })
	sums := all[:0]
	for _, next := range all {
		if last := len(sums) - 1; last >= 0 && sums[last].sku == next.sku && sums[last].ttl == next.ttl {
			sums[last].units += next.units
		} else {
			sums = append(sums, next)
		}
	}
	return sums
}

// orders are the columns of some asks. The SKU and the quantity are those of an order of one SKU; one of several has
// items.
type orders struct {
	ids, skus, items []string
	quantities, ttls []int64
}

func ordersOf(d *deciding, quick []int) orders {
	n := len(quick)
	o := orders{make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)}
	for at, i := range quick {
		a := d.asks[i]
		o.ids[at], o.ttls[at] = a.ID, quickTTL(a.TTL)
		if len(a.Items) > 1 {
			o.items[at], _ = marshal(a.Items)
			continue
		}
		for sku, q := range a.Items {
			o.skus[at], o.quantities[at] = sku, q
		}
	}
	return o
}
