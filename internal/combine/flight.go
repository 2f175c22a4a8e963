package combine

import (
	"context"
	"runtime"
	"slices"
)

// flight is the goroutine that runs a group's batches, one after the other, while somebody queues.
type flight[Op, Out any] struct {
	c      *Combiner[Op, Out]
	group  *group[Op, Out]
	landed bool // its slot is given back

	// The batch. What is before open is settled.
	members []*member[Op, Out]
	ops     []Op
	open    int
	parts   []part // those that are still to be sent, the next one last
	flying  part   // the one that run has now
}

// fly runs batches in a slot of g until nobody queues. ashore is how many callers got their outcomes just
// before.
func (c *Combiner[Op, Out]) fly(g *group[Op, Out], ashore int) {
	f := &flight[Op, Out]{c: c, group: g}
	defer f.gone()
	for f.board(ashore) {
		ashore = len(f.members)
		f.settle()
	}
}

// board takes the next batch from the queue. When nobody is there it gives the slot back and returns false.
func (f *flight[Op, Out]) board(ashore int) bool {
	f.rejoin(ashore)
	c, q := f.c, &f.group.queue
	f.members, f.open = f.members[:0], 0
	c.at(f.eldest(), "board")
	c.mu.Lock()
	defer c.mu.Unlock()
	size := 0
	for m := q.head; m != nil && len(f.members) < c.cfg.BatchMax; m = q.head {
		if m.ctx.Err() != nil { // its caller is about to leave: what nobody waits for is not sent
			c.unqueue(m)
			c.stats.NotSent++
			var none Out
			m.settle(none, notSent(m.ctx))
			continue
		}
		if size += m.size; c.cfg.Size != nil && size > c.cfg.SizeMax && len(f.members) > 0 {
			break
		}
		// Once it is off the queue it counts as sent: a caller that leaves from here on hears *unknown*.
		c.unqueue(m)
		f.members = append(f.members, m)
	}
	if len(f.members) == 0 {
		c.release(f.group)
		f.landed = true
		return false
	}
	c.stats.sent(len(f.members))
	c.crowd = len(f.members)
	return true
}

// unqueue takes a member off its queue. The Combiner is locked.
func (c *Combiner[Op, Out]) unqueue(m *member[Op, Out]) {
	m.group.queue.remove(m)
	c.stats.Waiting--
}

// rejoin yields the processor, until those who queue are as many as were left and set ashore. After a single
// caller, with nobody waiting, it does not: that one is alone, and quickest so.
func (f *flight[Op, Out]) rejoin(ashore int) {
	expected := -1
	for range f.c.cfg.Yields {
		waiting := f.waiting()
		if expected < 0 {
			expected = min(waiting+ashore, f.c.cfg.BatchMax)
		}
		if waiting >= expected || (waiting == 0 && ashore <= 1) {
			return
		}
		f.c.at(f.eldest(), "yield")
		runtime.Gosched()
	}
}

func (f *flight[Op, Out]) waiting() int {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	return f.group.queue.len
}

// eldest is the context of whoever waits longest, for the tests' points.
func (f *flight[Op, Out]) eldest() context.Context {
	if f.c.hook != nil {
		f.c.mu.Lock()
		defer f.c.mu.Unlock()
		if m := f.group.queue.head; m != nil {
			return m.ctx
		}
	}
	return context.Background()
}

// sort puts the batch in the order of Config.Compare. A panic of it becomes a *PanicError.
func (f *flight[Op, Out]) sort() (err error) {
	compare := f.c.cfg.Compare
	if compare == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = f.c.panicked(v)
		}
	}()
	slices.SortStableFunc(f.members, func(a, b *member[Op, Out]) int { return compare(a.op, b.op) })
	return nil
}

// gone ends the flight. When run has left the goroutine, those who were in its hands get *unknown*, the
// rest of the batch what is known of them, and the queue another flight.
func (f *flight[Op, Out]) gone() {
	if f.landed {
		return
	}
	f.c.failed(errGone)
	f.fail(f.flying, errGone)
	for len(f.parts) > 0 {
		p := f.next()
		f.fail(p, p.err)
	}
	go f.c.fly(f.group, 0)
}
