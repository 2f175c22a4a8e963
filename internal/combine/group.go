package combine

import "context"

// Bounds on what is kept for groups that come back.
const (
	sparesMax = 16   // empty groups
	tableMax  = 1024 // groups that the table has room for, once it is empty
)

// group is what is combined: its queue, and how many of its batches are under way. It exists only while one
// is. The Combiner's mutex guards it.
type group[Op, Out any] struct {
	key     string
	flights int
	queue   queue[Op, Out]
}

// member is one operation that waits for its batch, or is in it.
type member[Op, Out any] struct {
	ctx     context.Context
	op      Op
	size    int
	through bool

	group      *group[Op, Out]
	queued     bool // guarded by the Combiner's mutex, as are these:
	prev, next *member[Op, Out]

	out  Out // these two are written before done is sent to, and read after it was received from
	err  error
	done chan struct{} // has room for one
}

func (m *member[Op, Out]) settle(out Out, err error) {
	m.out, m.err = out, err
	m.done <- struct{}{}
}

// queue is the members of a group that wait, oldest first. It is a list, so that one that leaves costs
// nothing.
type queue[Op, Out any] struct {
	head, tail *member[Op, Out]
	len        int
}

func (q *queue[Op, Out]) push(m *member[Op, Out]) {
	m.queued, m.prev, m.next = true, q.tail, nil
	if q.tail == nil {
		q.head = m
	} else {
		q.tail.next = m
	}
	q.tail = m
	q.len++
}

func (q *queue[Op, Out]) remove(m *member[Op, Out]) {
	if m.prev == nil {
		q.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		q.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.queued, m.prev, m.next = false, nil, nil
	q.len--
}

// group returns the group of a key, made if need be. The Combiner is locked.
func (c *Combiner[Op, Out]) group(key string) *group[Op, Out] {
	if g := c.groups[key]; g != nil {
		return g
	}
	var g *group[Op, Out]
	if n := len(c.spares); n > 0 {
		g, c.spares[n-1] = c.spares[n-1], nil
		c.spares = c.spares[:n-1]
	} else {
		g = &group[Op, Out]{}
	}
	g.key = key
	c.groups[key] = g
	c.peak = max(c.peak, len(c.groups))
	return g
}

// release gives back a slot of a group whose queue is empty, and drops the group with its last. A table
// that was once large is dropped when it is empty, since a map never shrinks. The Combiner is locked.
func (c *Combiner[Op, Out]) release(g *group[Op, Out]) {
	g.flights--
	c.stats.InFlight--
	if g.flights > 0 {
		return
	}
	delete(c.groups, g.key)
	g.key = ""
	if len(c.spares) < sparesMax {
		c.spares = append(c.spares, g)
	}
	if len(c.groups) == 0 && c.peak > tableMax {
		c.groups, c.peak = map[string]*group[Op, Out]{}, 0
	}
}
