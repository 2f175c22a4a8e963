package e2e

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wireFault is what a relay does to one exchange.
type wireFault string

const (
	pass        wireFault = "pass"
	loseRequest wireFault = "lose the request"          // the connection is reset before anything is delivered
	dropReply   wireFault = "drop the reply"            // delivered and answered, then reset without a byte
	cutReply    wireFault = "reset amid the reply"      // half of the reply, then a reset
	hangUp      wireFault = "hang up while it executes" // delivered; both sides are then closed at once
)

// relay stands between clients and a server, and spoils exchanges as plan says. It never resends.
type relay struct {
	url    string
	target string // host:port
	plan   func() wireFault

	mu    sync.Mutex
	conns map[net.Conn]bool // nil when the relay has ended
	did   map[wireFault]int
}

// newRelay starts one in front of a server at base. plan is called once per request, one call at a time.
func newRelay(tb testing.TB, base string, plan func() wireFault) *relay {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(base)
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{
		url: "http://" + listener.Addr().String(), target: u.Host, plan: plan,
		conns: map[net.Conn]bool{}, did: map[wireFault]int{},
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			group.Go(func() { r.serve(client) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		r.closeAll()
		group.Wait()
	})
	return r
}

// seededFaults spoils about one of three exchanges, until budget are spoilt, so that every client gets
// through in the end.
func seededFaults(seed uint64, budget int) func() wireFault {
	rnd := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a test that can be repeated
	kinds := []wireFault{loseRequest, dropReply, cutReply, hangUp}
	return func() wireFault {
		if budget == 0 || rnd.IntN(3) > 0 {
			return pass
		}
		budget--
		return kinds[rnd.IntN(len(kinds))]
	}
}

func (r *relay) next() wireFault {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.plan()
	r.did[f]++
	return f
}

// counts says how often each fault happened.
func (r *relay) counts() map[wireFault]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.did)
}

// keep remembers a connection for the end, or closes it if that has come.
func (r *relay) keep(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		_ = c.Close()
		return
	}
	r.conns[c] = true
}

func (r *relay) release(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

func (r *relay) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// serve carries the exchanges of one client's connection, until a fault or an end.
func (r *relay) serve(client net.Conn) {
	r.keep(client)
	defer r.release(client)
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	r.keep(server)
	defer r.release(server)
	fromClient, fromServer := bufio.NewReader(client), bufio.NewReader(server)
	for r.exchange(client, server, fromClient, fromServer) {
	}
}

// exchange carries one request and its reply. It says whether the connection goes on.
func (r *relay) exchange(client, server net.Conn, fromClient, fromServer *bufio.Reader) bool {
	const bodyMax = 1 << 20
	request, err := http.ReadRequest(fromClient)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, bodyMax))
	if err != nil {
		return false
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	fault := r.next()
	if fault == loseRequest {
		reset(client)
		return false
	}
	if err := request.Write(server); err != nil || fault == hangUp {
		return false
	}
	response, err := http.ReadResponse(fromServer, request)
	if err != nil {
		return false
	}
	var reply bytes.Buffer
	err = response.Write(&reply)
	_ = response.Body.Close()
	switch {
	case err != nil || fault == dropReply:
		reset(client)
		return false
	case fault == cutReply:
		_, _ = client.Write(reply.Bytes()[:reply.Len()/2])
		reset(client)
		return false
	}
	_, err = client.Write(reply.Bytes())
	return err == nil && !response.Close && !request.Close
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// counter stands before an upstream and counts the POSTs that reach it. It never resends.
type counter struct {
	url    string
	posts  atomic.Int64
	arrive chan struct{} // gets one value per POST
	gate   chan struct{} // answers wait until it is closed; nil is open
}

// waitForPost waits until a POST has reached the upstream.
func (c *counter) waitForPost(tb testing.TB) {
	tb.Helper()
	select {
	case <-c.arrive:
	case <-time.After(waitMax):
		tb.Fatalf("no POST reached the upstream within %v", waitMax)
	}
}

// newGate is newCounter with answers that wait until open is called, or the test ends.
func newGate(tb testing.TB, base string) (c *counter, open func()) {
	tb.Helper()
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	c = startCounter(tb, base, gate)
	tb.Cleanup(open) // before the counter's own, which waits for the answers
	return c, open
}

func newCounter(tb testing.TB, base string) *counter {
	tb.Helper()
	return startCounter(tb, base, nil)
}

func startCounter(tb testing.TB, base string, gate chan struct{}) *counter {
	tb.Helper()
	u, err := url.Parse(base)
	if err != nil {
		tb.Fatal(err)
	}
	const arrivalsMax = 10_000
	c := &counter{arrive: make(chan struct{}, arrivalsMax), gate: gate}
	// One connection per request: net/http resends what has an Idempotency-Key when a kept one dies.
	transport := &http.Transport{DisableKeepAlives: true}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport: transport,
		ModifyResponse: func(*http.Response) error {
			if c.gate != nil {
				<-c.gate
			}
			return nil
		},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender is gone: nothing arrived
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPost {
			c.posts.Add(1)
			c.arrive <- struct{}{}
		}
		// What is counted is delivered, even if its sender is killed now. (The new context can end, in name:
		// for one that can't, the proxy would ask the connection whether the sender is there.)
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}))
	tb.Cleanup(server.Close)
	c.url = server.URL
	return c
}
