package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

// routedUpstream is the upstream of one route of FuzzConfigRoutes.
type routedUpstream struct {
	*httptest.Server
	name string
	hits int // the gateway's requests come one after the other
}

func startRouted(f *testing.F, name string) *routedUpstream {
	u := &routedUpstream{name: name}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		u.hits++
		_, _ = fmt.Fprintf(w, "%s %d", name, u.hits)
	}))
	f.Cleanup(u.Close)
	return u
}

// FuzzConfigRoutes: two routes are refused with the place and the reason, or each request goes to the one that
// Go's ServeMux would choose, and to no other: a keyed one without a key to none, and with one just once.
func FuzzConfigRoutes(f *testing.F) {
	one, two := startRouted(f, "one"), startRouted(f, "two")
	for _, seed := range []struct{ first, second, methods, method, path string }{
		{"/", "/charges", "POST", "POST", "/charges"},
		{"/charges/{id}", "/charges/{rest...}", "[PUT, PATCH]", "PUT", "/charges/1/2"},
		{"/a", "/a", "POST", "POST", "/a"},
		{"/a/", "/a", "[]", "GET", "/a/b"},
		{"/{x}/b", "/a/{y}", "POST", "POST", "/a/b"},
		{"POST /a", "host/a", "GET", "GET", "/a"},
		{"/%61", "/é", "post", "POST", "/a"},
		{"/a/../b", "//", "\"*\"", "DELETE", "/a/../b"},
		{"/.fifty/", "/{$}", "POST", "POST", "/.fifty/keys"},
		{"{", "", "1", "POST", "/"},
	} {
		f.Add(seed.first, seed.second, seed.methods, seed.method, seed.path)
	}
	f.Fuzz(func(t *testing.T, first, second, methods, method, path string) {
		text := fmt.Sprintf("routes:\n- path: %q\n  methods: %s\n  upstream: %s\n  scope: {constant: all}\n- path: %q\n  upstream: %s\n  scope: {constant: all}\n",
			first, methods, one.URL, second, two.URL)
		cfg, err := ParseConfig("fifty.yaml", []byte(text))
		if err != nil {
			if faults, ok := errors.AsType[*ConfigError](err); !ok || len(faults.Faults) == 0 {
				t.Fatalf("an error without faults: %v", err)
			}
			return
		}
		target, err := url.Parse("http://gateway" + path)
		if err != nil || !strings.HasPrefix(path, "/") || len(cfg.Routes) != 2 {
			return
		}
		g := NewGateway(cfg, GatewayConfig{Keys: memory.New(memory.Config{}).Keys(), Log: slog.New(slog.DiscardHandler)})
		defer g.Close()
		r := &routedRun{t: t, g: g, cfg: cfg, target: target, upstreams: map[string]*routedUpstream{one.URL: one, two.URL: two}}
		usual := []string{http.MethodGet, http.MethodPost, http.MethodPut}
		for _, m := range usual {
			r.check(m)
		}
		if !slices.Contains(usual, method) {
			r.check(method)
		}
	})
}

type routedRun struct {
	t         *testing.T
	g         *Gateway
	cfg       Config
	target    *url.URL
	upstreams map[string]*routedUpstream // by URL
}

// send sends one request and says how often each upstream was reached.
func (r *routedRun) send(method, key string) (w *httptest.ResponseRecorder, hits map[string]int) {
	hits = map[string]int{}
	for name, u := range r.upstreams {
		hits[name] = -u.hits
	}
	w = httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/", strings.NewReader("body"))
	req.Method, req.URL, req.RequestURI = method, r.target, r.target.RequestURI()
	if key != "" {
		req.Header.Set(idempotencyhttp.KeyHeader, key)
	}
	r.g.ServeHTTP(w, req)
	for name, u := range r.upstreams {
		hits[name] += u.hits
	}
	return w, hits
}

func (r *routedRun) check(method string) {
	if method == http.MethodConnect || method == http.MethodTrace || !isToken(method) {
		return // no request that an upstream could get
	}
	probe := &http.Request{Method: method, URL: r.target, Host: r.target.Host}
	if r.g.statuses.handles(probe) {
		return
	}
	mux := http.NewServeMux()
	for _, route := range r.cfg.Routes {
		mux.Handle(route.Path, http.NotFoundHandler())
	}
	_, pattern := mux.Handler(probe)
	key := "key of " + method
	w, hits := r.send(method, key)
	var chosen *Route
	for i, route := range r.cfg.Routes {
		if route.Path == pattern {
			chosen = &r.cfg.Routes[i]
		}
	}
	for name, n := range hits {
		switch {
		case chosen == nil || chosen.Upstream.String() != name:
			if n != 0 {
				r.t.Fatalf("%s %v went to %s, and its route is %q", method, r.target, r.upstreams[name].name, pattern)
			}
		case n > 1 || n == 0 && w.Code == http.StatusOK:
			r.t.Fatalf("%s %v came to %s %d times, and was answered %d", method, r.target, r.upstreams[name].name, n, w.Code)
		}
	}
	if chosen == nil || w.Code != http.StatusOK { // a redirect to a clean path, say
		return
	}
	keyed := chosen.keyed(method)
	again, hits := r.send(method, key)
	if reached := hits[chosen.Upstream.String()] == 1; reached == keyed {
		r.t.Fatalf("a repeat of %s %v reached the upstream: %v; it is keyed: %v", method, r.target, reached, keyed)
	}
	if keyed && (again.Body.String() != w.Body.String() || again.Header().Get(idempotencyhttp.ReplayedHeader) != "true") {
		r.t.Fatalf("a repeat of %s %v got %d %q after %q", method, r.target, again.Code, again.Body, w.Body)
	}
	bare, hits := r.send(method, "")
	if reached := hits[chosen.Upstream.String()] == 1; reached == keyed || keyed && bare.Code != http.StatusBadRequest {
		r.t.Fatalf("%s %v without a key got %d and reached the upstream: %v; it is keyed: %v", method, r.target, bare.Code, reached, keyed)
	}
}

// isToken says that a text can be the method of a request.
func isToken(method string) bool {
	_, err := http.NewRequest(method, "http://gateway/", nil)
	return err == nil && method != ""
}
