package inventory

import (
	"fmt"

	"github.com/fiftyhosts/fifty"
)

// Supply adds a delivery to the stock, or takes it away. All buckets of the SKUs that are known must be here;
// a SKU that is not is new, and is made with its buckets: Changes.Created, whose insert has the last word
// when two deliveries make one SKU. It returns a *SoldOutError, an *UnknownSKUError or a *fifty.InvalidError,
// and then has changed nothing. Whether the delivery's ID is known is for the store to look up first.
func (b *Batch) Supply(d Delivery) error {
	for _, sku := range d.Items.SKUs() {
		supply, available := b.total(sku)
		switch {
		case d.Away && b.counts[sku] == 0:
			return &UnknownSKUError{SKU: sku}
		case d.Away && available < d.Items[sku]:
			return &SoldOutError{SoldOut: SoldOut{SKU: sku, Wanted: d.Items[sku], Available: available}}
		case !d.Away && supply > SupplyMax-d.Items[sku]:
			return &fifty.InvalidError{
				Field:   fmt.Sprintf("items[%q]", sku),
				Problem: fmt.Sprintf("would make a supply above %d", int64(SupplyMax)),
			}
		}
	}
	for sku, q := range d.Items {
		if d.Away {
			q = -q
		}
		if b.counts[sku] == 0 {
			b.make(sku, max(d.Buckets, 1))
		}
		// Into bucket 0 and then evenly over all. What is taken away may be more than bucket 0 has.
		first := b.buckets[BucketID{sku, 0}]
		first.Supply += q
		first.Available += q
		b.even(sku)
	}
	return nil
}

func (b *Batch) make(sku string, count int) {
	b.counts[sku] = count
	for i := range count {
		id := BucketID{sku, i}
		b.buckets[id] = &Bucket{BucketID: id, Count: count}
		b.created[id] = true
	}
}

func (b *Batch) total(sku string) (supply, available int64) {
	for i := range b.counts[sku] {
		k := b.buckets[BucketID{sku, i}]
		supply += k.Supply
		available += k.Available
	}
	return supply, available
}

// even spreads what is available of a SKU over its buckets, all of which are here. What is too little for a
// unit each is spread over the first.
func (b *Batch) even(sku string) {
	count := int64(b.counts[sku])
	_, available := b.total(sku)
	for i := range count {
		share := available / count
		if i < available%count {
			share++
		}
		k := b.touch(BucketID{sku, int(i)})
		k.Supply += share - k.Available
		k.Available = share
	}
}

// Split changes into how many buckets a SKU is split. All its buckets must be here, with every hold that has
// expired by the latest FreedTo of them freed: now must not be before it. What is held in a bucket that goes
// away moves to the bucket Moved names, and the store moves the parts of its holds, and what expires, likewise.
// It returns the buckets as they are then.
func Split(buckets []Bucket, count int) []Bucket {
	after := make([]Bucket, count)
	var available, freedTo, refusals int64
	for _, k := range buckets {
		available += k.Available
		freedTo = max(freedTo, k.FreedTo)
		refusals += k.Refusals
		to := &after[Moved(k.Number, count)]
		to.Held += k.Held
		to.Sold += k.Sold
	}
	for i := range after {
		k := &after[i]
		k.BucketID, k.Count, k.FreedTo = BucketID{buckets[0].SKU, i}, count, freedTo
		k.Available = available / int64(count)
		if int64(i) < available%int64(count) {
			k.Available++
		}
		k.Supply = k.Available + k.Held + k.Sold
	}
	after[0].Refusals = refusals
	return after
}

// Moved is the bucket that has what was in bucket number, once there are count.
func Moved(number, count int) int { return number % count }
