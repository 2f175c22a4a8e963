package server

import (
	"context"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// sweepEndMax bounds how long the end of the process waits for a sweep that does not notice that it is over.
const sweepEndMax = 5 * time.Second

// startSweeping tidies the keys of all routes about every SweepEvery, on each host, until stop is called. stop
// cancels the statement that is under way, whose batch is then undone or done, and waits for it.
func (s *server) startSweeping() (stop func()) {
	retention, tombstone := s.cfg.Config.keeps()
	watch := observer(GatewayConfig{Metrics: s.metrics, Log: s.cfg.Log})
	keys := idempotency.New(s.backend.Keys, idempotency.Config{
		Retention: retention, Tombstone: tombstone,
		Observer: fifty.ObserverFunc(func(ctx context.Context, e fifty.Event) {
			if ctx.Err() == nil { // one that was told to end has not failed
				watch.Observe(ctx, e)
			}
		}),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = fifty.Sweep(ctx, s.cfg.SweepEvery, &counted{keys, s.metrics}) // it ends with ctx
	}()
	return sync.OnceFunc(func() {
		cancel()
		limit := time.NewTimer(sweepEndMax)
		defer limit.Stop()
		select {
		case <-ended:
		case <-limit.C:
			s.cfg.Log.Warn("a sweep did not end in time; it is left alone")
		}
	})
}

// counted counts what a sweeper removes. Its failures are events.
type counted struct {
	fifty.Sweeper
	metrics *Metrics
}

func (c *counted) Sweep(ctx context.Context) (removed int, err error) {
	removed, err = c.Sweeper.Sweep(ctx)
	c.metrics.swept.Add(float64(removed))
	return removed, err
}
