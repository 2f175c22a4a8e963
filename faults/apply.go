package faults

import (
	"bufio"
	"errors"
	"os"
	"time"
)

// apply does to message f what the strike says. It says whether the connection goes on.
func (c *conn) apply(s *Strike, f Frame, r *bufio.Reader) bool {
	settled := s.Fault == Delayed || c.settle()
	c.p.publish(c, s)
	if !settled {
		c.cut(s)
		s.end(c.ending())
		return false
	}
	switch s.Fault {
	case Delayed:
		return c.delay(s, f)
	case Partition:
		return c.partition(s, f)
	case RequestLost:
		c.finishThenCut(s)
	case ReplyLost:
		c.finishThenCut(s, f)
	case ClientGone:
		err := c.deliver(f)
		c.cut(s)
		s.end(errors.Join(err, c.finish()))
	default:
		c.zombie(s, f, r)
	}
	return false
}

// settle waits until the client has every answer to what was delivered so far. It is false when the server
// has ended the connection, or it was killed.
func (c *conn) settle() bool {
	return c.wait(func() bool { return c.owed == 0 || c.serverEnded }) && !c.ended()
}

func (c *conn) ended() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.serverEnded
}

// ending is why there is no more to wait for.
func (c *conn) ending() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.dead {
		return ErrClosed
	}
	return ErrServerEnded
}

// finishThenCut delivers frames and lets the server finish before the client learns anything, so that nothing
// that the client does next overlaps with it.
func (c *conn) finishThenCut(s *Strike, frames ...Frame) {
	var err error
	for _, f := range frames {
		err = errors.Join(err, c.deliver(f))
	}
	err = errors.Join(err, c.finish())
	c.cut(s)
	s.end(err)
}

// finish waits for the answers that the server owes, tells it that the connection ends, and waits until it
// has ended its side too: it has then executed what was delivered, or rolled it back.
func (c *conn) finish() error {
	if !c.wait(func() bool { return c.owed == 0 || c.serverEnded }) {
		return ErrClosed
	}
	c.p.mu.Lock()
	unanswered := c.owed > 0
	c.p.mu.Unlock()
	deadline := time.Now().Add(c.p.cfg.FinishMax)
	_ = c.server.SetReadDeadline(deadline)
	_ = c.client.SetWriteDeadline(deadline) // of a message that was under way when the fault struck
	if !c.open() {
		return ErrClosed
	}
	closeWrite(c.server)
	if !c.wait(func() bool { return c.serverEnded }) {
		return ErrClosed
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch {
	case unanswered:
		return ErrServerEnded
	case errors.Is(c.downErr, os.ErrDeadlineExceeded):
		return ErrUnfinished
	default:
		return nil
	}
}

// cut ends the client's side.
func (c *conn) cut(s *Strike) {
	c.open()
	reset(c.client)
	if s.Fault.cuts() {
		close(s.cut)
	}
}

// held waits until the strike is released. Otherwise it says why that makes no sense any more.
func (c *conn) held(s *Strike) error {
	select {
	case <-s.released:
		return nil
	case <-c.killed:
		return ErrClosed
	case <-c.gone: // also when it was killed
		return c.ending()
	}
}

// delay holds a message, and with it all that is behind it.
func (c *conn) delay(s *Strike, f Frame) bool {
	if d := c.p.cfg.Delay; d > 0 {
		timer := time.AfterFunc(d, s.Release)
		defer timer.Stop()
	}
	err := c.held(s)
	if err == nil {
		err = c.deliver(f)
	}
	s.end(err)
	return err == nil
}

// partition holds everything in both directions.
func (c *conn) partition(s *Strike, f Frame) bool {
	select {
	case <-s.released:
		c.heal()
	case <-c.killed:
	}
	err := c.deliver(f)
	s.end(err)
	return err == nil
}

func (c *conn) heal() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.partitioned = false
	c.cond.Broadcast()
}

// zombie holds all that the client has sent, and delivers it when it is told to.
func (c *conn) zombie(s *Strike, f Frame, r *bufio.Reader) {
	frames := append([]Frame{f}, c.collect(len(f.Data), r)...)
	s.keepHeld(frames)
	c.cut(s)
	if err := c.held(s); err != nil {
		// Nothing is delivered, so the server rolls back what it has.
		reset(c.server)
		s.end(err)
		return
	}
	var err error
	for _, f := range frames {
		if err = c.deliver(f); err != nil {
			break
		}
	}
	s.end(errors.Join(err, c.finish()))
}

// collect tells the client that its connection ends, and reads what it had sent until it closes its side too.
// With a FIN instead of a RST, nothing that it had sent is lost, however the bytes were split.
func (c *conn) collect(size int, r *bufio.Reader) []Frame {
	if !c.open() {
		return nil
	}
	_ = c.client.SetReadDeadline(time.Now().Add(c.p.cfg.FinishMax))
	closeWrite(c.client)
	var frames []Frame
	for {
		f, err := c.talk.ClientFrame(r)
		size += len(f.Data)
		if err != nil || size > c.p.cfg.HeldMax {
			return frames
		}
		frames = append(frames, f)
	}
}
