package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Arm sets the plan (nil passes everything) and begins to count anew: the next message has number 1, the
// trace, the strikes and their counts are empty. Connections stay. It is for a moment at which no client is
// sending; what is held stays held, so keep its strike, or call ReleaseAll before.
func (p *Proxy) Arm(plan Plan) {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	p.plan = plan
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arming++
	p.count, p.connCount = 0, 0
	p.trace, p.strikes = nil, nil
	clear(p.struck)
}

// Trace lists the messages that were counted since Arm, the first TraceMax of them.
func (p *Proxy) Trace() []Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.trace)
}

// Count is how many messages were counted since Arm.
func (p *Proxy) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Strikes lists the faults that have struck since Arm, in the order in which they took hold; the first
// 10,000 of them.
func (p *Proxy) Strikes() []*Strike {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.strikes)
}

// Counts says how often each fault has struck since Arm.
func (p *Proxy) Counts() map[Fault]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.struck)
}

// WaitStrike waits for the i-th strike since Arm, from 1, and returns it as soon as it has taken hold: a
// message is held, a partition complete. It returns ctx's error, or ErrClosed when the proxy is closed.
func (p *Proxy) WaitStrike(ctx context.Context, i int) (*Strike, error) {
	i = max(i, 1)
	for {
		p.mu.Lock()
		strikes, changed := p.strikes, p.changed
		p.mu.Unlock()
		if len(strikes) >= i {
			return strikes[i-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// ReleaseAll releases everything that faults hold at this moment.
func (p *Proxy) ReleaseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if c.strike != nil {
			c.strike.Release()
		}
	}
}

// Partition stops everything: nothing goes through in either direction, on no connection, and neither side is
// told. A new connection is accepted and comes to nothing until Heal. A message whose bytes are being written
// at this moment still arrives.
//
// The kernels of both sides are still answered by the proxy's: keep-alive probes succeed, and bytes are
// acknowledged until the buffers are full. What depends on those, such as TCP_USER_TIMEOUT, needs dropped
// packets.
func (p *Proxy) Partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitioned = true
}

// Heal ends the partition of the proxy and those of single connections. All that was held back arrives in
// order, also that a side has closed its connection meanwhile.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitioned = false
	for c := range p.conns {
		if c.strike != nil && c.strike.Fault == Partition {
			c.strike.Release()
		}
		c.partitioned = false
		c.cond.Broadcast()
	}
}

// CloseAll resets all connections on both sides at once, partitioned or not. What is held is lost. The proxy
// goes on with new connections.
func (p *Proxy) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.kill()
	}
}

// admit counts a message and asks the plan. The strike is nil where it passes.
func (p *Proxy) admit(c *conn, f Frame) *Strike {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	m := p.number(c, f)
	if p.plan == nil {
		return nil
	}
	fault := p.plan(m)
	if fault == Pass || fault == "" {
		return nil
	}
	if !fault.known() {
		p.fail(fmt.Errorf("%w: %q", ErrUnknownFault, fault))
		return nil
	}
	return newStrike(fault, m)
}

func (p *Proxy) number(c *conn, f Frame) Message {
	m := Message{Name: f.Name, Detail: f.Detail, Last: f.Last}
	if f.Setup {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.arming != p.arming || c.number == 0 {
		p.connCount++
		c.arming, c.number, c.count = p.arming, p.connCount, 0
	}
	p.count++
	c.count++
	m.Number, m.Conn, m.OnConn = p.count, c.number, c.count
	m.First = !c.amid
	c.amid = !f.Last
	if len(p.trace) < p.cfg.TraceMax {
		p.trace = append(p.trace, m)
	}
	return m
}

// publish makes a strike known: it has taken hold.
func (p *Proxy) publish(c *conn, s *Strike) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.strike = s
	c.dropping = s.Fault.cuts()
	c.partitioned = s.Fault == Partition
	p.struck[s.Fault]++
	if len(p.strikes) < strikesMax {
		p.strikes = append(p.strikes, s)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// outOfReach says whether a fault has struck the connection of this session, so that nothing from another
// connection may concern it any more.
func (p *Proxy) outOfReach(session string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.sessions[session]
	return c != nil && (c.dropping || c.partitioned)
}
