package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// slowSweeps is a store with a number of full batches to sweep, each of which takes its time.
type slowSweeps struct {
	*faulty
	full int
	took time.Duration
}

const batchOfSlowSweeps = 7

func (s *slowSweeps) SweepBatch() int { return batchOfSlowSweeps }

func (s *slowSweeps) Sweep(context.Context, time.Duration, time.Duration, int) (int, error) {
	<-time.After(s.took)
	if s.full--; s.full < 0 {
		return 0, nil
	}
	return batchOfSlowSweeps, nil
}

func TestSweepLeavesTheStoreToClaimsForTwoThirdsOfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(&slowSweeps{newFaulty(), 3, 100 * time.Millisecond}, idempotency.Config{})
		began := time.Now()
		n, err := keys.Sweep(t.Context())
		if took := time.Since(began); n != 3*batchOfSlowSweeps || err != nil || took != time.Second {
			t.Errorf("swept %d, %v in %v", n, err, took)
		}
	})
}

func TestSweepThatRestsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(&slowSweeps{newFaulty(), 3, 100 * time.Millisecond}, idempotency.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
		defer cancel()
		began := time.Now()
		n, err := keys.Sweep(ctx)
		if took := time.Since(began); n != batchOfSlowSweeps || !errors.Is(err, context.DeadlineExceeded) || took != 120*time.Millisecond {
			t.Errorf("swept %d, %v in %v", n, err, took)
		}
	})
}
