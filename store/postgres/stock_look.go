package postgres

import (
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// allBuckets stands for all buckets of a SKU.
const allBuckets = -1

// stockLook is what a transaction locks, and what it reads behind the locks.
type stockLook struct {
	counts              map[string]int // by SKU: the number of buckets by which its home was chosen
	lock, levels, holds *call

	locked map[inventory.BucketID]bool
	got    stockSeen
}

// stockSeen is what was read.
type stockSeen struct {
	now     time.Time
	buckets []inventory.Bucket // those that are locked
	holds   []inventory.Record
}

// look asks for all that the open asks need, as far as it is known before.
func (s Stock[Tx]) look(d *deciding) *stockLook {
	ids, settled := []string{}, []string{}
	wanted, counts := map[inventory.BucketID]bool{}, map[string]int{}
	for _, i := range d.open {
		a := d.asks[i]
		ids = append(ids, a.ID)
		if a.Act != inventory.Reserve {
			settled = append(settled, a.ID)
			continue
		}
		for sku := range a.Items {
			if counts[sku] == 0 {
				counts[sku] = s.layout.count(sku)
			}
			wanted[inventory.BucketID{SKU: sku, Number: inventory.Home(a.ID, counts[sku])}] = true
		}
	}
	for _, sku := range d.whole {
		wanted[inventory.BucketID{SKU: sku, Number: allBuckets}] = true
		delete(counts, sku)
	}
	l := s.lookAt(ids, settled, wanted)
	l.counts = counts
	return l
}

// lookAt locks buckets, and those with parts of the settled holds, and then reads them and the holds of ids.
func (s Stock[Tx]) lookAt(ids, settled []string, wanted map[inventory.BucketID]bool) *stockLook {
	l := &stockLook{locked: map[inventory.BucketID]bool{}}
	skus, numbers := []string{}, []int32{}
	for id := range wanted {
		skus = append(skus, id.SKU)
		numbers = append(numbers, int32(id.Number)) //nolint:gosec // at most BucketsMax
	}

	var sku string
	var number int64
	l.lock = s.sql.lock.with(settled, skus, numbers).into(&sku, &number)
	l.lock.each = func() error {
		l.locked[inventory.BucketID{SKU: sku, Number: int(number)}] = true
		return nil
	}

	var b inventory.Bucket
	var bucket, count int64
	l.levels = s.sql.levels.with(settled, skus, numbers, int64(0)).into(&l.got.now, &b.SKU, &bucket, &count,
		&b.Supply, &b.Available, &b.Held, &b.Sold, &b.FreedTo, &b.Refusals, &b.Due)
	l.levels.each = func() error {
		b.Number, b.Count = int(bucket), int(count)
		if l.levels.rows == 1 {
			l.got.buckets = nil
		}
		// A bucket that was made since the locks were taken is not ours. One may be wanted in two ways.
		if l.locked[b.BucketID] && !slices.ContainsFunc(l.got.buckets, func(k inventory.Bucket) bool { return k.BucketID == b.BucketID }) {
			l.got.buckets = append(l.got.buckets, b)
		}
		return nil
	}

	var row holdRow
	l.holds = s.sql.holds.with(ids).into(row.columns()...)
	l.holds.each = func() error {
		r, err := row.record()
		l.got.holds = append(l.got.holds, r)
		return err
	}
	return l
}

func (l *stockLook) calls() []*call { return []*call{l.lock, l.levels, l.holds} }

func (l *stockLook) seen() stockSeen { return l.got }

// levelsAt reads the levels again, as of a second that is later than the clock says.
func (l *stockLook) levelsAt(second int64) *call {
	l.levels.args[len(l.levels.args)-1] = second
	return l.levels
}
