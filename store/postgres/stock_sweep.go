package postgres

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// Bounds of a sweep of the stock.
const (
	stockDueMax   = 256   // buckets of one transaction that frees what has expired
	stockDueTurns = 4_000 // such transactions of one sweep
	stockSweepMax = 1_000 // records of one transaction that removes
)

// Sweep frees what has expired and forgets what is old; see inventory.Store. It removes at most 1,000 records. A
// bucket that somebody else has locked, and a hold, is left for the next time.
func (s Stock[Tx]) Sweep(ctx context.Context, keep time.Duration, limit int) (int, error) {
	if err := s.freeDue(ctx); err != nil {
		return 0, lockTimeout(err)
	}
	removed := 0
	err := s.again("stock sweep", func() (err error) {
		removed, err = s.forget(ctx, keep, min(limit, stockSweepMax))
		return err
	})
	return removed, err
}

// freeDue frees what has expired, bucket after bucket in order.
func (s Stock[Tx]) freeDue(ctx context.Context) error {
	last := inventory.BucketID{Number: allBuckets}
	for range stockDueTurns {
		var b inventory.BucketID
		var number int64
		due := s.sql.dueBuckets.with(last.SKU, int32(last.Number), int64(stockDueMax)).into(&b.SKU, &number) //nolint:gosec // at most BucketsMax
		buckets, err := collect(ctx, s.store.run, due, func() (inventory.BucketID, error) {
			b.Number = int(number)
			return b, nil
		})
		if err != nil || len(buckets) == 0 {
			return err
		}
		if err := s.again("stock sweep", func() error { return s.free(ctx, buckets) }); err != nil {
			return err
		}
		last = buckets[len(buckets)-1]
		if len(buckets) < stockDueMax {
			break
		}
	}
	return nil
}

// free frees what has expired in some buckets, but for those that somebody has locked.
func (s Stock[Tx]) free(ctx context.Context, buckets []inventory.BucketID) error {
	wanted := make(map[inventory.BucketID]bool, len(buckets))
	for _, b := range buckets {
		wanted[b] = true
	}
	look := s.lookAt([]string{}, []string{}, wanted)
	look.lock.statement = s.sql.lockFree
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := s.store.engine.begin(ctx, opts, s.enter(), look.lock, look.levels)
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	seen := look.seen()
	writes, err := s.writes(inventory.NewBatch(seen.now, seen.buckets, nil).Changes(), seen.now)
	if err != nil {
		return err
	}
	return tx.commit(ctx, writes...)
}

// forget removes the oldest records, and keeps what they add up to. What they are counted under is locked first,
// as by everybody.
func (s Stock[Tx]) forget(ctx context.Context, keep time.Duration, limit int) (removed int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	var id, sku string
	ids, skus := []string{}, map[string]bool{}
	old := s.sql.sweepOld.with(keep.Microseconds(), int64(limit)).into(&id, &sku)
	if _, err := collect(ctx, s.store.run, old, func() (bool, error) {
		if old.rows == 1 { // a run that lost a race is repeated
			ids = []string{}
			clear(skus)
		}
		if id != "" {
			ids = append(ids, id)
		}
		if sku != "" {
			skus[sku] = true
		}
		return true, nil
	}); err != nil || len(ids)+len(skus) == 0 {
		return 0, err
	}
	wanted, names := map[inventory.BucketID]bool{}, []string{}
	for sku := range skus {
		wanted[inventory.BucketID{SKU: sku}] = true
		names = append(names, sku)
	}
	var holds, deliveries int64
	look := s.lookAt([]string{}, []string{}, wanted)
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := s.store.engine.begin(ctx, opts, s.enter(), look.lock)
	if err != nil {
		return 0, err
	}
	defer tx.rollback(ctx)
	// Linearization point: the COMMIT. A record is gone and in the sums at once.
	err = tx.commit(ctx,
		s.sql.sweepHolds.with(keep.Microseconds(), ids).into(&holds),
		s.sql.sweepDeliveries.with(keep.Microseconds(), int64(limit-len(ids)), names).into(&deliveries))
	if err != nil {
		return 0, err
	}
	return int(holds + deliveries), nil
}
