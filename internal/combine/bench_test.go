package combine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/internal/combine"
)

// BenchmarkDo is n callers that each wait for their outcome before they come again. The store takes a while
// per call, whatever is in it: so calls/op says how much of it is shared.
func BenchmarkDo(b *testing.B) {
	for _, took := range []time.Duration{0, time.Millisecond} {
		for _, callers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("took=%v/callers=%d", took, callers), func(b *testing.B) {
				benchDo(b, took, callers, combine.Config[int, int]{})
			})
		}
	}
	b.Run("took=1ms/callers=256/noyield", func(b *testing.B) {
		benchDo(b, time.Millisecond, 256, combine.Config[int, int]{Yields: -1})
	})
	b.Run("took=1ms/callers=256/groups=16", func(b *testing.B) {
		benchDo(b, time.Millisecond, 256, combine.Config[int, int]{Group: func(op int) string { return names[op%16] }})
	})
}

var names = func() (all [16]string) {
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return all
}()

func benchDo(b *testing.B, took time.Duration, callers int, cfg combine.Config[int, int]) {
	pause := func() {
		if took > 0 {
			<-time.After(took)
		}
	}
	cfg.One = func(_ context.Context, op int) (int, error) {
		pause()
		return op, nil
	}
	c := combine.New(func(_ context.Context, ops []int) ([]int, error) {
		pause()
		return ops, nil // the Combiner is done with it when it takes the next batch
	}, cfg)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			for left.Add(-1) >= 0 {
				if out, err := c.Do(ctx, caller); err != nil || out != caller {
					b.Errorf("%d, %v", out, err)
				}
			}
		})
	}
	all.Wait()
	s := c.Stats()
	b.ReportMetric(float64(s.Batches)/float64(b.N), "calls/op")
	b.ReportMetric(float64(s.Ops)/float64(s.Batches), "ops/call")
}
