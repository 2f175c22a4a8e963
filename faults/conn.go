package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// conn is one client's connection and the one to the server that belongs to it. One goroutine carries the
// client's messages up, another the server's down.
type conn struct {
	p      *Proxy
	client net.Conn
	talk   Conversation
	killed chan struct{} // closed by kill
	gone   chan struct{} // closed when nothing more comes from the server

	// All below is guarded by p.mu, which is also cond's lock. No lock is held while bytes are moved.
	cond        *sync.Cond
	server      net.Conn // nil until it is dialled; set once
	dead        bool     // killed
	serverEnded bool
	downErr     error
	owed        int // answers that the server owes for what was delivered
	strike      *Strike
	dropping    bool // the server's messages are thrown away
	partitioned bool
	session     string
	arming      int
	number      int
	count       int
	amid        bool // the client's last message was not the last of a request
}

func newConn(p *Proxy, client net.Conn) *conn {
	return &conn{
		p: p, client: client, talk: p.cfg.Protocol.Open(p.cfg.MessageMax),
		killed: make(chan struct{}), gone: make(chan struct{}), cond: sync.NewCond(&p.mu),
	}
}

// kill ends both sides at once. The caller holds p.mu.
func (c *conn) kill() {
	if c.dead {
		return
	}
	c.dead = true
	close(c.killed)
	reset(c.client)
	if c.server != nil {
		reset(c.server)
	}
	c.cond.Broadcast()
}

// run carries the connection until it ends.
func (c *conn) run() {
	defer c.p.forget(c)
	defer reset(c.client) // if nothing has closed it
	if !c.dial() {
		return
	}
	defer c.server.Close()
	var down sync.WaitGroup
	down.Go(c.down)
	c.up()
	down.Wait()
}

func (c *conn) dial() bool {
	if !c.open() {
		return false
	}
	dialer := net.Dialer{Timeout: dialMax}
	server, err := dialer.DialContext(c.p.ctx, "tcp", c.p.cfg.Upstream)
	if err != nil {
		return false // the client sees a reset, as if the server had refused it
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.dead {
		reset(server)
		return false
	}
	c.server = server
	return true
}

// wait blocks until ready, which is called under p.mu. It is false when the connection was killed.
func (c *conn) wait(ready func() bool) bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for !c.dead && !ready() {
		c.cond.Wait()
	}
	return !c.dead
}

// open waits while there is a partition.
func (c *conn) open() bool {
	return c.wait(func() bool { return !c.p.partitioned && !c.partitioned })
}

// up carries the client's messages.
func (c *conn) up() {
	r := bufio.NewReaderSize(c.client, readBuffer)
	for {
		f, err := c.talk.ClientFrame(r)
		if err != nil {
			c.clientEnded(err)
			return
		}
		if !c.passUp(f, r) {
			return
		}
	}
}

// passUp delivers one message, or does to it what the plan says. It says whether the connection goes on.
func (c *conn) passUp(f Frame, r *bufio.Reader) bool {
	if !c.open() {
		return false
	}
	if f.Answer != nil {
		_, err := c.client.Write(f.Answer)
		return err == nil
	}
	if f.Aims != "" && c.p.outOfReach(f.Aims) {
		_ = c.client.Close()
		_ = c.server.Close()
		return false
	}
	s := c.p.admit(c, f)
	if s == nil {
		return c.deliver(f) == nil
	}
	return c.apply(s, f, r)
}

// deliver sends a message to the server, which then owes what it asks for.
func (c *conn) deliver(f Frame) error {
	if !c.open() {
		return ErrClosed
	}
	c.p.mu.Lock()
	c.owed += f.Asks
	c.p.mu.Unlock()
	if _, err := c.server.Write(f.Data); err != nil {
		return fmt.Errorf("%w: %w", c.ending(), err)
	}
	return nil
}

// clientEnded tells the server how the client's side ended. Half a message is not delivered.
func (c *conn) clientEnded(err error) {
	c.note("client", err)
	if !c.open() {
		return
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		closeWrite(c.server)
		return
	}
	reset(c.server)
}

// note remembers what the proxy could not read.
func (c *conn) note(side string, err error) {
	if errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge) {
		c.p.fail(fmt.Errorf("from the %s: %w", side, err))
	}
}

// down carries the server's messages, and tells the client when there are no more.
func (c *conn) down() {
	err := c.passDown()
	c.note("server", err)
	c.open()
	c.p.mu.Lock()
	c.serverEnded, c.downErr = true, err
	dropping := c.dropping
	c.cond.Broadcast()
	close(c.gone)
	c.p.mu.Unlock()
	if errors.Is(err, io.EOF) {
		_ = c.server.Close()
	} else {
		reset(c.server)
	}
	switch {
	case dropping: // the fault ends the client's side
	case errors.Is(err, io.EOF):
		_ = c.client.Close()
	default:
		reset(c.client)
	}
}

func (c *conn) passDown() error {
	r := bufio.NewReaderSize(c.server, readBuffer)
	for {
		f, err := c.talk.ServerFrame(r)
		if err != nil {
			return err
		}
		if !c.open() {
			return ErrClosed
		}
		if s := c.dropped(f); s != nil {
			s.keepReply(f)
		} else if _, err := c.client.Write(f.Data); err != nil {
			return err
		}
		c.answered(f.Answers)
	}
}

// dropped is the strike that throws this message away, if there is one.
func (c *conn) dropped(f Frame) *Strike {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if f.Session != "" {
		c.session = f.Session
		c.p.sessions[f.Session] = c
	}
	if !c.dropping {
		return nil
	}
	return c.strike
}

// answered counts what the server has given. It comes after the client has got it, so that a fault that
// waits for it cuts behind the answer.
func (c *conn) answered(n int) {
	if n == 0 {
		return
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.owed = max(0, c.owed-n)
	c.cond.Broadcast()
}
