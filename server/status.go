package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// Paths of the gateway itself, on the public listener. No route can lie below ownPrefix.
const (
	ownPrefix    = "/_fifty/"
	statusPrefix = ownPrefix + "status/"
)

// statuses are the status paths of the routes with duplicate: accepted. A path names the key, and its query the
// route: "/_fifty/status/KEY?route=/charges", and the method too where the scope depends on it. That query
// chooses a rule and nothing else: who the caller is comes from the request itself, by that rule.
type statuses struct {
	routes   []string
	handlers map[string]http.Handler // by route
	mux      *http.ServeMux          // finds the key
}

// Names of a status path's query.
const (
	statusRoute  = "route"
	statusMethod = "method"
)

func newStatuses() *statuses {
	s := &statuses{handlers: map[string]http.Handler{}, mux: http.NewServeMux()}
	s.mux.HandleFunc(statusPrefix+"{key}", s.serve)
	return s
}

// add serves the statuses of a route.
func (s *statuses) add(rt *route, keys idempotencyhttp.Finder, who *scopes, cfg idempotencyhttp.Config) {
	cfg.Scope = func(r *http.Request) (string, error) { return told(who.status(r)) }
	s.routes = append(s.routes, rt.Path)
	s.handlers[rt.Path] = idempotencyhttp.StatusHandler(keys, cfg, func(r *http.Request) string { return r.PathValue("key") })
}

// handles says whether a request asks for a status.
func (s *statuses) handles(r *http.Request) bool {
	return len(s.routes) > 0 && strings.HasPrefix(r.URL.EscapedPath(), statusPrefix)
}

func (s *statuses) serve(w http.ResponseWriter, r *http.Request) {
	route := r.URL.Query().Get(statusRoute)
	if route == "" && len(s.routes) == 1 {
		route = s.routes[0]
	}
	h, ok := s.handlers[route]
	if !ok {
		idempotencyhttp.WriteProblem(w, &idempotencyhttp.Problem{
			Name: "no-route", Status: http.StatusNotFound, Title: "No route leads there",
			Detail: "The query of a status path names the route, as the Location of the 202 had it.",
		})
		return
	}
	h.ServeHTTP(w, r)
}

// statusPath is where a duplicate of req is told to look.
func (rt *route) statusPath(req idempotency.Request) string {
	path := idempotencyhttp.StatusPath(statusPrefix, req.Key)
	if path == "" {
		return ""
	}
	query := url.Values{statusRoute: {rt.Path}}
	for _, method := range rt.Methods {
		if rt.Scope.WithEndpoint && strings.HasSuffix(req.Scope, endpoint(method, rt.Path)) {
			query.Set(statusMethod, method)
		}
	}
	return path + "?" + query.Encode()
}

// status is the scope of the request whose status r asks for: the identity is r's own.
func (s *scopes) status(r *http.Request) (string, error) {
	method := r.URL.Query().Get(statusMethod)
	if !slices.Contains(s.methods, method) {
		method = s.methods[0]
	}
	return s.as(r, method)
}
