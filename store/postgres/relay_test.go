package postgres_test

import (
	"net"
	"net/url"
	"sync"
	"testing"
)

// relay stands between a client and the server, and can lose what passes.
type relay struct {
	tb       testing.TB
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	next  loss
	held  chan struct{} // closed when a held request may go on
	conns []net.Conn
}

// loss strikes once, at the next bytes that pass.
type loss int

const (
	none       loss = iota
	loseReply       // the server has answered; the client never hears it, and the connection is gone
	holdTheAsk      // the client's connection is gone, its request comes to the server later
)

// newRelay returns a relay and the URL that leads through it.
func newRelay(tb testing.TB, to string) (*relay, string) {
	tb.Helper()
	u, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{tb: tb, listener: l, target: u.Host, held: make(chan struct{})}
	u.Host = l.Addr().String()
	r.wg.Go(r.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.release()
		r.wg.Wait()
	})
	return r, u.String()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		r.wg.Go(func() { r.pass(client, server, client, holdTheAsk) })
		r.wg.Go(func() { r.pass(server, client, client, loseReply) })
	}
}

// pass copies from one side to the other until strike's turn comes.
func (r *relay) pass(from, to, client net.Conn, strike loss) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if r.strikes(strike) {
			_ = client.Close()
			if strike == loseReply {
				_ = from.Close()
				return
			}
			<-r.held
			_, _ = to.Write(buffer[:n])
			// The server answers into the void and sees the connection end only after that.
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) arm(f loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = f
}

func (r *relay) strikes(f loss) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != f {
		return false
	}
	r.next = none
	return true
}

// release lets a held request go on.
func (r *relay) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.held:
	default:
		close(r.held)
	}
}
