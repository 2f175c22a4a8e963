package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Bounds and defaults of Config.
const (
	connsMaxDefault   = 1_000
	messageMaxDefault = 16 << 20
	heldMaxDefault    = 16 << 20
	traceMaxDefault   = 10_000
	finishMaxDefault  = 30 * time.Second
	strikesMax        = 10_000 // those that are remembered; all are counted
	dialMax           = 10 * time.Second
	readBuffer        = 32 << 10
)

// ErrTooManyConns: a connection was reset because there were ConnsMax already.
var ErrTooManyConns = errors.New("faults: too many connections at once")

// Config says what a proxy stands in front of. Upstream is mandatory.
type Config struct {
	// Upstream is the server's host:port.
	Upstream string

	// Listen is the proxy's own host:port. Defaults to a free port of 127.0.0.1.
	Listen string

	// Protocol knows the messages. Defaults to TCP, where a message is a chunk of bytes.
	Protocol Protocol

	// Plan chooses the faults, until Arm sets another. Defaults to none.
	Plan Plan

	// Delay is how long Delayed holds a message. Defaults to until it is released.
	Delay time.Duration

	// ConnsMax is the most connections at once; one more is reset. Defaults to 1,000.
	ConnsMax int

	// MessageMax is the size of the largest message, in bytes; a connection with a larger one is reset.
	// Defaults to 16 MiB.
	MessageMax int

	// HeldMax bounds what a zombie holds, in bytes. What the client sent behind that is lost. Defaults to
	// 16 MiB.
	HeldMax int

	// TraceMax is how many messages are remembered since Arm; more are only counted. Defaults to 10,000.
	TraceMax int

	// FinishMax bounds two waits within a fault: for a server that was told that the connection ends to end
	// it as well, and for the client of a zombie to close its side. After it that side is reset. Defaults to
	// 30 s.
	FinishMax time.Duration
}

func (cfg Config) withDefaults() Config {
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Protocol == nil {
		cfg.Protocol = TCP{}
	}
	for _, bound := range []struct {
		value *int
		usual int
	}{
		{&cfg.ConnsMax, connsMaxDefault},
		{&cfg.MessageMax, messageMaxDefault},
		{&cfg.HeldMax, heldMaxDefault},
		{&cfg.TraceMax, traceMaxDefault},
	} {
		if *bound.value <= 0 {
			*bound.value = bound.usual
		}
	}
	if cfg.FinishMax <= 0 {
		cfg.FinishMax = finishMaxDefault
	}
	return cfg
}

// Proxy stands between clients and one server. It is safe for concurrent use.
type Proxy struct {
	cfg      Config
	listener net.Listener
	ctx      context.Context // done when the proxy is closed
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	planMu sync.Mutex // one call of the plan at a time; taken before mu
	plan   Plan

	mu          sync.Mutex
	err         error
	conns       map[*conn]struct{} // nil once the proxy is closed
	sessions    map[string]*conn
	partitioned bool
	arming      int // how often Arm was called
	count       int
	connCount   int
	trace       []Message
	strikes     []*Strike
	struck      map[Fault]int
	changed     chan struct{} // closed and replaced when there is another strike
}

// Start listens, and passes everything until the plan says otherwise. The proxy must be closed. The upstream
// is dialled for each connection, and not before.
func Start(cfg Config) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(cfg.Upstream); err != nil {
		return nil, fmt.Errorf("faults: the upstream must be a host:port: %w", err)
	}
	cfg = cfg.withDefaults()
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("faults: listen: %w", err)
	}
	p := &Proxy{
		cfg: cfg, listener: listener, plan: cfg.Plan,
		conns: map[*conn]struct{}{}, sessions: map[string]*conn{}, struck: map[Fault]int{},
		changed: make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close resets all connections on both sides, partitioned or not, and returns when nothing of the proxy is
// left. What is held is never delivered. It returns Err.
func (p *Proxy) Close() error {
	p.cancel()
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.kill()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
	return p.Err()
}

// Err is the first thing that the proxy could not do as it should: ErrMalformed, ErrTooLarge,
// ErrTooManyConns or ErrUnknownFault, wrapped. A test that counts on its faults checks it.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Proxy) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() == nil {
				p.fail(fmt.Errorf("faults: accept: %w", err))
			}
			return
		}
		c := newConn(p, client)
		if err := p.keep(c); err != nil {
			reset(client)
			continue
		}
		p.wg.Go(c.run)
	}
}

// keep remembers a connection until it ends.
func (p *Proxy) keep(c *conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return ErrClosed
	}
	if len(p.conns) >= p.cfg.ConnsMax {
		if p.err == nil {
			p.err = fmt.Errorf("%w: ConnsMax is %d", ErrTooManyConns, p.cfg.ConnsMax)
		}
		return ErrTooManyConns
	}
	p.conns[c] = struct{}{}
	return nil
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	if c.session != "" && p.sessions[c.session] == c {
		delete(p.sessions, c.session)
	}
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// closeWrite ends one direction with FIN; the other one stays.
func closeWrite(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
