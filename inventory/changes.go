package inventory

import (
	"cmp"
	"fmt"
	"slices"
)

// Changes are what a store must write, all of it or nothing.
type Changes struct {
	Added   []*Record  // new holds: to be inserted, so that the id's unique index has the last word
	Changed []*Record  // holds with another state, expiry, log or parts
	Created []Bucket   // new ones, in order: to be inserted
	Buckets []Bucket   // with their new levels, in order
	Freed   []Expiring // whatever of that bucket expires in this second or before is to be removed
	Moves   []Move     // units to add to what expires in a second, after the removal; in order
}

// Move is a change of the units that expire in one second.
type Move struct {
	Expiring
	Quantity int64 // below zero: fewer
}

// Changes returns what the decisions have changed. It panics when the law is broken: that is a fault in this
// package, and nothing may be written.
func (b *Batch) Changes() Changes {
	c := Changes{Added: b.added, Changed: b.changed}
	for sku := range b.probed {
		b.even(sku)
	}
	for id := range b.dirty {
		k := *b.buckets[id]
		if err := k.Law(); err != nil {
			panic(err)
		}
		if b.created[id] {
			c.Created = append(c.Created, k)
		} else {
			c.Buckets = append(c.Buckets, k)
		}
		if b.freed[id] {
			c.Freed = append(c.Freed, Expiring{id, k.FreedTo})
		}
	}
	for at, q := range b.moves {
		if q != 0 {
			c.Moves = append(c.Moves, Move{at, q})
		}
	}
	slices.SortFunc(c.Created, func(x, y Bucket) int { return x.compare(y.BucketID) })
	slices.SortFunc(c.Buckets, func(x, y Bucket) int { return x.compare(y.BucketID) })
	slices.SortFunc(c.Freed, func(x, y Expiring) int { return x.compare(y.BucketID) })
	slices.SortFunc(c.Moves, func(x, y Move) int {
		return cmp.Or(x.compare(y.BucketID), cmp.Compare(x.Second, y.Second))
	})
	return c
}

func (id BucketID) compare(other BucketID) int {
	return cmp.Or(cmp.Compare(id.SKU, other.SKU), cmp.Compare(id.Number, other.Number))
}

// Law returns an error unless available, held and sold add up to the supply and none is negative.
func (k Bucket) Law() error {
	if min(k.Supply, k.Available, k.Held, k.Sold) < 0 || k.Available+k.Held+k.Sold != k.Supply {
		return fmt.Errorf("inventory: bucket %d of %q does not add up: %d available, %d held, %d sold of %d",
			k.Number, k.SKU, k.Available, k.Held, k.Sold, k.Supply)
	}
	return nil
}
