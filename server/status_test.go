package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// asking counts the claims.
type asking struct {
	idempotency.Store
	claims atomic.Int64
}

func (a *asking) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	claimed, err := a.Store.Claim(ctx, attempts)
	a.claims.Add(1)
	return claimed, err
}

// startBusy has one request of caller alice at work, on a route with duplicate: rule.
func startBusy(t *testing.T, rule DuplicateRule, endpoint bool) (g *gate, up *working, asked *asking, first <-chan answer) {
	t.Helper()
	up = startWorking(t)
	asked = &asking{Store: memory.New(memory.Config{}).Keys()}
	g = startGateOn(t, up.URL, asked, func(r *Route) {
		r.Duplicate = rule
		r.Scope = ScopeRule{Kind: ScopeHeader, Header: "X-Account", WithEndpoint: endpoint}
	})
	got := make(chan answer, 1)
	go func() {
		a, err := g.try(t.Context(), http.MethodPatch, "/charges", "k 1", "{}", "X-Account", "alice")
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	<-up.arrived
	return g, up, asked, got
}

func TestADuplicateThatIsAcceptedFindsTheAnswerAtItsStatusPath(t *testing.T) {
	for _, endpoint := range []bool{false, true} {
		g, up, _, first := startBusy(t, DuplicateAccepted, endpoint)
		a := g.send(t, http.MethodPatch, "/charges", "k 1", "{}", "X-Account", "alice")
		path := a.header.Get("Location")
		wantProblem(t, a, http.StatusAccepted, "in-flight")
		if !strings.HasPrefix(path, "/_fifty/status/k%201?") || a.header.Get("Retry-After") == "" {
			t.Fatalf("got %+v", a)
		}
		status := func(account string) answer { return g.send(t, http.MethodGet, path, "", "", "X-Account", account) }
		wantProblem(t, status("alice"), http.StatusAccepted, "in-flight")
		// Another tenant learns nothing, whatever it claims in the query.
		wantProblem(t, status("mallory"), http.StatusNotFound, "not-found")
		wantProblem(t, g.send(t, http.MethodGet, path+"&scope=alice&X-Account=alice", "", "", "X-Account", "mallory"), http.StatusNotFound, "not-found")
		wantProblem(t, g.send(t, http.MethodGet, path, "", ""), http.StatusUnauthorized, "scope-missing")
		wantProblem(t, g.send(t, http.MethodGet, path, "", "", "X-Account", "alice", "X-Account", "mallory"), http.StatusUnauthorized, "scope-missing")
		close(up.finish)
		if a := <-first; a.status != http.StatusCreated {
			t.Errorf("the first got %+v", a)
		}
		if a := status("alice"); a.status != http.StatusCreated || a.body != "charged" || !a.replayed() || a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the status is %+v", a)
		}
		wantProblem(t, status("mallory"), http.StatusNotFound, "not-found")
		wantProblem(t, g.send(t, http.MethodPost, path, "", "", "X-Account", "alice"), http.StatusMethodNotAllowed, "method-not-allowed")
		wantEffects(t, up.upstream, 1)
	}
}

// TestAStatusPathNamesItsRoute: the routes' scopes differ, and one is not asked about the other's keys.
func TestAStatusPathNamesItsRoute(t *testing.T) {
	up := startUpstream(t, created)
	cfg, err := ProxyConfig(up.URL, ScopeRule{Kind: ScopeConstant, Constant: "all"})
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := cfg.Routes[0], cfg.Routes[0], cfg.Routes[0]
	one.Path, one.Duplicate = "/one", DuplicateAccepted
	two.Path, two.Duplicate, two.Scope = "/two", DuplicateAccepted, ScopeRule{Kind: ScopeHeader, Header: "X-Account"}
	three.Path = "/three"
	g := serveGate(t, NewGateway(Config{Routes: []Route{one, two, three}}, GatewayConfig{Keys: memory.New(memory.Config{}).Keys(), Log: slog.New(slog.DiscardHandler)}))
	g.send(t, http.MethodPost, "/one", "k1", "")
	for query, want := range map[string]string{"": "no-route", "?route=/three": "no-route", "?route=/absent": "no-route", "?route=/two": "scope-missing"} {
		if a := g.send(t, http.MethodGet, "/_fifty/status/k1"+query, "", ""); a.problem() != want {
			t.Errorf("%q got %+v, want %s", query, a, want)
		}
	}
	wantProblem(t, g.send(t, http.MethodGet, "/_fifty/status/k1?route=/two", "", "", "X-Account", "all"), http.StatusNotFound, "not-found")
	if a := g.send(t, http.MethodGet, "/_fifty/status/k1?route=/one", "", ""); a.status != http.StatusCreated || !a.replayed() {
		t.Errorf("got %+v", a)
	}
}

func TestWithoutAnAcceptedRouteTheStatusPathIsAnyOther(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
	g := startGate(t, up.URL, nil)
	if a := g.send(t, http.MethodGet, "/_fifty/status/k1", "", ""); a.body != "/_fifty/status/k1" {
		t.Errorf("got %+v", a)
	}
}

func TestADuplicateThatWaitsGetsTheAnswer(t *testing.T) {
	g, up, asked, first := startBusy(t, DuplicateWait, false)
	second := make(chan answer, 1)
	go func() {
		a, err := g.try(t.Context(), http.MethodPatch, "/charges", "k 1", "{}", "X-Account", "alice")
		if err != nil {
			t.Error(err)
		}
		second <- a
	}()
	eventually(t, "it has asked for its key and waits", func() bool { return asked.claims.Load() > 1 })
	if n := len(second); n != 0 {
		t.Fatal("it did not wait")
	}
	close(up.finish)
	<-first
	if a := <-second; a.status != http.StatusCreated || !a.replayed() {
		t.Errorf("got %+v", a)
	}
	wantEffects(t, up.upstream, 1)
}

func TestOnlyTheListedHeadersAreReplayed(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Trace", "t1")
		w.Header().Set("Content-Type", "text/plain")
		created(w, r)
	})
	g := startGate(t, up.URL, func(r *Route) { r.Headers = []string{"Location"} })
	first, second := g.send(t, http.MethodPost, "/", "k1", ""), g.send(t, http.MethodPost, "/", "k1", "")
	if first.header.Get("X-Trace") != "t1" || second.header.Get("X-Trace") != "" || second.header.Get("Location") != "/charges/1" || second.header.Get("Content-Type") != "text/plain" {
		t.Errorf("got %+v, then %+v", first, second)
	}
}
