package idempotencyhttp

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Finder is what StatusHandler needs: *idempotency.Keys and *idempotency.TxKeys are ones.
type Finder interface {
	Find(ctx context.Context, scope, key string) (idempotency.Record, error)
	Replay(ctx context.Context, rec idempotency.Record) (idempotency.Result, error)
}

// StatusPath is prefix and key as the path of a URL, for Config.Status. A "/{key}" at the end of a pattern of
// http.ServeMux finds the key again, whatever is in it. The key "/" has none, since a ServeMux takes it for the
// end of the path; it gets "".
func StatusPath(prefix, key string) string {
	if key == "/" {
		return ""
	}
	escaped := url.PathEscape(key)
	if strings.Trim(escaped, ".") == "" { // "." and "..": a path's own
		escaped = strings.ReplaceAll(escaped, ".", "%2E")
	}
	return prefix + escaped
}

// StatusHandler tells a caller how the request stands whose key it asks for. key finds the key in the request
// for the status: r.PathValue("key"), for example. The scope is that of cfg.Scope for that same request, so
// each caller sees its own keys only, and another's look like keys that nobody used. Of cfg only Scope and
// Observer count. It panics when keys or key is nil, or cfg has no Scope.
//
//   - Still at work: 202 with Retry-After, as for a duplicate.
//   - Done: the answer, as a replay, with Idempotency-Replayed: true and Cache-Control: no-store. What a
//     duplicate would get instead: not-replayable, expired, unresolved.
//   - Broken off in steps, with nobody at work: unknown. The request itself, sent again, goes on with it.
//   - Never seen, or nothing was done: not-found.
//
// Nothing is run and nothing is changed. GET and HEAD are served, any other method is method-not-allowed. The
// handler is safe for concurrent use.
func StatusHandler(keys Finder, cfg Config, key func(r *http.Request) string) http.Handler {
	if keys == nil || key == nil {
		panic("idempotencyhttp: StatusHandler: keys or key is nil")
	}
	g := &guard{cfg: cfg.filled("StatusHandler")}
	g.cfg.Methods = []string{http.MethodGet, http.MethodHead}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{guard: g, w: w, r: r}
		if !g.cfg.covers(r.Method) {
			w.Header().Set("Allow", g.allowed())
			x.refuse(problem(methodNotAllowed), nil)
			return
		}
		scope, ok := x.scope()
		if !ok {
			return
		}
		x.request = idempotency.Request{Scope: scope, Key: key(r)}
		x.status(keys)
	})
}

// status answers with what is known of the request.
func (x *exchange) status(keys Finder) {
	ctx := x.r.Context()
	if idempotency.ValidateKey(x.request.Key) != nil { // no request can have it
		x.refuse(problem(notFound), nil)
		return
	}
	rec, err := keys.Find(ctx, x.request.Scope, x.request.Key)
	if err == nil {
		x.request = rec.Request
		switch {
		case rec.State == idempotency.Free:
			err = idempotency.ErrNotFound
		case rec.Expired(): // it may be resumed, and nobody does
			x.refuse(problem(unknown), nil)
			return
		}
	}
	var res idempotency.Result
	if err == nil {
		res, err = keys.Replay(ctx, rec)
	}
	switch {
	case err == nil:
		kept := res.Response
		kept.Header = maps.Clone(kept.Header)
		if kept.Header == nil {
			kept.Header = map[string][]string{}
		}
		kept.Header["Cache-Control"] = []string{"no-store"} // it answers a GET now, and is one caller's
		replay(x.w, x.r, kept)
	case errors.Is(err, idempotency.ErrInFlight):
		x.refuse(atWork(err, "Ask here again"), nil)
	default:
		x.refuse(ProblemOf(err), err)
	}
}

// atWork is in-flight as no failure.
func atWork(err error, ask string) *Problem {
	p := ProblemOf(err)
	p.Status = http.StatusAccepted
	p.Detail = "The first request with this key is still at work. " + ask + " after the time in Retry-After, or send the same request with the same key again, to get its answer."
	p.RetryAfter = max(p.RetryAfter, time.Second)
	return p
}

// scope finds out who asks, or answers that nobody can tell.
func (x *exchange) scope() (string, bool) {
	scope, err := x.guard.cfg.Scope(x.r)
	if err == nil {
		err = idempotency.ValidateScope(scope)
	}
	if err == nil {
		return scope, true
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		p = problem(scopeMissing)
	}
	x.refuse(p, err)
	return "", false
}
