package idempotency

import (
	"context"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of one Sweep.
const (
	sweepBatch      = 500    // records a transaction, so that claims never wait long; see batchSweeper
	sweepBatchesMax = 10_000 // in one call
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
// older than Config.Retention are removed. What is in flight or unresolved is never touched.
//
// It returns how many records it dropped or removed, also with an error; what it did stays done. It may run
// on any number of hosts at once, and is needed for space, not for correctness. See fifty.Sweep.
func (k *Keys) Sweep(ctx context.Context) (removed int, err error) {
	began, batch := wall.Now(), k.sweepBatch()
	for range sweepBatchesMax {
		n, err := k.store.Sweep(ctx, k.cfg.Retention, k.cfg.Tombstone, batch)
		removed += n
		if err != nil {
			k.observe(ctx, "idempotency.sweep_failed", Request{}, began, err)
			return removed, err
		}
		if n < batch {
			break
		}
	}
	return removed, nil
}
