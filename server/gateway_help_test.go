package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// bodyReadTestMax is short for the test whose body never ends, and long for a busy machine.
const bodyReadTestMax = 2 * time.Second

// gate is a gateway under test, in front of one upstream, over real connections.
type gate struct {
	*httptest.Server
	gateway *Gateway
	metrics *Metrics
	log     *lines
}

// startGate serves one route. The configuration is that of ProxyConfig with all callers one, as edit
// changes it.
func startGate(t testing.TB, upstream string, edit func(*Route)) *gate {
	t.Helper()
	return startGateOn(t, upstream, memory.New(memory.Config{}).Keys(), edit)
}

func startGateOn(t testing.TB, upstream string, keys idempotency.Store, edit func(*Route)) *gate {
	t.Helper()
	return startGateWith(t, upstream, edit, GatewayConfig{Keys: keys})
}

func startGateWith(t testing.TB, upstream string, edit func(*Route), with GatewayConfig) *gate {
	t.Helper()
	cfg, err := ProxyConfig(upstream, ScopeRule{Kind: ScopeConstant, Constant: "all"})
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(&cfg.Routes[0])
	}
	g := &gate{metrics: NewMetrics(), log: &lines{}}
	with.Secret, with.Metrics, with.Log = []byte("secret"), g.metrics, slog.New(slog.NewJSONHandler(g.log, nil))
	with.StoreMax, with.BodyReadMax = cmp.Or(with.StoreMax, 50*time.Millisecond), bodyReadTestMax
	g.serve(t, NewGateway(cfg, with))
	return g
}

// serveGate is a gate for a gateway that the test has made.
func serveGate(t testing.TB, gateway *Gateway) *gate {
	t.Helper()
	g := &gate{}
	g.serve(t, gateway)
	return g
}

func (g *gate) serve(t testing.TB, gateway *Gateway) {
	g.gateway = gateway
	g.Server = httptest.NewServer(gateway)
	t.Cleanup(func() {
		g.Close()
		gateway.Close()
	})
}

// lines gathers a log.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// access returns the lines about keyed requests. net/http sends a short answer when its handler has returned,
// so a client that has one finds its line here.
func (l *lines) access() []map[string]any {
	return slices.DeleteFunc(l.with("request"), func(f map[string]any) bool { return f["msg"] != "request" })
}

// with returns the lines whose message has a part.
func (l *lines) with(part string) (found []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.all.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && strings.Contains(fmt.Sprint(fields["msg"]), part) {
			found = append(found, fields)
		}
	}
	return found
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// problem is the name of the problem in it, or "".
func (a answer) problem() string {
	var p struct {
		Type string `json:"type"`
	}
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal([]byte(a.body), &p) != nil {
		return ""
	}
	return strings.TrimPrefix(p.Type, "urn:fifty:problem:")
}

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// send sends a request with a key; header has more fields, as name and value in turn.
func (g *gate) send(t testing.TB, method, path, key, body string, header ...string) answer {
	t.Helper()
	a, err := g.try(t.Context(), method, path, key, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (g *gate) try(ctx context.Context, method, path, key, body string, header ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, g.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := g.Client().Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// metric reads one series as a scrape would see it; one that is not there is zero.
func (g *gate) metric(t testing.TB, series string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	g.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("the scrape got %d %s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func (g *gate) requests(t testing.TB, o Outcome) float64 {
	t.Helper()
	return g.metric(t, fmt.Sprintf(`fifty_requests_total{outcome=%q,route="/"}`, string(o)))
}

// upstream counts what reaches it and keeps the last request.
type upstream struct {
	*httptest.Server
	effects atomic.Int64
	last    atomic.Pointer[http.Request]
}

// startUpstream answers each request as reply does, after counting one that changes something.
func startUpstream(t testing.TB, reply http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !isSafe(r.Method) {
			u.effects.Add(1)
		}
		u.last.Store(r)
		reply(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/charges/1")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "charged")
}

// hangUp closes the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func wantEffects(t testing.TB, u *upstream, want int64) {
	t.Helper()
	if got := u.effects.Load(); got != want {
		t.Errorf("%d effects upstream, want %d", got, want)
	}
}

func wantProblem(t testing.TB, a answer, status int, name string) {
	t.Helper()
	if a.status != status || a.problem() != name {
		t.Errorf("got %d %q %s, want %d %s", a.status, a.problem(), a.body, status, name)
	}
}

// failing is a store whose calls can be made to fail.
type failing struct {
	idempotency.Store
	claims, completions, steps atomic.Bool
}

var errStore = errors.New("the store is down")

func (f *failing) Claim(ctx context.Context, a []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if f.claims.Load() {
		return nil, errStore
	}
	return f.Store.Claim(ctx, a)
}

func (f *failing) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	if f.steps.Load() {
		return errStore
	}
	return f.Store.SaveStep(ctx, c, step)
}

func (f *failing) Complete(ctx context.Context, c []idempotency.Completion) ([]error, error) {
	if f.completions.Load() {
		return nil, errStore
	}
	return f.Store.Complete(ctx, c)
}
