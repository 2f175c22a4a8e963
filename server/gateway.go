package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// GatewayConfig is what a Gateway works with besides its routes. Keys is mandatory; so is Secret where a
// route's scope is a credential.
type GatewayConfig struct {
	// Keys is the store that all hosts share.
	Keys idempotency.Store

	// Secret keys the digests of credentials. All hosts must have the same, for ever: with another one each
	// caller is a new caller, and its keys run again.
	Secret []byte

	// Seal seals what is kept of answers. Defaults to none: they are kept in the clear.
	Seal *idempotency.Ring

	// Owner names this process to operators. Defaults to the host's name and the process id.
	Owner string

	// StoreMax is how long a claim or completion is tried again while the store fails. Defaults to 10 s.
	StoreMax time.Duration

	// BodyReadMax is how long a keyed request's body may take to arrive. Defaults to 1 min.
	BodyReadMax time.Duration

	// Metrics counts. Defaults to metrics that nobody reads.
	Metrics *Metrics

	// Log gets a line per keyed request and what an operator should see. Defaults to slog.Default().
	Log *slog.Logger

	// Now is the clock for the validity of tokens and for the sign of a key per attempt. Expiries go by
	// the store's. Defaults to time.Now.
	Now func() time.Time
}

// Gateway sends requests to upstreams, each keyed one once. It is safe for concurrent use.
type Gateway struct {
	mux      *http.ServeMux
	statuses *statuses
	running  atomic.Int64 // keyed requests whose work is running
	close    []func()
}

// NewGateway returns the gateway of a valid configuration. Close it when the last request is done.
func NewGateway(cfg Config, with GatewayConfig) *Gateway {
	if with.BodyReadMax == 0 {
		with.BodyReadMax = bodyReadMax
	}
	if with.Metrics == nil {
		with.Metrics = NewMetrics()
	}
	if with.Log == nil {
		with.Log = slog.Default()
	}
	if with.Now == nil {
		with.Now = wall.Now
	}
	g := &Gateway{mux: http.NewServeMux(), statuses: newStatuses()}
	seen := idempotency.NewPerAttempt(with.Now)
	pass := newPassTransport()
	g.close = append(g.close, pass.CloseIdleConnections)
	for _, r := range cfg.Routes {
		g.mux.Handle(r.Path, newRoute(g, r, with, seen, pass))
	}
	return g
}

// ServeHTTP answers a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.statuses.handles(r) {
		g.statuses.mux.ServeHTTP(newPacedWriter(w), r)
		return
	}
	if _, pattern := g.mux.Handler(r); pattern == "" {
		noRoute(w, r)
		return
	}
	g.mux.ServeHTTP(newPacedWriter(w), r)
}

// Running is the number of keyed requests whose work is running.
func (g *Gateway) Running() int64 { return g.running.Load() }

// Close gives back the connections that are kept.
func (g *Gateway) Close() {
	for _, c := range g.close {
		c()
	}
}

func noRoute(w http.ResponseWriter, r *http.Request) {
	idempotencyhttp.WriteProblem(w, &idempotencyhttp.Problem{
		Name: "no-route", Status: http.StatusNotFound, Title: "No route leads there",
		Detail: "The gateway has no route for " + r.URL.Path + ". Nothing was run. The operator lists the routes in the configuration.",
	})
}

// observer sees the events of the library: all are counted, and those that an operator should look at are
// told.
func observer(with GatewayConfig) fifty.Observer {
	return fifty.Observers(with.Metrics, fifty.ObserverFunc(func(ctx context.Context, e fifty.Event) {
		switch e.Name {
		case "idempotency.completion_failed", "idempotency.lease_lost", "idempotency.superseded", "idempotency.replay_failed", "idempotency.sweep_failed":
			attrs := e.Attrs
			if e.Err != nil {
				attrs = append(attrs[:len(attrs):len(attrs)], slog.Any("error", e.Err))
			}
			with.Log.LogAttrs(ctx, slog.LevelWarn, e.Name, attrs...)
		}
	}))
}
