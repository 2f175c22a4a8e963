package idempotencyhttp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

// clock is a policy's clock that never waits: it notes what it was asked for.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	waits  []time.Duration
	during func(nth int) // of the nth wait, from 1
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.waits = append(c.waits, d)
	nth := len(c.waits)
	c.mu.Unlock()
	if c.during != nil {
		c.during(nth)
	}
	return ctx.Err()
}

func (c *clock) wantWaits(t *testing.T, n int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waits) != n {
		t.Fatalf("waited %d times (%v), want %d", len(c.waits), c.waits, n)
	}
}

// fault serves one arrival in place of the site behind it.
type fault func(w http.ResponseWriter, r *http.Request, site http.Handler)

// network is a faulty way to a site: the nth arrival meets the nth fault, or none when that is nil or
// there are no more.
type network struct {
	t      *testing.T
	clock  *clock
	client *http.Client // over Transport
	direct *http.Client // without it
	url    string

	mu       sync.Mutex
	faults   []fault
	arrivals []arrival
}

type arrival struct {
	method string
	keys   []string // the lines of the header
	body   string
}

// newNetwork puts faults before h, on a port of its own.
func newNetwork(t *testing.T, h http.Handler, p retry.Policy, faults ...fault) *network {
	t.Helper()
	n := &network{t: t, clock: &clock{}, faults: faults}
	s := &site{t: t, Handler: h}
	n.url, n.direct = s.serve(n.wrap)
	if p.Clock == nil {
		p.Clock = n.clock
	}
	n.client = &http.Client{Transport: idempotencyhttp.Transport(n.direct.Transport, p)}
	return n
}

func (n *network) wrap(site http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler) // the request itself was cut
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		n.mu.Lock()
		n.arrivals = append(n.arrivals, arrival{r.Method, r.Header.Values("Idempotency-Key"), string(body)})
		var f fault
		if nth := len(n.arrivals); nth <= len(n.faults) {
			f = n.faults[nth-1]
		}
		n.mu.Unlock()
		if f == nil {
			site.ServeHTTP(w, r)
			return
		}
		f(w, r, site)
	})
}

// post sends a charge through the transport.
func (n *network) post(ctx context.Context, body io.Reader) (*http.Response, error) {
	n.t.Helper()
	return n.client.Do(n.request(ctx, http.MethodPost, body))
}

func (n *network) request(ctx context.Context, method string, body io.Reader) *http.Request {
	n.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, n.url+"/charges", body)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer acme")
	r.Header.Set("Content-Type", "application/json")
	return r
}

// wantArrivals checks how many there were, and that all were the same, and returns the key of them all.
func (n *network) wantArrivals(count int) (key string) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.arrivals) != count {
		n.t.Fatalf("%d arrivals, want %d", len(n.arrivals), count)
	}
	for _, a := range n.arrivals {
		if fmt.Sprint(a) != fmt.Sprint(n.arrivals[0]) {
			n.t.Fatalf("two attempts differ: %q and %q", n.arrivals[0], a)
		}
	}
	if keys := n.arrivals[0].keys; len(keys) == 1 {
		return keys[0]
	} else if len(keys) > 1 {
		n.t.Fatalf("one request has %d keys: %q", len(keys), keys)
	}
	return ""
}

// requestLost ends the connection before the site sees anything.
func requestLost(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// replyLost lets the site do its work and ends the connection instead of answering.
func replyLost(_ http.ResponseWriter, r *http.Request, site http.Handler) {
	site.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// replyCut sends the answer up to the middle of its body, and a reset.
func replyCut(w http.ResponseWriter, r *http.Request, site http.Handler) {
	rec := httptest.NewRecorder()
	site.ServeHTTP(rec, r)
	answer := rec.Result()
	answer.ContentLength = int64(rec.Body.Len())
	var text bytes.Buffer
	if err := answer.Write(&text); err != nil {
		panic(err)
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		panic(err)
	}
	_, _ = conn.Write(text.Bytes()[:text.Len()-rec.Body.Len()/2-1])
}

// says answers in the site's place, as something between client and site does.
func says(status int, fields ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for _, field := range fields {
			name, value, _ := strings.Cut(field, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "from the middle")
	}
}

// tells answers with a problem.
func tells(name string, status int, after time.Duration) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		idempotencyhttp.WriteProblem(w, &idempotencyhttp.Problem{Name: name, Status: status, Title: "t", Detail: "d", RetryAfter: after})
	}
}

// roundTripper is a base that a test writes.
type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tracked is a body that knows whether it was closed.
type tracked struct {
	io.Reader
	mu     sync.Mutex
	closed bool
}

func (b *tracked) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

func (b *tracked) wantClosed(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		t.Fatal("a body was left open")
	}
}

// plain hides what a reader is, so that http.NewRequest can make no GetBody for it.
type plain struct{ io.Reader }
