package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// route serves one Route.
type route struct {
	Route
	gateway *Gateway
	seen    *idempotency.PerAttempt
	bodyMax time.Duration // for a keyed request's body to arrive
	metrics *Metrics
	log     *slog.Logger
	keyed   http.Handler // claims, sends once, keeps the answer
	pass    http.Handler // sends
}

func newRoute(g *Gateway, cfg Route, with GatewayConfig, seen *idempotency.PerAttempt, pass *http.Transport) *route {
	rt := &route{Route: cfg, gateway: g, seen: seen, bodyMax: with.BodyReadMax, metrics: with.Metrics, log: with.Log}
	with.Metrics.route(cfg.Path)
	watch := observer(with)
	keys := idempotency.New(with.Keys, idempotency.Config{
		Lease:       cfg.Lease,
		WorkMax:     cfg.Timeout,
		StoreMax:    with.StoreMax,
		Wait:        cfg.Duplicate == DuplicateWait,
		Retention:   cfg.Retention,
		Tombstone:   cfg.Tombstone,
		ResponseMax: int(cfg.ResponseMax),
		Seal:        with.Seal,
		Owner:       with.Owner,
		Observer:    watch,
	})
	who := &scopes{rule: cfg.Scope, route: cfg.Path, methods: cfg.Methods, secret: with.Secret, now: with.Now}
	how := idempotencyhttp.Config{
		Scope:       func(r *http.Request) (string, error) { return told(who.of(r)) },
		Methods:     cfg.Methods,
		Headers:     cfg.Headers,
		BodyMax:     cfg.BodyMax,
		ResponseMax: int(cfg.ResponseMax),
		Steps:       cfg.Unknown == UnknownRetry,
		Observer:    watch,
	}
	if cfg.Duplicate == DuplicateAccepted {
		how.Status = rt.statusPath
		g.statuses.add(rt, keys, who, how)
	}
	once := newOnceTransport(cfg.ResponseMax)
	proxy := &httputil.ReverseProxy{
		Rewrite:      rt.rewriteKeyed,
		Transport:    once,
		ErrorHandler: rt.keyedFailed,
		ErrorLog:     slog.NewLogLogger(with.Log.Handler(), slog.LevelWarn),
	}
	if cfg.Unknown == UnknownRetry {
		once.before, proxy.ModifyResponse = rt.sending, rt.answered
	}
	rt.keyed = idempotencyhttp.Middleware(doer{keys, rt}, how)(proxy)
	rt.pass = &httputil.ReverseProxy{
		Rewrite:      rt.rewrite,
		Transport:    splitTransport{once: newOnceTransport(0), pass: pass},
		ErrorHandler: rt.passFailed,
		ErrorLog:     proxy.ErrorLog,
	}
	return rt
}

// told is a scope, or an error that tells the client what is missing.
func told(scope string, err error) (string, error) {
	if err != nil {
		return "", &idempotencyhttp.Problem{
			Name: "scope-missing", Status: http.StatusUnauthorized, Title: "The caller is not known",
			Detail: "Keys are remembered per caller, and this one can't be told: " + err.Error() + ". Nothing was run.",
		}
	}
	return scope, nil
}

func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case isSafe(r.Method):
		rt.metrics.requests.WithLabelValues(rt.Path, string(Passed)).Inc()
		rt.pass.ServeHTTP(w, r)
	case !rt.Route.keyed(r.Method):
		rt.unprotected(w, r, reasonMethod)
	case rt.Key == KeyOptional && len(r.Header.Values(idempotencyhttp.KeyHeader)) == 0:
		rt.unprotected(w, r, reasonNoKey)
	default:
		rt.protected(w, r)
	}
}

func (rt *route) unprotected(w http.ResponseWriter, r *http.Request, reason string) {
	rt.metrics.requests.WithLabelValues(rt.Path, string(Unprotected)).Inc()
	rt.metrics.unprotected.WithLabelValues(rt.Path, reason).Inc()
	rt.pass.ServeHTTP(w, r)
}

// protected serves a keyed request and leaves one line in the log, whatever becomes of it.
func (rt *route) protected(w http.ResponseWriter, r *http.Request) {
	began := wall.Now()
	c := &call{outcome: Refused}
	seen := &statusWriter{ResponseWriter: w}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = newTimedBody(w, r.Body, rt.bodyMax)
	}
	defer func() {
		req, outcome := c.get()
		took := wall.Since(began)
		rt.metrics.request(rt.Path, outcome, took)
		level := slog.LevelInfo
		switch outcome {
		case Unknown, Unresolved, Unavailable:
			level = slog.LevelWarn
		}
		rt.log.LogAttrs(r.Context(), level, "request",
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", rt.Path),
			slog.String("outcome", string(outcome)), slog.Int("status", seen.status), slog.Duration("took", took),
			slog.String("scope", req.Scope), slog.String("key", req.Key), slog.String("client", r.RemoteAddr))
	}()
	ctx := context.WithValue(r.Context(), callKey{}, c)
	ctx = context.WithValue(ctx, clientKey{}, client{r.RemoteAddr, r.UserAgent()})
	rt.keyed.ServeHTTP(seen, r.WithContext(ctx))
}

// client names who sent a request, for the log.
type client struct{ address, agent string }

type clientKey struct{}

// running counts the work that is under way.
func (rt *route) running(n int64) {
	rt.gateway.running.Add(n)
	rt.metrics.inFlight.WithLabelValues(rt.Path).Add(float64(n))
}

// repeated looks for the sign of a key per attempt.
func (rt *route) repeated(ctx context.Context, req idempotency.Request) {
	sign, warn := rt.seen.See(req)
	if !sign {
		return
	}
	rt.metrics.perAttempt.WithLabelValues(rt.Path).Inc()
	if warn {
		who, _ := ctx.Value(clientKey{}).(client)
		rt.log.LogAttrs(ctx, slog.LevelWarn,
			"a caller sends the same request under several keys within a minute; if these are retries, its client makes a key per attempt, and each one runs",
			slog.String("scope", req.Scope), slog.String("route", rt.Path), slog.String("key", req.Key),
			slog.String("client", who.address), slog.String("user_agent", who.agent))
	}
}

// rewrite turns a request into that to the upstream. The query goes on as it came, and what the client
// says about where it comes from does not.
func (rt *route) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.SetURL(rt.Upstream)
	p.SetXForwarded()
}

// rewriteKeyed leaves out what can't be kept for a replay: a switch of protocols, and trailers.
func (rt *route) rewriteKeyed(p *httputil.ProxyRequest) {
	rt.rewrite(p)
	p.Out.Header.Del("Upgrade")
	p.Out.Header.Del("Connection")
	p.Out.Header.Del("Te")
	p.Out.Header.Del("Expect") // the body is here already
	p.Out.Trailer = nil
	if req, ok := idempotencyhttp.RequestFrom(p.In.Context()); ok {
		forwardKey(rt.ForwardKey, req, p.In.Header, p.Out.Header)
	}
}

// keyedFailed answers in place of an upstream that did not. Only a dial that failed frees the key.
func (rt *route) keyedFailed(w http.ResponseWriter, r *http.Request, err error) {
	if dial, ok := errors.AsType[*DialError](err); ok {
		idempotencyhttp.SetKeep(r.Context(), idempotencyhttp.Freed)
		rt.metrics.upstream.WithLabelValues(rt.Path, failureDial).Inc()
		rt.log.WarnContext(r.Context(), "the upstream can't be reached; nothing was sent", "route", rt.Path, "upstream", dial.Address, "error", dial.Cause)
		idempotencyhttp.WriteProblem(w, unreachable("Nothing was sent to it, and this time nothing was run. Send the same request with the same key again."))
		return
	}
	if unsent, ok := errors.AsType[*NotSentError](err); ok {
		rt.notSent(w, r, unsent.Cause)
		return
	}
	idempotencyhttp.SetKeep(r.Context(), idempotencyhttp.Failed)
	rt.metrics.upstream.WithLabelValues(rt.Path, failureLost).Inc()
	what := "gave no whole answer"
	if errors.Is(err, context.DeadlineExceeded) {
		what = fmt.Sprintf("gave no answer within %v", rt.Timeout)
	}
	p := &idempotencyhttp.Problem{
		Name: "unknown", Status: http.StatusServiceUnavailable, Title: "The outcome is not known",
		Detail: "The service behind this gateway got the request and " + what + ". The work may have happened, and it is not run again under this key. Don't send it under a new key. The operator of this service can resolve the key.",
	}
	if rt.Unknown == UnknownRetry {
		p.Detail = "The service behind this gateway got the request and " + what + ". The work may have happened. Send the same request with the same key again, never with a new key: the service knows a repeat by it."
		p.RetryAfter = time.Second
		rt.log.WarnContext(r.Context(), "the upstream got a request and gave no whole answer; the next request with its key sends it again", "route", rt.Path, "upstream", rt.Upstream.Host, "error", err)
	} else {
		rt.log.ErrorContext(r.Context(), "the upstream got a request and gave no whole answer; its key is held", "route", rt.Path, "upstream", rt.Upstream.Host, "error", err)
	}
	idempotencyhttp.WriteProblem(w, p)
}

func (rt *route) passFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client left, and nobody reads an answer
	}
	rt.log.WarnContext(r.Context(), "the upstream failed for a request without protection", "route", rt.Path, "method", r.Method, "error", err)
	if _, ok := errors.AsType[*DialError](err); ok {
		idempotencyhttp.WriteProblem(w, unreachable("Nothing was sent to it."))
		return
	}
	idempotencyhttp.WriteProblem(w, &idempotencyhttp.Problem{
		Name: "upstream-failed", Status: http.StatusBadGateway, Title: "The service gave no whole answer",
		Detail: "The service behind this gateway got the request and gave no whole answer. A request that changes something may have taken effect; without a key nothing keeps a repeat of it from taking effect again.",
	})
}

func unreachable(detail string) *idempotencyhttp.Problem {
	return &idempotencyhttp.Problem{
		Name: "upstream-unreachable", Status: http.StatusBadGateway, Title: "The service can't be reached",
		Detail: "The service behind this gateway can't be reached. " + detail, RetryAfter: time.Second,
	}
}
