package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

func (r *configReader) routes(at place) []Route {
	list, ok := at.node.(*ast.SequenceNode)
	if !ok {
		r.fault(at, "must be a list, each entry starting with \"- path: ...\", and is %s", kind(at.node))
		return nil
	}
	switch {
	case len(list.Values) == 0:
		r.fault(at, "is empty; without a route there is nothing to serve")
		return nil
	case len(list.Values) > routesMax:
		r.fault(at, "has %d entries; at most %d are allowed", len(list.Values), routesMax)
		return nil
	}
	routes := make([]Route, len(list.Values))
	for i, n := range list.Values {
		routes[i] = r.route(place{path: fmt.Sprintf("%s[%d]", at.path, i), key: at.key, node: n})
	}
	return routes
}

func (r *configReader) route(at place) Route {
	route := routeDefaults()
	var window, tombstone place
	seen := r.mapping(at, "path", []field{
		{"path", func(at place) { route.Path = r.path(at) }},
		{"methods", func(at place) { route.Methods = r.methods(at) }},
		{"upstream", func(at place) { route.Upstream = r.upstream(at) }},
		{"key", func(at place) { readChoice(r, at, &route.Key, KeyRequired, KeyOptional) }},
		{"scope", func(at place) { route.Scope = r.scope(at) }},
		{"unknown", func(at place) { readChoice(r, at, &route.Unknown, UnknownHold, UnknownRetry) }},
		{"upstream_window", func(at place) { window = at; r.duration(at, windowMin, windowMax, &route.UpstreamWindow) }},
		{"duplicate", func(at place) {
			readChoice(r, at, &route.Duplicate, DuplicateConflict, DuplicateWait, DuplicateAccepted)
		}},
		{"retention", func(at place) { r.duration(at, keepMin, keepMax, &route.Retention) }},
		{"tombstone", func(at place) { tombstone = at; r.duration(at, keepMin, keepMax, &route.Tombstone) }},
		{"headers", func(at place) { route.Headers = r.keptHeaders(at) }},
		{"forward_key", func(at place) { readChoice(r, at, &route.ForwardKey, ForwardDerived, ForwardRaw) }},
		{"body_max", func(at place) { r.size(at, bodyMaxMax, &route.BodyMax) }},
		{"response_max", func(at place) { r.size(at, responseMaxMax, &route.ResponseMax) }},
		{"timeout", func(at place) { r.duration(at, timeoutMin, timeoutMax, &route.Timeout) }},
		{"lease", func(at place) { r.duration(at, leaseMin, leaseMax, &route.Lease) }},
	})
	if seen == nil {
		return route
	}
	for _, need := range []struct{ name, why string }{
		{"path", "such as /charges"},
		{"upstream", "such as http://127.0.0.1:9000"},
		{"scope", "which says who the caller is: jwt, credential, header or constant"},
	} {
		if !seen[need.name] {
			r.fault(at, "has no %s, %s", need.name, need.why)
		}
	}
	switch {
	case seen["upstream_window"] && route.Unknown != UnknownRetry:
		r.fault(window, "has no meaning with unknown: hold; remove it, or write unknown: retry if the upstream knows a repeat by its key")
	case !seen["upstream_window"] && route.Unknown == UnknownRetry:
		r.fault(at, "has unknown: retry and no upstream_window; say how long the upstream remembers a key, such as 24h")
	}
	if route.Tombstone < route.Retention {
		if seen["tombstone"] {
			r.fault(tombstone, "is %v and so shorter than retention (%v); a key is remembered at least as long as its answer", route.Tombstone, route.Retention)
		} else {
			route.Tombstone = route.Retention
		}
	}
	return route
}

// keptHeaders reads which fields of an answer are kept. An empty list keeps those about its body alone.
func (r *configReader) keptHeaders(at place) []string {
	names := []string{}
	if list, ok := at.node.(*ast.SequenceNode); ok && len(list.Values) == 0 {
		return names
	}
	values, places := r.texts(at, "Location")
	for i, value := range values {
		name := http.CanonicalHeaderKey(value)
		switch {
		case !IsToken(value):
			r.fault(places[i], "%q is no name of a header", value)
		case slices.Contains(names, name):
			r.fault(places[i], "%s is there twice; keep one", name)
		case slices.Contains(perConnection, name):
			r.fault(places[i], "%s is about one connection and can't be kept", name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// perConnection are the fields that no answer's replay can have.
var perConnection = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func readChoice[T ~string](r *configReader, at place, into *T, allowed ...T) {
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	if value, ok := r.choice(at, words); ok {
		*into = T(value)
	}
}

func (r *configReader) path(at place) string {
	r.paths = append(r.paths, at)
	value, ok := r.text(at, "/charges")
	if !ok {
		return ""
	}
	switch {
	case strings.ContainsAny(value, " \t"):
		r.fault(at, "%q has a space; write the path alone, and the methods under methods", value)
	case !strings.HasPrefix(value, "/"):
		r.fault(at, "%q must start with a slash; a host can't be given", value)
	case strings.HasPrefix(value, ownPrefix):
		r.fault(at, "%q is the gateway's own; choose another path", value)
	default:
		if problem := register(http.NewServeMux(), value); problem != "" {
			r.fault(at, "%q is no pattern: %s", value, problem)
		}
	}
	return value
}

// register says why a mux would not take the pattern, or "".
func register(mux *http.ServeMux, pattern string) (problem string) {
	defer func() {
		if p := recover(); p != nil {
			problem = fmt.Sprint(p)
			if _, after, ok := strings.Cut(problem, "at offset "); ok {
				problem = "at offset " + after
			}
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

// conflicts finds two routes of which a request could mean either. It needs routes without faults.
func (r *configReader) conflicts(routes []Route) {
	mux := http.NewServeMux()
	for i := range routes {
		if register(mux, routes[i].Path) == "" {
			continue
		}
		for j := range i {
			pair := http.NewServeMux()
			register(pair, routes[j].Path)
			if register(pair, routes[i].Path) != "" {
				r.fault(r.paths[i], "%q matches requests that routes[%d].path %q matches too, and neither is more specific; make one route of them", routes[i].Path, j, routes[j].Path)
				break
			}
		}
	}
}

func (r *configReader) methods(at place) []string {
	values, places := r.texts(at, http.MethodPost)
	for i, m := range values {
		switch {
		case !IsToken(m):
			r.fault(places[i], "%q is not a method", m)
		case m != strings.ToUpper(m):
			r.fault(places[i], "%q must be in capitals: methods are told apart by case", m)
		case isSafe(m) || m == http.MethodConnect:
			r.fault(places[i], "%s can't take a key; it passes through", m)
		case slices.Contains(values[:i], m):
			r.fault(places[i], "%s is there twice; keep one", m)
		}
	}
	return values
}

// isSafe says whether a method promises to change nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// IsToken says whether s is a token of RFC 9110, as methods and header names are.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func (r *configReader) upstream(at place) *url.URL {
	value, ok := r.text(at, "http://127.0.0.1:9000")
	if !ok {
		return nil
	}
	u, problem := upstreamURL(value)
	if problem != "" {
		r.fault(at, "%q %s", value, problem)
	}
	return u
}

// upstreamURL reads one, or says what is wrong with it.
func upstreamURL(text string) (u *url.URL, problem string) {
	const right = "write http://HOST:PORT or https://HOST"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, "is not a URL; " + right
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, "has no scheme that is known; " + right
	case u.Hostname() == "":
		return nil, "has no host; " + right
	case !validPort(u.Port()):
		return nil, "has a port that is none; " + right
	case u.User != nil:
		return nil, "has a credential; callers bring their own, remove it"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, "has a query or fragment; remove it"
	}
	return u, ""
}

func validPort(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1<<16
}
