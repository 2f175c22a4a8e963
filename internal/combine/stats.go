package combine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Stats are what a Combiner has counted since it was made, and where it is now.
//
// An Observer sees the same as it happens: "combine.batch" for each batch, a lone caller's included, with
// its lane, its size, its calls and its first error; "combine.panicked" for each panic of run, with its
// stack. Only a lone caller's batch is told with a request's context.
type Stats struct {
	Ops     uint64 // operations that were sent, each counted once
	Batches uint64 // that they went in
	Alone   uint64 // batches of one that ran on their caller's goroutine
	Largest int    // batch
	Splits  uint64 // calls beyond the first of a batch, to bisect it
	Failed  uint64 // calls that failed: nothing happened
	Unknown uint64 // calls whose outcome is unknown, panics included
	Panics  uint64
	Busy    uint64 // operations refused with ErrBusy
	NotSent uint64 // callers that left before their operation was sent
	Left    uint64 // callers that left after it was

	Waiting  int // operations that are queued now
	InFlight int // batches that are under way now, or boarding
	Groups   int // groups with one
}

// Stats returns a snapshot. It is safe for concurrent use.
func (c *Combiner[Op, Out]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Groups = len(c.groups)
	return s
}

// sent counts a batch that goes out.
func (s *Stats) sent(size int) {
	s.Batches++
	s.Ops += uint64(size)
	s.Largest = max(s.Largest, size)
}

// failed counts a call that failed.
func (c *Combiner[Op, Out]) failed(err error) {
	panicked, ok := errors.AsType[*PanicError](err)
	c.mu.Lock()
	if unknown(err) {
		c.stats.Unknown++
	} else {
		c.stats.Failed++
	}
	if ok {
		c.stats.Panics++
	}
	c.mu.Unlock()
	if ok && c.cfg.Observer != nil {
		c.cfg.Observer.Observe(context.Background(), fifty.Event{
			Name: "combine.panicked", Err: err,
			Attrs: []slog.Attr{slog.String("lane", c.cfg.Name), slog.String("stack", string(panicked.Stack))},
		})
	}
}

func (c *Combiner[Op, Out]) split(calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Splits += uint64(calls)
}

// began is when a batch went out, if anybody wants to know.
func (c *Combiner[Op, Out]) began() time.Time {
	if c.cfg.Observer == nil {
		return time.Time{}
	}
	return wall.Now()
}

func (c *Combiner[Op, Out]) tell(ctx context.Context, event string, began time.Time, err error, size, calls int) {
	if c.cfg.Observer == nil {
		return
	}
	c.cfg.Observer.Observe(ctx, fifty.Event{
		Name: event, Took: wall.Since(began), Err: err,
		Attrs: []slog.Attr{slog.String("lane", c.cfg.Name), slog.Int("size", size), slog.Int("calls", calls)},
	})
}
