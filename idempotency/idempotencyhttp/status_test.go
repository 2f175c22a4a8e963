package idempotencyhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// newStatusSite has a status path beside its handler.
func newStatusSite(t *testing.T, cfg idempotencyhttp.Config, h http.HandlerFunc) *site {
	t.Helper()
	cfg.Status = func(req idempotency.Request) string { return idempotencyhttp.StatusPath("/status/", req.Key) }
	s := newSite(t, cfg, h)
	mux := http.NewServeMux()
	mux.Handle("/charges", s.Handler)
	mux.Handle("/status/{key}", idempotencyhttp.StatusHandler(s.keys, s.cfg, func(r *http.Request) string { return r.PathValue("key") }))
	s.Handler = mux
	return s
}

func (s *site) status(path, account string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if account != "" {
		r.Header.Set("Authorization", "Bearer "+account)
	}
	return s.do(r)
}

func wantNoStore(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q: a cache may keep it for others", got)
	}
}

func TestADuplicateIsAcceptedAndToldWhereToLook(t *testing.T) {
	arrived, finish := make(chan struct{}), make(chan struct{})
	s := newStatusSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-finish
		w.Header().Set("Cache-Control", "public, max-age=3600")
		charge(w, r)
	})
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- s.do(post("a b/c", "{}")) }()
	<-arrived

	w := s.do(post("a b/c", "{}"))
	path := w.Header().Get("Location")
	if p := wantProblemIn(t, w, "in-flight", 202); path != "/status/a%20b%2Fc" || w.Header().Get("Retry-After") != "1" || p.Key != "a b/c" {
		t.Fatalf("got %v %+v", w.Header(), p)
	}
	wantProblemIn(t, s.do(post("a b/c", `{"other":1}`)), "mismatch", 422)
	w = s.status(path, "acme")
	wantProblemIn(t, w, "in-flight", 202)
	wantNoStore(t, w)
	if w.Header().Get("Retry-After") != "1" {
		t.Errorf("header %v", w.Header())
	}
	wantProblemIn(t, s.status(path, "mallory"), "not-found", 404)
	wantProblemIn(t, s.status(path, ""), "scope-missing", 401)

	close(finish)
	wantFirst(t, <-first, 201, `{"id":"ch_1"}`)
	w = s.status(path, "acme")
	wantReplay(t, w, 201, `{"id":"ch_1"}`)
	wantNoStore(t, w)
	s.wantRuns(1)
}

// TestAnotherCallersKeyLooksLikeOneThatNobodyUsed: to the byte, but for the key that the caller itself named.
func TestAnotherCallersKeyLooksLikeOneThatNobodyUsed(t *testing.T) {
	s := newStatusSite(t, idempotencyhttp.Config{}, charge)
	s.do(post("k", "{}"))
	theirs, nobodys := s.status("/status/k", "mallory"), s.status("/status/k", "nobody")
	wantProblemIn(t, theirs, "not-found", 404)
	if theirs.Body.String() != nobodys.Body.String() {
		t.Errorf("they differ:\n%s\n%s", theirs.Body, nobodys.Body)
	}
	wantReplay(t, s.status("/status/k", "acme"), 201, `{"id":"ch_1"}`)
}

func TestAStatusForEachWayInWhichARequestCanStand(t *testing.T) {
	status := http.StatusInternalServerError
	for _, c := range []struct {
		name, problem string
		status, want  int
		steps         bool
	}{
		{"nothing was done", "not-found", http.StatusTooManyRequests, 404, false},
		{"held", "unresolved", http.StatusInternalServerError, 409, false},
		{"broken off in steps", "unknown", http.StatusInternalServerError, 503, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			status = c.status
			s := newStatusSite(t, idempotencyhttp.Config{Steps: c.steps}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			s.do(post("k", "{}"))
			wantProblemIn(t, s.status("/status/k", "acme"), c.problem, c.want)
		})
	}
	s := newStatusSite(t, idempotencyhttp.Config{ResponseMax: 3}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "long answer") })
	wantProblemIn(t, s.status("/status/k", "acme"), "not-found", 404)
	s.do(post("k", "{}"))
	wantProblemIn(t, s.status("/status/k", "acme"), "not-replayable", 409)
	wantProblemIn(t, s.status("/status/caf%C3%A9", "acme"), "not-found", 404)

	r := httptest.NewRequest(http.MethodPost, "/status/k", nil)
	w := s.do(r)
	wantProblemIn(t, w, "method-not-allowed", 405)
	if w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", w.Header().Get("Allow"))
	}
	s.store.find = func() (idempotency.Record, error) { return idempotency.Record{}, errDown }
	wantProblemIn(t, s.status("/status/k", "acme"), "store-unavailable", 503)
	s.wantRuns(1)
}

func TestAnAnswerOfAnotherRingIsNeitherReplayedNorRunAgain(t *testing.T) {
	s := newStatusSite(t, idempotencyhttp.Config{}, charge)
	s.store.find = func() (idempotency.Record, error) {
		return idempotency.Record{Request: idempotency.Request{Scope: "acme", Key: "k", Fingerprint: "x1"}, State: idempotency.Done, Response: idempotency.Response{
			Status: 201, Header: map[string][]string{":sealed-under": {"2025"}}, Body: []byte("x"),
		}}, nil
	}
	p := wantProblemIn(t, s.status("/status/k", "acme"), "answer-sealed", 503)
	if want := `sealed with the key "2025"`; !strings.Contains(p.Detail, want) {
		t.Errorf("it says %q, want %q in it", p.Detail, want)
	}
}

// TestEachKeyComesBackFromItsPath: over a real connection, whose ends clean paths.
func TestEachKeyComesBackFromItsPath(t *testing.T) {
	got := make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{key}", func(_ http.ResponseWriter, r *http.Request) { got <- r.PathValue("key") })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	if path := idempotencyhttp.StatusPath("/status/", "/"); path != "" {
		t.Errorf("the key / has the path %q, where it would not be found", path)
	}
	for _, key := range []string{"k", ".", "..", "...", "../..", "a//b", "//", "/a", "a/", "%2e", "a b", "?q=1", "#x", `"`, "a;b", "+"} {
		resp, err := srv.Client().Get(srv.URL + idempotencyhttp.StatusPath("/status/", key))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		select {
		case back := <-got:
			if back != key {
				t.Errorf("%q came back as %q", key, back)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%q did not come back: %d", key, resp.StatusCode)
		}
	}
}
