package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/store/memory"
)

func TestASecondRequestGetsTheFirstAnswerAndMakesNoEffect(t *testing.T) {
	up := startUpstream(t, created)
	g := startGate(t, up.URL, nil)
	first := g.send(t, http.MethodPost, "/charges?a=1&b", "k1", "{}")
	second := g.send(t, http.MethodPost, "/charges?a=1&b", "k1", "{}")
	if first.status != http.StatusCreated || first.body != "charged" || first.replayed() {
		t.Errorf("the first got %+v", first)
	}
	if second.status != http.StatusCreated || second.body != "charged" || !second.replayed() || second.header.Get("Location") != "/charges/1" {
		t.Errorf("the second got %+v", second)
	}
	wantProblem(t, g.send(t, http.MethodPost, "/charges?a=2", "k1", "{}"), http.StatusUnprocessableEntity, "mismatch")
	wantProblem(t, g.send(t, http.MethodPost, "/charges", "", "{}"), http.StatusBadRequest, "key-missing")
	wantEffects(t, up, 1)
	if q := up.last.Load().URL.RawQuery; q != "a=1&b" {
		t.Errorf("the upstream saw the query %q", q)
	}
}

func TestManyAtOnceMakeOneEffect(t *testing.T) {
	arrived, answerNow := make(chan struct{}), make(chan struct{})
	up := startUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived) // twice would panic, and break the answer
		<-answerNow
		created(w, r)
	})
	g := startGate(t, up.URL, nil)
	first := make(chan answer, 1)
	go func() {
		a, err := g.try(t.Context(), http.MethodPost, "/charges", "k1", "{}")
		if err != nil {
			t.Error(err)
		}
		first <- a
	}()
	<-arrived
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			a, err := g.try(t.Context(), http.MethodPost, "/charges", "k1", "{}")
			if err != nil || a.status != http.StatusConflict || a.problem() != "in-flight" || a.header.Get("Retry-After") == "" {
				t.Errorf("a duplicate got %+v, %v", a, err)
			}
		})
	}
	group.Wait()
	if n := g.gateway.Running(); n != 1 {
		t.Errorf("%d requests are at work, want 1", n)
	}
	close(answerNow)
	if a := <-first; a.status != http.StatusCreated {
		t.Errorf("the first got %+v", a)
	}
	if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); !a.replayed() {
		t.Errorf("a later one got %+v", a)
	}
	wantEffects(t, up, 1)
}

// TestAnUpstreamThatMayHaveActedIsNeverAskedAgain: whatever goes wrong after the request was sent, its key
// is held, and the first caller is told what is known.
func TestAnUpstreamThatMayHaveActedIsNeverAskedAgain(t *testing.T) {
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name    string
		reply   http.HandlerFunc
		body    string
		status  int
		problem string
	}{
		{"no answer", hangUp, "{}", http.StatusServiceUnavailable, "unknown"},
		{"no answer to an empty body", hangUp, "", http.StatusServiceUnavailable, "unknown"},
		{"half an answer", half, "{}", http.StatusServiceUnavailable, "unknown"},
		{"an answer that takes too long", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "{}", http.StatusServiceUnavailable, "unknown"},
		{"its own failure", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusInternalServerError) }, "{}", http.StatusInternalServerError, ""},
		{"a gateway's failure behind it", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "{}", http.StatusBadGateway, ""},
		{"a switch of protocols", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}, "{}", http.StatusServiceUnavailable, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := startUpstream(t, c.reply)
			g := startGate(t, up.URL, func(r *Route) {
				if c.name == "an answer that takes too long" {
					r.Timeout = 50 * time.Millisecond
				}
			})
			wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", c.body), c.status, c.problem)
			for range 2 {
				wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", c.body), http.StatusConflict, "unresolved")
			}
			wantEffects(t, up, 1)
			if n := len(g.log.access()); n != 3 {
				t.Errorf("%d access lines, want one for each of the 3 requests", n)
			}
		})
	}
}

// TestAStreamedAnswerThatBreaksOffIsHeld: the client has a part of it already, so all that can be done is to
// break off its connection too.
func TestAStreamedAnswerThatBreaksOffIsHeld(t *testing.T) {
	for _, contentType := range []string{"text/plain", "text/event-stream"} {
		t.Run(contentType, func(t *testing.T) {
			up := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType)
				_, _ = io.WriteString(w, strings.Repeat("part ", 1000))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			g := startGate(t, up.URL, func(r *Route) { r.ResponseMax = 100 })
			if a, err := g.try(t.Context(), http.MethodPost, "/", "k1", ""); err == nil {
				t.Errorf("half an answer looks whole: %d, %d bytes", a.status, len(a.body))
			}
			wantProblem(t, g.send(t, http.MethodPost, "/", "k1", ""), http.StatusConflict, "unresolved")
			wantEffects(t, up, 1)
		})
	}
}

func TestAnAnswerThatIsTooLargeToKeepIsGivenOnce(t *testing.T) {
	large := strings.Repeat("x", 101)
	up := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
	g := startGate(t, up.URL, func(r *Route) { r.ResponseMax = 100 })
	if a := g.send(t, http.MethodPost, "/", "k1", ""); a.status != http.StatusOK || a.body != large {
		t.Errorf("the first got %d and %d bytes", a.status, len(a.body))
	}
	wantProblem(t, g.send(t, http.MethodPost, "/", "k1", ""), http.StatusConflict, "not-replayable")
	wantEffects(t, up, 1)
}

// TestAnAnswerInChunksIsKept: a length that was not declared is no reason to stream.
func TestAnAnswerInChunksIsKept(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "chunk ")
			_ = http.NewResponseController(w).Flush()
		}
	})
	g := startGate(t, up.URL, nil)
	first, second := g.send(t, http.MethodPost, "/", "k1", ""), g.send(t, http.MethodPost, "/", "k1", "")
	if first.body != "chunk chunk chunk " || second.body != first.body || !second.replayed() {
		t.Errorf("got %+v, then %+v", first, second)
	}
}

func TestAClientThatLeavesStopsNothing(t *testing.T) {
	up := startWorking(t)
	g := startGate(t, up.URL, nil)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := g.try(ctx, http.MethodPost, "/charges", "k1", "{}")
		left <- err
	}()
	<-up.arrived
	leave()
	if err := <-left; err == nil {
		t.Fatal("the client got an answer after all")
	}
	wantProblem(t, g.send(t, http.MethodPost, "/charges", "k1", "{}"), http.StatusConflict, "in-flight")
	close(up.finish)
	eventually(t, "a retry gets the answer of the work that went on", func() bool {
		a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
		return a.status == http.StatusCreated && a.replayed()
	})
	wantEffects(t, up.upstream, 1)
}

func TestAnUpstreamThatCanNotBeDialledLeavesTheKeyFree(t *testing.T) {
	up := startUpstream(t, created)
	address := up.Listener.Addr().String()
	up.Close()
	g := startGate(t, "http://"+address, nil)
	for range 2 {
		a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
		wantProblem(t, a, http.StatusBadGateway, "upstream-unreachable")
		if a.header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
	}
	wantProblem(t, g.send(t, http.MethodGet, "/charges", "", ""), http.StatusBadGateway, "upstream-unreachable")
	if n := g.requests(t, Freed); n != 2 {
		t.Errorf("%v requests are counted as freed, want 2", n)
	}
	if n := g.metric(t, `fifty_upstream_failures_total{kind="dial",route="/"}`); n != 2 {
		t.Errorf("%v failed dials are counted, want 2", n)
	}
}

func TestAnswersAreKeptByTheirStatus(t *testing.T) {
	for status, again := range map[int]Outcome{
		200: Replayed, 204: Replayed, 303: Replayed, 400: Replayed, 402: Replayed, 404: Replayed, 409: Replayed, 422: Replayed,
		401: Executed, 408: Executed, 425: Executed, 429: Executed,
		500: Unresolved, 503: Unresolved,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var replies atomic.Int64
			up := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				if replies.Add(1) == 1 {
					w.WriteHeader(status)
				}
			})
			g := startGate(t, up.URL, nil)
			g.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			if a := g.send(t, http.MethodPost, "/", "k", ""); a.status != status {
				t.Errorf("the first got %d", a.status)
			}
			g.send(t, http.MethodPost, "/", "k", "")
			if n := g.requests(t, again); n != 1 {
				t.Errorf("the second was not %s; the log: %v", again, g.log.access())
			}
		})
	}
}

func TestWithoutTheStoreNothingIsRun(t *testing.T) {
	up := startUpstream(t, created)
	keys := &failing{Store: memory.New(memory.Config{}).Keys()}
	keys.claims.Store(true)
	g := startGateOn(t, up.URL, keys, nil)
	if a := g.send(t, http.MethodGet, "/charges", "", ""); a.status != http.StatusCreated {
		t.Errorf("a read, which needs no store, got %+v", a)
	}
	a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
	wantProblem(t, a, http.StatusServiceUnavailable, "store-unavailable")
	wantEffects(t, up, 0)
	keys.claims.Store(false)
	if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusCreated {
		t.Errorf("once the store is back: %+v", a)
	}
}

// TestAnAnswerThatCanNotBeKeptIsWithheld is H9.
func TestAnAnswerThatCanNotBeKeptIsWithheld(t *testing.T) {
	up := startUpstream(t, created)
	keys := &failing{Store: memory.New(memory.Config{}).Keys()}
	g := startGateOn(t, up.URL, keys, nil)
	keys.completions.Store(true)
	a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
	wantProblem(t, a, http.StatusServiceUnavailable, "unknown")
	if strings.Contains(a.body, "charged") {
		t.Errorf("the answer left before it was kept: %s", a.body)
	}
	keys.completions.Store(false)
	if a := g.send(t, http.MethodPost, "/charges", "k1", "{}"); a.status != http.StatusConflict {
		t.Errorf("a retry got %+v", a)
	}
	wantEffects(t, up, 1)
	if n := g.metric(t, `fifty_events_total{event="idempotency.completion_failed"}`); n != 1 {
		t.Errorf("%v failed completions are counted, want 1", n)
	}
}

func TestWhatIsNotProtectedPassesAndIsCounted(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+" "+r.URL.Path) })
	g := startGate(t, up.URL+"/base", func(r *Route) { r.Key = KeyOptional })
	for _, c := range []struct {
		method, key, body string
		outcome           Outcome
		reason            string
	}{
		{http.MethodGet, "", "GET /base/x", Passed, ""},
		{http.MethodGet, "k", "GET /base/x", Passed, ""},
		{http.MethodPut, "k", "PUT /base/x", Unprotected, reasonMethod},
		{http.MethodDelete, "", "DELETE /base/x", Unprotected, reasonMethod},
		{http.MethodPost, "", "POST /base/x", Unprotected, reasonNoKey},
	} {
		before := g.requests(t, c.outcome)
		unprotected := fmt.Sprintf(`fifty_unprotected_total{reason=%q,route="/"}`, c.reason)
		var reason float64
		if c.reason != "" {
			reason = g.metric(t, unprotected)
		}
		for range 2 {
			if a := g.send(t, c.method, "/x", c.key, ""); a.body != c.body || a.replayed() {
				t.Errorf("%s with key %q got %+v", c.method, c.key, a)
			}
		}
		if n := g.requests(t, c.outcome) - before; n != 2 {
			t.Errorf("%s with key %q counts %v times as %s, want 2", c.method, c.key, n, c.outcome)
		}
		if c.reason != "" && g.metric(t, unprotected)-reason != 2 {
			t.Errorf("%s with key %q is not counted as unprotected because of %s", c.method, c.key, c.reason)
		}
	}
	if a := g.send(t, http.MethodPost, "/x", " ", ""); a.problem() != "key-invalid" {
		t.Errorf("an empty key is not the same as none, and got %+v", a)
	}
}

func TestAPathWithoutARouteIsRefused(t *testing.T) {
	up := startUpstream(t, created)
	g := startGate(t, up.URL, func(r *Route) { r.Path = "/charges" })
	wantProblem(t, g.send(t, http.MethodPost, "/refunds", "k", ""), http.StatusNotFound, "no-route")
	wantProblem(t, g.send(t, http.MethodPost, "/charges/", "k", ""), http.StatusNotFound, "no-route")
	wantEffects(t, up, 0)
}

func TestTwoCallersWithOneKeyAreTwoIntents(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("Authorization")) })
	g := startGate(t, up.URL, func(r *Route) { r.Scope = ScopeRule{Kind: ScopeCredential, Header: "Authorization"} })
	for _, who := range []string{"Bearer alice", "Bearer bob"} {
		for range 2 {
			if a := g.send(t, http.MethodPost, "/charges", "k1", "{}", "Authorization", who); a.body != who {
				t.Errorf("%s got the answer of %s", who, a.body)
			}
		}
	}
	wantEffects(t, up, 2)
	a := g.send(t, http.MethodPost, "/charges", "k1", "{}")
	wantProblem(t, a, http.StatusUnauthorized, "scope-missing")
	if !strings.Contains(a.body, "Authorization") {
		t.Errorf("it does not say what is missing: %s", a.body)
	}
	if text := g.log.all.String(); strings.Contains(text, "alice") || strings.Contains(text, "bob") {
		t.Errorf("a credential is in the log:\n%s", text)
	}
}

func TestTheUpstreamSeesWhereARequestComesFrom(t *testing.T) {
	up := startUpstream(t, created)
	g := startGate(t, up.URL, nil)
	g.send(t, http.MethodPost, "/a%2Fb/c", "k1", "{}",
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "X-Other", "kept", "Expect", "100-continue")
	r := up.last.Load()
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": strings.TrimPrefix(g.URL, "http://"), "X-Forwarded-Proto": "http",
		"X-Other": "kept", "Expect": "", "Connection": "close",
	} {
		if got := r.Header.Get(name); got != want && name != "Connection" {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !r.Close {
		t.Error("the upstream is not told that no request follows on this connection")
	}
	if r.URL.EscapedPath() != "/a%2Fb/c" || r.Host != strings.TrimPrefix(up.URL, "http://") {
		t.Errorf("the upstream saw %s on %s", r.URL.EscapedPath(), r.Host)
	}
}

// TestAProtocolSwitchPassesOnOtherMethods: a web socket, say, works through the gateway.
func TestAProtocolSwitchPassesOnOtherMethods(t *testing.T) {
	up := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, in, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		line, _ := in.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		_ = conn.Close()
	})
	g := startGate(t, up.URL, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := g.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	both, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %d and a %T", resp.StatusCode, resp.Body)
	}
	if _, err := io.WriteString(both, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(both); err != nil || string(text) != "hello\n" {
		t.Errorf("got %q, %v", text, err)
	}
}
