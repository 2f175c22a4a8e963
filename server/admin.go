package server

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// readiness is what /readyz tells a load balancer.
type readiness struct {
	state atomic.Pointer[string] // why not, or nil when requests are taken
	store func(ctx context.Context) error
	log   *slog.Logger
}

func (r *readiness) set(why string) {
	if why == "" {
		r.state.Store(nil)
		return
	}
	r.state.Store(&why)
}

// admin serves an operator: whether the process lives, whether it takes requests, and what it counts.
func admin(r *readiness, m *Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", r.serve)
	mux.Handle("GET /metrics", m.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, "this is the admin listener: /healthz, /readyz, /metrics")
	})
	return mux
}

func (r *readiness) serve(w http.ResponseWriter, req *http.Request) {
	if why := r.state.Load(); why != nil {
		say(w, http.StatusServiceUnavailable, *why)
		return
	}
	if err := r.store(req.Context()); err != nil {
		r.log.WarnContext(req.Context(), "not ready: the database can't be reached", "error", err)
		say(w, http.StatusServiceUnavailable, "the database can't be reached")
		return
	}
	say(w, http.StatusOK, "ready")
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that left asks again
}
