package combine

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Combiner gathers the operations of concurrent callers into batches. It is one lane to one store. It is
// safe for concurrent use.
type Combiner[Op, Out any] struct {
	run func(ctx context.Context, ops []Op) ([]Out, error)
	cfg Config[Op, Out]

	mu     sync.Mutex
	groups map[string]*group[Op, Out] // those with a batch under way
	peak   int                        // the most that the table had since it was made
	spares []*group[Op, Out]
	crowd  int // how many were in the last batch, of whatever group
	stats  Stats

	members sync.Pool // of *member, settled and left by nobody

	hook func(ctx context.Context, point string) // for tests; nil otherwise
}

// New makes a Combiner of run, which does a batch: all of it or nothing, with one outcome per operation, in
// order. Its error says that nothing happened for any of them, unless it is a fifty.ErrUnknownOutcome. See
// the package's doc for what else run must do. New panics when run is nil or cfg is not valid: see
// Config.Validate.
func New[Op, Out any](run func(ctx context.Context, ops []Op) ([]Out, error), cfg Config[Op, Out]) *Combiner[Op, Out] {
	if run == nil {
		panic(&fifty.InvalidError{Field: "run", Problem: "is nil"})
	}
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	c := &Combiner[Op, Out]{run: run, cfg: cfg.withDefaults(), groups: map[string]*group[Op, Out]{}}
	c.members.New = func() any { return &member[Op, Out]{done: make(chan struct{}, 1)} }
	return c
}

// Do runs op, with others if there are any, and returns its outcome. ctx governs the whole of it: when it
// ends before op was sent, the error is a *NotSentError, and nothing happened; when it ends after, the error
// is a *LeftError, and the outcome is unknown: ask again with the same id. When too many are waiting the
// error is an ErrBusy, at once; nothing was sent. All other errors are those of run, a *TogetherError or a
// *PanicError.
func (c *Combiner[Op, Out]) Do(ctx context.Context, op Op) (Out, error) {
	return c.do(ctx, op, false)
}

// DoThrough is Do for a caller that wants to know: ctx governs only the wait until op is sent. From then on
// the caller waits for the outcome, which takes Config.Timeout at most if run heeds its context.
func (c *Combiner[Op, Out]) DoThrough(ctx context.Context, op Op) (Out, error) {
	return c.do(ctx, op, true)
}

func (c *Combiner[Op, Out]) do(ctx context.Context, op Op, through bool) (Out, error) {
	var none Out
	key, size := "", 0
	if c.cfg.Group != nil {
		key = c.cfg.Group(op)
	}
	if c.cfg.Size != nil {
		size = c.cfg.Size(op)
	}
	c.at(ctx, "arrive")
	if ctx.Err() != nil {
		return none, c.refuse(ctx)
	}
	c.mu.Lock()
	g := c.group(key)
	// A free slot means that nobody queues, or that a batch is about to board: whoever frees one takes the queue
	// with it.
	free := g.flights < c.cfg.InFlight
	if free {
		g.flights++
		c.stats.InFlight++
		if c.crowd <= 1 {
			c.stats.Alone++
			c.stats.sent(1)
			c.mu.Unlock()
			return c.alone(ctx, g, op, through)
		}
	}
	if waiting := g.queue.len; !free && waiting >= c.cfg.QueueMax {
		c.stats.Busy++
		c.mu.Unlock()
		return none, &BusyError{Waiting: waiting}
	}
	m := c.members.Get().(*member[Op, Out])
	m.ctx, m.op, m.size, m.through, m.group = ctx, op, size, through, g
	g.queue.push(m)
	c.stats.Waiting++
	others := c.crowd - 1
	c.mu.Unlock()
	if free {
		go c.fly(g, others) // the last batch was a crowd, so this one is probably the first of it that is back
	}
	return c.await(ctx, m)
}

// refuse is the answer for a context that had ended before there was anything to wait for.
func (c *Combiner[Op, Out]) refuse(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.NotSent++
	return notSent(ctx)
}

// alone runs op on the caller's goroutine, in a slot of g.
func (c *Combiner[Op, Out]) alone(ctx context.Context, g *group[Op, Out], op Op, through bool) (Out, error) {
	defer c.land(ctx, g) // also when op's function leaves the goroutine
	began := c.began()
	run, cancel := c.bounded(ctx, through)
	defer cancel()
	out, err := c.callOne(run, op)
	if err != nil {
		c.failed(err)
	}
	c.tell(ctx, "combine.batch", began, err, 1, 1)
	return out, err
}

// land gives the slot back, or lets it go on for those who came meanwhile.
func (c *Combiner[Op, Out]) land(ctx context.Context, g *group[Op, Out]) {
	c.at(ctx, "land")
	c.mu.Lock()
	if g.queue.len == 0 {
		c.release(g)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	go c.fly(g, 1)
}

// bounded is the context of a lone caller's run: its own, within Config.Timeout.
func (c *Combiner[Op, Out]) bounded(ctx context.Context, through bool) (context.Context, context.CancelFunc) {
	if through {
		ctx = context.WithoutCancel(ctx)
	} else if until, ok := ctx.Deadline(); ok && until.Sub(wall.Runtime()) <= c.cfg.Timeout {
		return ctx, nothing
	}
	return context.WithTimeoutCause(ctx, c.cfg.Timeout, ErrTimeout)
}

// nothing is no literal where it is used, since one in a generic method costs an allocation.
func nothing() {}

// await is the wait of a member for its batch and for its outcome.
func (c *Combiner[Op, Out]) await(ctx context.Context, m *member[Op, Out]) (Out, error) {
	select {
	case <-m.done:
		return c.outcome(m)
	case <-ctx.Done():
	}
	c.at(ctx, "leave")
	c.mu.Lock()
	if m.queued {
		m.group.queue.remove(m)
		c.stats.Waiting--
		c.stats.NotSent++
		c.mu.Unlock()
		m.err = notSent(ctx)
		return c.outcome(m)
	}
	c.mu.Unlock()
	if m.through {
		<-m.done
		return c.outcome(m)
	}
	select {
	case <-m.done: // both at once: the outcome is worth more
		return c.outcome(m)
	default:
	}
	c.mu.Lock()
	c.stats.Left++
	c.mu.Unlock()
	var none Out
	return none, left(ctx) // m is the batch's; nobody uses it again
}

// outcome takes what is in a member that nobody else knows any more, and keeps the empty member for another.
func (c *Combiner[Op, Out]) outcome(m *member[Op, Out]) (Out, error) {
	out, err := m.out, m.err
	*m = member[Op, Out]{done: m.done}
	c.members.Put(m)
	return out, err
}

// callOne runs one operation. A panic becomes a *PanicError, and with an error there is no outcome.
func (c *Combiner[Op, Out]) callOne(ctx context.Context, op Op) (out Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.panicked(v)
		}
	}()
	var none Out
	if c.cfg.One != nil {
		if out, err = c.cfg.One(ctx, op); err != nil {
			return none, err
		}
		return out, nil
	}
	outs, err := c.callMany(ctx, []Op{op})
	if err != nil {
		return none, err
	}
	return outs[0], nil
}

// callMany runs a batch, or a part of one. A panic becomes a *PanicError.
func (c *Combiner[Op, Out]) callMany(ctx context.Context, ops []Op) (outs []Out, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.panicked(v)
		}
	}()
	outs, err = c.run(ctx, ops)
	if err == nil && len(outs) != len(ops) {
		err = miscounted(len(outs), len(ops))
	}
	return outs, err
}

func (c *Combiner[Op, Out]) panicked(v any) error {
	return &PanicError{Value: v, Stack: debug.Stack()}
}

// at is a place where a test may stop a caller.
func (c *Combiner[Op, Out]) at(ctx context.Context, point string) {
	if c.hook != nil {
		c.hook(ctx, point)
	}
}
