package idempotency

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of one Sweep.
const (
	sweepBatch      = 500    // records a transaction, so that claims never wait long; see batchSweeper
	sweepBatchesMax = 10_000 // in one call

	restMin = time.Millisecond // a batch that took less than half of it is followed by the next at once
	restMax = time.Second
)

var _ fifty.Sweeper = (*Keys)(nil)

// batchSweeper is a Store that knows better how many records one call of Sweep should work on.
type batchSweeper interface{ SweepBatch() int }

func (k *Keys) sweepBatch() int {
	if s, ok := k.store.(batchSweeper); ok {
		return s.SweepBatch()
	}
	return sweepBatch
}

// Sweep tidies records whose time is over, in small batches that don't hold up claims: an answer older than
// Config.Retention is dropped and leaves a tombstone, a tombstone older than Config.Tombstone and a free key
// older than Config.Retention are removed. What is in flight or unresolved is never touched. Between batches it
// rests, twice as long as the last one took.
//
// It returns how many records it dropped or removed, also with an error; what it did stays done. It may run
// on any number of hosts at once, and is needed for space, not for correctness. See fifty.Sweep.
func (k *Keys) Sweep(ctx context.Context) (removed int, err error) {
	began, batch := wall.Now(), k.sweepBatch()
	for range sweepBatchesMax {
		sent := wall.Now()
		n, err := k.store.Sweep(ctx, k.cfg.Retention, k.cfg.Tombstone, batch)
		removed += n
		if err != nil {
			k.observe(ctx, "idempotency.sweep_failed", Request{}, began, err)
			return removed, err
		}
		if n < batch {
			break
		}
		if err := rest(ctx, 2*wall.Since(sent)); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// rest leaves the store to the claims for a while between two batches: a sweep takes a third of the time.
func rest(ctx context.Context, length time.Duration) error {
	if length < restMin {
		return nil
	}
	timer := time.NewTimer(min(length, restMax))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
