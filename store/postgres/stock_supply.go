package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// Supply books a delivery; see inventory.Store.
func (s Stock[Tx]) Supply(ctx context.Context, d inventory.Delivery) error {
	return s.again("supply", func() error { return s.supply(ctx, d) })
}

// again does something anew for as long as neighbours are quicker.
func (s Stock[Tx]) again(point string, do func() error) (err error) {
	for range raceTries {
		if err = do(); err == nil || !isLookAgain(err) {
			return lockTimeout(err)
		}
	}
	if err == errLookAgain { //nolint:errorlint // as it is returned here
		return changing(point)
	}
	return err
}

func (s Stock[Tx]) supply(ctx context.Context, d inventory.Delivery) error {
	items, err := marshal(d.Items)
	if err != nil {
		return err
	}
	look := s.lookAt([]string{}, []string{}, wholeSKUs(d.Items.SKUs()...))
	var away bool
	var first string
	find := s.sql.delivery.with(d.ID).into(&away, &first)
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := s.store.engine.begin(ctx, opts, s.enter(), look.lock, look.levels, find)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	if find.rows > 0 {
		return sameDelivery(d, away, first)
	}
	seen := look.seen()
	if !isWhole(seen.buckets) {
		return errLookAgain
	}
	b := inventory.NewBatch(seen.now, seen.buckets, nil)
	if err := b.Supply(d); err != nil {
		return err
	}
	changes := b.Changes()
	writes, err := s.writes(changes, seen.now)
	if err != nil {
		return err
	}
	// Linearization point: the COMMIT. Delivery and levels appear at once.
	if err := tx.commit(ctx, append(writes, s.sql.insertDelivery.with(d.ID, items, d.Away))...); err != nil {
		return err
	}
	s.layout.shorter(nil, changes.Buckets)
	return nil
}

// sameDelivery compares a delivery with the one that had its id first.
func sameDelivery(d inventory.Delivery, away bool, items string) error {
	var first inventory.Items
	if err := json.Unmarshal([]byte(items), &first); err != nil {
		return fmt.Errorf("postgres: delivery %q can't be read: %w", d.ID, err)
	}
	if away != d.Away || !maps.Equal(first, d.Items) {
		return &inventory.MismatchError{ID: d.ID, First: first}
	}
	return nil
}

func wholeSKUs(skus ...string) map[inventory.BucketID]bool {
	wanted := map[inventory.BucketID]bool{}
	for _, sku := range skus {
		wanted[inventory.BucketID{SKU: sku, Number: allBuckets}] = true
	}
	return wanted
}

// isWhole says whether all buckets of each SKU are here. While the locks were waited for, a Split may have made
// more of them.
func isWhole(buckets []inventory.Bucket) bool {
	count := map[string]int{}
	for _, b := range buckets {
		count[b.SKU]++
	}
	for _, b := range buckets {
		if count[b.SKU] != b.Count {
			return false
		}
	}
	return true
}

// Split changes into how many buckets a SKU is split; see inventory.SplitStore. Into fewer, it reads all holds.
func (s Stock[Tx]) Split(ctx context.Context, sku string, count int) error {
	if count < 1 || count > inventory.BucketsMax {
		return &fifty.InvalidError{Field: "count", Problem: fmt.Sprintf("is %d; there may be 1 to %d", count, inventory.BucketsMax)}
	}
	return s.again("split", func() error { return s.split(ctx, sku, count) })
}

func (s Stock[Tx]) split(ctx context.Context, sku string, count int) error {
	look := s.lookAt([]string{}, []string{}, wholeSKUs(sku))
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := s.store.engine.begin(ctx, opts, s.enter(), look.lock, look.levels)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	seen := look.seen()
	switch {
	case len(seen.buckets) == 0:
		return &inventory.UnknownSKUError{SKU: sku}
	case !isWhole(seen.buckets):
		return errLookAgain
	}
	// Should the clock have gone backwards, what was freed by then is looked at as of then.
	latest := seen.now.Unix()
	for _, b := range seen.buckets {
		latest = max(latest, b.FreedTo)
	}
	if latest > seen.now.Unix() {
		if err := tx.run(ctx, look.levelsAt(latest)); err != nil {
			return err
		}
		seen = look.seen()
	}
	freed := inventory.NewBatch(time.Unix(latest, 0), seen.buckets, nil).Changes()
	before := seen.buckets
	for i := range before {
		for _, b := range freed.Buckets {
			if b.BucketID == before[i].BucketID {
				before[i] = b
			}
		}
		before[i].FreedTo = latest
	}
	freed.Buckets = nil
	writes, err := s.writes(freed, seen.now)
	if err != nil {
		return err
	}
	// Linearization point: the COMMIT. The buckets, what expires in them and the parts of their holds change at
	// once, behind the locks of all.
	if err := tx.commit(ctx, append(writes, s.splitting(sku, before, count)...)...); err != nil {
		return err
	}
	s.layout.splitTo(sku, count)
	return nil
}

// splitting are the statements that turn the buckets of a SKU into count.
func (s Stock[Tx]) splitting(sku string, before []inventory.Bucket, count int) (calls []*call) {
	after := inventory.Split(before, count)
	kept := min(count, len(before))
	if len(before) > count {
		calls = append(calls, s.sql.splitBuckets.with(sku, int32(count)), s.sql.splitExpiring.with(sku, int32(count)), s.sql.splitHolds.with(sku, int32(count))) //nolint:gosec // at most BucketsMax
	}
	calls = append(calls, counted(s.sql.updateBuckets.with(bucketArgs(after[:kept])...)))
	if len(after) > kept {
		calls = append(calls, s.sql.insertBuckets.with(bucketArgs(after[kept:])...))
	}
	return calls
}
