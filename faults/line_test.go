package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is a protocol for these tests: a message is a line. "hello" is setup; a line that begins with "part"
// belongs to the request that the next other line completes; each request has one line as its answer. A line
// from the server that begins with "note" answers nothing.
type lines struct{}

func (lines) Open(messageMax int) faults.Conversation { return lineTalk{messageMax} }

type lineTalk struct{ max int }

func (l lineTalk) read(r *bufio.Reader) (faults.Frame, error) {
	line, err := r.ReadString('\n')
	switch {
	case errors.Is(err, io.EOF) && line != "":
		return faults.Frame{}, io.ErrUnexpectedEOF
	case err != nil:
		return faults.Frame{}, err
	case len(line) > l.max:
		return faults.Frame{}, faults.ErrTooLarge
	case strings.HasPrefix(line, "\x00"):
		return faults.Frame{}, faults.ErrMalformed
	}
	return faults.Frame{Data: []byte(line), Name: strings.TrimSpace(line)}, nil
}

func (l lineTalk) ClientFrame(r *bufio.Reader) (faults.Frame, error) {
	f, err := l.read(r)
	f.Setup = f.Name == "hello"
	f.Last = !strings.HasPrefix(f.Name, "part")
	if f.Last {
		f.Asks = 1
	}
	return f, err
}

func (l lineTalk) ServerFrame(r *bufio.Reader) (faults.Frame, error) {
	f, err := l.read(r)
	if !strings.HasPrefix(f.Name, "note") {
		f.Answers = 1
	}
	return f, err
}

// server answers "ok LINE" to each line that completes a request, and remembers what it got. The line "hold"
// is answered when the test says so; after "quit" it hangs up. It ends its side at the end of the stream.
type server struct {
	tb    testing.TB
	addr  string
	hold  chan struct{}
	let   func()      // closes hold
	ended chan string // per connection, how the client's side of it ended: "FIN" or an error

	mu    sync.Mutex
	got   []string
	conns []net.Conn
}

func startServer(tb testing.TB) *server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	const connsMax = 100
	s := &server{tb: tb, addr: listener.Addr().String(), hold: make(chan struct{}), ended: make(chan string, connsMax)}
	s.let = sync.OnceFunc(func() { close(s.hold) })
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			wg.Go(func() { s.serve(conn) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		s.let()
		wg.Wait()
	})
	return s
}

// hangUp ends the first connection from the server's side.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conns[0].Close()
}

func (s *server) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			how := "FIN"
			if !errors.Is(err, io.EOF) {
				how = err.Error()
			}
			s.ended <- how
			return
		}
		line = strings.TrimSpace(line)
		s.mu.Lock()
		s.got = append(s.got, line)
		s.mu.Unlock()
		switch {
		case strings.HasPrefix(line, "part"):
			continue
		case line == "hold":
			<-s.hold
		case line == "quit":
			s.ended <- "quit"
			return
		}
		_, _ = fmt.Fprintf(conn, "note\nok %s\n", line)
	}
}

// received is what the server has got, in order, without hellos.
func (s *server) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.got), func(line string) bool { return line == "hello" })
}

// bench is a server, a proxy before it, and a client's connection through it.
type bench struct {
	t      *testing.T
	ctx    context.Context
	server *server
	proxy  *faults.Proxy
	client *client
}

func setup(t *testing.T, cfg faults.Config) bench {
	t.Helper()
	s := startServer(t)
	cfg.Upstream, cfg.Protocol = s.addr, lines{}
	p, err := faults.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	t.Cleanup(cancel)
	b := bench{t: t, ctx: ctx, server: s, proxy: p}
	b.client = b.dial()
	return b
}

func (b bench) strike(i int) *faults.Strike {
	b.t.Helper()
	s, err := b.proxy.WaitStrike(b.ctx, i)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b bench) finished(s *faults.Strike) {
	b.t.Helper()
	if err := s.Wait(b.ctx); err != nil {
		b.t.Fatalf("%v: %v", s, err)
	}
}

// gets waits until the server has got this, and nothing else.
func (b bench) gets(want ...string) {
	b.t.Helper()
	for len(b.server.received()) < len(want) && b.ctx.Err() == nil {
		runtime.Gosched()
	}
	b.received(want...)
}

func (b bench) received(want ...string) {
	b.t.Helper()
	if got := b.server.received(); !slices.Equal(got, want) {
		b.t.Fatalf("the server has got %q, want %q", got, want)
	}
}

// client is a connection whose every wait is bounded.
type client struct {
	t    *testing.T
	conn *net.TCPConn
	r    *bufio.Reader
}

// dial connects and says hello.
func (b bench) dial() *client {
	b.t.Helper()
	c := b.dialSilently()
	c.send("hello\n")
	c.hears("ok hello")
	return c
}

func (b bench) dialSilently() *client {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.proxy.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(waitMax))
	return &client{t: b.t, conn: conn.(*net.TCPConn), r: bufio.NewReader(conn)}
}

func (c *client) send(bytes string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(bytes)); err != nil {
		c.t.Fatal(err)
	}
}

// hears reads the server's lines up to one that is no note.
func (c *client) hears(want string) {
	c.t.Helper()
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			c.t.Fatalf("instead of %q: %v", want, err)
		}
		if line = strings.TrimSpace(line); line == "note" {
			continue
		}
		if line != want {
			c.t.Fatalf("%q, want %q", line, want)
		}
		return
	}
}

// hearsNothing looks for a moment whether something comes, be it the end. Where nothing can come, it never fails.
func (c *client) hearsNothing() {
	c.t.Helper()
	_ = c.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	line, err := c.r.ReadString('\n')
	_ = c.conn.SetReadDeadline(time.Now().Add(waitMax))
	if !errors.Is(err, os.ErrDeadlineExceeded) || line != "" {
		c.t.Fatalf("heard %q, %v", line, err)
	}
}

// ends reads until the connection ends, and says how, having closed it.
func (c *client) ends() (lines []string, err error) {
	c.t.Helper()
	defer c.conn.Close()
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				c.t.Fatal("the connection has not ended")
			}
			return lines, err
		}
		lines = append(lines, strings.TrimSpace(line))
	}
}
