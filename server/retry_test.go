package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// clock is a store's, moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func retrying(r *Route) { r.Unknown, r.UpstreamWindow = UnknownRetry, time.Hour }

// deduping is an upstream that knows a repeat by its key, and fails as often as it is told, after the effect.
type deduping struct {
	*upstream
	mu      sync.Mutex
	effects map[string]int // by key, as it is spelt
	keys    []string
	faults  []http.HandlerFunc
}

func startDeduping(t testing.TB, faults ...http.HandlerFunc) *deduping {
	t.Helper()
	d := &deduping{effects: map[string]int{}, faults: faults}
	d.upstream = startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		key := strings.Join(r.Header.Values("Idempotency-Key"), " and ")
		d.keys = append(d.keys, key)
		if d.effects[key] == 0 {
			d.effects[key] = 1
		}
		var fault http.HandlerFunc
		if len(d.faults) > 0 {
			fault, d.faults = d.faults[0], d.faults[1:]
		}
		d.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		created(w, r)
	})
	return d
}

// wantOneEffect wants n requests to have come, all under one key.
func (d *deduping) wantOneEffect(t testing.TB, n int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.effects) != 1 || len(d.keys) != n {
		t.Errorf("%d requests made %d effects under the keys %q, want %d requests under one key", len(d.keys), len(d.effects), d.keys, n)
	}
}

func failed(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "oops", http.StatusInternalServerError)
}

// TestARetryRouteSendsAgainUnderTheFirstKey: whatever went wrong after the effect, and however the client spells
// its key the next time, the upstream sees one key, and the request ends with the answer.
func TestARetryRouteSendsAgainUnderTheFirstKey(t *testing.T) {
	for _, rule := range []ForwardKey{ForwardRaw, ForwardDerived} {
		t.Run(string(rule), func(t *testing.T) {
			up := startDeduping(t, failed, hangUp)
			g := startGate(t, up.URL, func(r *Route) { retrying(r); r.ForwardKey = rule })
			if a := g.send(t, http.MethodPost, "/charges", `"k1"`, "{}"); a.status != http.StatusInternalServerError || a.body != "oops\n" {
				t.Errorf("the first got %+v", a)
			}
			a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
			wantProblem(t, a, http.StatusServiceUnavailable, "unknown")
			if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "Send the same request with the same key again") {
				t.Errorf("it is not told to send again: %+v", a)
			}
			wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", `{"other":1}`), http.StatusUnprocessableEntity, "mismatch")
			if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated || a.replayed() {
				t.Errorf("the third got %+v", a)
			}
			if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated || !a.replayed() {
				t.Errorf("the fourth got %+v", a)
			}
			up.wantOneEffect(t, 3)
			if n := g.requests(t, LetGo); n != 2 {
				t.Errorf("%v requests are counted as let go, want 2", n)
			}
		})
	}
}

// TestPastTheUpstreamsWindowARetryIsHeld: the upstream may have forgotten the key, so what it got is never sent
// again (H8). A key under which nothing was ever sent has no window.
func TestPastTheUpstreamsWindowARetryIsHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		wait   time.Duration
		status int
		sent   int
	}{
		{"within it", 59 * time.Minute, http.StatusCreated, 2},
		{"at its end", time.Hour, http.StatusConflict, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := newClock()
			keys := memory.New(memory.Config{Now: at.Now}).Keys()
			up := startDeduping(t, failed)
			g := startGateOn(t, up.URL, keys, retrying)
			g.send(t, http.MethodPost, "/charges", "k1", "{}")
			at.advance(c.wait)
			a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
			if a.status != c.status {
				t.Errorf("got %+v, want %d", a, c.status)
			}
			up.wantOneEffect(t, c.sent)
			if c.status == http.StatusCreated {
				return
			}
			for range 2 {
				wantProblem(t, a, http.StatusConflict, "unresolved")
				a = g.send(t, http.MethodPost, "/charges", "k1", "{}")
			}
			up.wantOneEffect(t, c.sent)
			if n := g.metric(t, `fifty_upstream_failures_total{kind="late",route="/"}`); n != 1 {
				t.Errorf("%v late ones are counted", n)
			}
			held, err := idempotency.NewOperator(keys).List(t.Context(), idempotency.Filter{Unresolved: true})
			if err != nil || len(held) != 1 || held[0].State != idempotency.Unknown || !slices.Equal(SentKey(held[0]), []string{"k1"}) {
				t.Errorf("an operator sees %+v, %v", held, err)
			}
		})
	}
}

func TestAnUpstreamThatComesBackLateIsStillSentWhatItNeverGot(t *testing.T) {
	at := newClock()
	up := startDeduping(t)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	keys := memory.New(memory.Config{Now: at.Now}).Keys()
	wantProblem(t, startGateOn(t, down.URL, keys, retrying).send(t, http.MethodPost, "/charges", "k1", "{}"), http.StatusBadGateway, "upstream-unreachable")
	at.advance(2 * time.Hour)
	if a := startGateOn(t, up.URL, keys, retrying).send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated {
		t.Errorf("got %+v", a)
	}
	up.wantOneEffect(t, 1)
}

// TestAConflictOfARepeatIsNotTheAnswer: it may say that the first attempt is still at work over there.
func TestAConflictOfARepeatIsNotTheAnswer(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusConflict) }
	up := startDeduping(t, failed, busy)
	g := startGate(t, up.URL, retrying)
	for _, want := range []int{500, 409, 201, 201} {
		if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != want {
			t.Errorf("got %+v, want %d", a, want)
		}
	}
	up.wantOneEffect(t, 3)

	first := startDeduping(t, busy)
	g = startGate(t, first.URL, retrying)
	for range 2 {
		if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusConflict || a.body != "busy\n" {
			t.Errorf("a refusal of the first one got %+v", a)
		}
	}
	first.wantOneEffect(t, 1)
}

func TestNothingIsSentThatCouldNotBeWrittenDown(t *testing.T) {
	up := startDeduping(t)
	store := &failing{Store: memory.New(memory.Config{}).Keys()}
	store.steps.Store(true)
	g := startGateOn(t, up.URL, store, retrying)
	wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", "{}"), http.StatusServiceUnavailable, "store-unavailable")
	if len(up.keys) != 0 {
		t.Errorf("%d requests were sent", len(up.keys))
	}
	store.steps.Store(false)
	if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated {
		t.Errorf("got %+v", a)
	}
	up.wantOneEffect(t, 1)
}

// TestTwentyKeysMakeTwentyEffectsInFrontOfAFaultyUpstream: it dedups, answers 500 or hangs up after the effect, and its
// clients, two for each key, send until they have an answer.
func TestTwentyKeysMakeTwentyEffectsInFrontOfAFaultyUpstream(t *testing.T) {
	faults := []http.HandlerFunc{failed, nil, hangUp, failed, nil, nil, hangUp, hangUp, nil, failed}
	up := startDeduping(t, slices.Concat(faults, faults, faults)...)
	g := startGate(t, up.URL, func(r *Route) { retrying(r); r.Duplicate = DuplicateWait })
	const keys, triesMax = 20, 200
	var group sync.WaitGroup
	for i := range 2 * keys {
		group.Go(func() {
			for range triesMax {
				a, err := g.try(t.Context(), http.MethodPost, "/charges", fmt.Sprintf("k%d", i%keys), "{}")
				if err == nil && a.status == http.StatusCreated {
					return
				}
			}
			t.Errorf("client %d got no answer in %d tries", i, triesMax)
		})
	}
	group.Wait()
	up.mu.Lock()
	defer up.mu.Unlock()
	if len(up.effects) != keys || len(up.keys) <= keys {
		t.Errorf("%d requests made %d effects, want %d and some repeats", len(up.keys), len(up.effects), keys)
	}
}
