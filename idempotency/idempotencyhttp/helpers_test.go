package idempotencyhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
	"github.com/fiftyhosts/fifty/store/memory"
)

// errDown is what a store says that is down. It is permanent so that nobody waits for its end.
var errDown = retry.Permanent(errors.New("dial tcp 10.1.2.3:5432: connection refused"))

// failing is a memory store whose calls a test can stop: a function that returns an error is called instead.
type failing struct {
	idempotency.TxStore[*memory.Tx]
	claim    func() error
	complete func(c idempotency.Completion) error // per completion, or errDown for the call
	find     func() (idempotency.Record, error)
	inTx     func() error // after the transaction was committed
	begin    func() error // before it has begun
}

func (s *failing) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if s.claim != nil {
		if err := s.claim(); err != nil {
			return nil, err
		}
	}
	return s.TxStore.Claim(ctx, attempts)
}

func (s *failing) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	if s.complete != nil {
		if err := s.complete(completions[0]); errors.Is(err, idempotency.ErrLost) {
			return []error{err}, nil
		} else if err != nil {
			return nil, err
		}
	}
	return s.TxStore.Complete(ctx, completions)
}

func (s *failing) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	if s.find != nil {
		return s.find()
	}
	return s.TxStore.Find(ctx, scope, key)
}

func (s *failing) InTx(
	ctx context.Context, a idempotency.Attempt, fn func(context.Context, *memory.Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	if s.begin != nil {
		if err := s.begin(); err != nil {
			return idempotency.Claimed{}, err
		}
	}
	claimed, err := s.TxStore.InTx(ctx, a, fn)
	if err == nil && s.inTx != nil {
		err = s.inTx()
	}
	return claimed, err
}

// site is a handler behind Middleware, and what is known of it.
type site struct {
	t      *testing.T
	store  *failing
	keys   *idempotency.TxKeys[*memory.Tx]
	cfg    idempotencyhttp.Config
	runs   atomic.Int64 // of the handler
	events events
	inner  http.Handler // that of the test, counted
	http.Handler
}

// newSite makes one; cfg's Scope defaults to bearer.
func newSite(t *testing.T, cfg idempotencyhttp.Config, h http.HandlerFunc) *site {
	t.Helper()
	s := newKeys(t, cfg)
	s.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		h(w, r)
	})
	s.Handler = idempotencyhttp.Middleware(s.keys, s.cfg)(s.inner)
	return s
}

// newTxSite is newSite for InTx.
func newTxSite(t *testing.T, cfg idempotencyhttp.Config, h func(http.ResponseWriter, *http.Request, *memory.Tx)) *site {
	t.Helper()
	s := newKeys(t, cfg)
	s.Handler = idempotencyhttp.InTx(s.keys, s.cfg, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		s.runs.Add(1)
		h(w, r, tx)
	})
	return s
}

func newKeys(t *testing.T, cfg idempotencyhttp.Config) *site {
	s := &site{t: t, store: &failing{TxStore: memory.New(memory.Config{}).Keys()}}
	s.keys = idempotency.NewTx(s.store, idempotency.Config{})
	if cfg.Scope == nil {
		cfg.Scope = bearer
	}
	cfg.Observer = &s.events
	s.cfg = cfg
	return s
}

// bearer takes the bearer token for the caller's name. A real one verifies it.
func bearer(r *http.Request) (string, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", errors.New("no bearer token")
	}
	return name, nil
}

// do sends a request without a network.
func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// wantRuns says how often the handler has run by now.
func (s *site) wantRuns(n int64) {
	s.t.Helper()
	if got := s.runs.Load(); got != n {
		s.t.Fatalf("the handler ran %d times, want %d", got, n)
	}
}

// serve puts the site on a port of its own and returns a client that never sends anything again by itself.
func (s *site) serve(wrap func(http.Handler) http.Handler) (url string, client *http.Client) {
	s.t.Helper()
	var h http.Handler = s
	if wrap != nil {
		h = wrap(s)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	s.t.Cleanup(srv.Close)
	client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	s.t.Cleanup(client.CloseIdleConnections)
	return srv.URL, client
}

// post makes a request of account "acme" with a key and a JSON body.
func post(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer acme")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// onWire makes the same request for a client of a server at url.
func onWire(t *testing.T, url, key, body string) *http.Request {
	t.Helper()
	r := post(key, body)
	out, err := http.NewRequestWithContext(t.Context(), r.Method, url+"/charges", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out.Header = r.Header
	return out
}

// answer is what a client got, with all of its body.
type answer struct {
	StatusCode      int
	Header, Trailer http.Header
	ContentLength   int64
	Body            string
}

// send does a request and reads all of its answer.
func send(t *testing.T, client *http.Client, r *http.Request) answer {
	t.Helper()
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, res)
}

func readAll(t *testing.T, res *http.Response) answer {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, res.Trailer, res.ContentLength, string(body)}
}

// wantBroken sends a request whose connection must break before its answer is whole.
func wantBroken(t *testing.T, client *http.Client, r *http.Request) {
	t.Helper()
	res, err := client.Do(r)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Fatalf("the client takes %d %q for a whole answer", res.StatusCode, body)
	}
}

// raw sends bytes as they are, closes the sending side if it is told to, and returns the connection.
func raw(t *testing.T, url, text string, closeSending bool) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	tcp := conn.(*net.TCPConn)
	if closeSending {
		if err := tcp.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	return tcp
}

// rawAnswer reads one answer from a raw connection.
func rawAnswer(t *testing.T, conn net.Conn) answer {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, res)
}

type problemBody struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Key        string `json:"key"`
	RetryAfter int    `json:"retry_after"`
}

// wantProblem checks an answer that is ours instead of the handler's, and returns what it says.
func wantProblem(t *testing.T, status int, h http.Header, body, name string, wantStatus int) problemBody {
	t.Helper()
	var p problemBody
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%d %q: %v", status, body, err)
	}
	if p.Type != "urn:fifty:problem:"+name || status != wantStatus || p.Status != wantStatus {
		t.Fatalf("got %d %+v, want %s with %d", status, p, name, wantStatus)
	}
	if p.Title == "" || p.Detail == "" || h.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("the problem is not whole: %+v, Content-Type %q", p, h.Get("Content-Type"))
	}
	if got := h.Get("Idempotency-Replayed"); got != "" {
		t.Fatalf("a problem is marked as a replay: %q", got)
	}
	return p
}

func wantProblemOf(t *testing.T, a answer, name string, wantStatus int) problemBody {
	t.Helper()
	return wantProblem(t, a.StatusCode, a.Header, a.Body, name, wantStatus)
}

func wantProblemIn(t *testing.T, w *httptest.ResponseRecorder, name string, status int) problemBody {
	t.Helper()
	return wantProblem(t, w.Code, w.Header(), w.Body.String(), name, status)
}

// wantReplay checks that an answer is the kept one, marked.
func wantReplay(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body || w.Header().Get("Idempotency-Replayed") != "true" {
		t.Fatalf("got %d %q (replayed: %q), want a replay of %d %q", w.Code, w.Body, w.Header().Get("Idempotency-Replayed"), status, body)
	}
}

// wantFirst checks that an answer is the handler's own, not marked.
func wantFirst(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body || w.Header().Get("Idempotency-Replayed") != "" {
		t.Fatalf("got %d %q (replayed: %q), want a first %d %q", w.Code, w.Body, w.Header().Get("Idempotency-Replayed"), status, body)
	}
}

// charge answers like a service that made something.
func charge(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/charges/ch_1")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"ch_1"}`)
}

func mustNotRun(t *testing.T) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }
}

type events struct {
	mu   sync.Mutex
	seen []fifty.Event
}

func (e *events) Observe(_ context.Context, event fifty.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, event)
}

func (e *events) count(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, event := range e.seen {
		if event.Name == name {
			n++
		}
	}
	return n
}
