package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/server"
)

const (
	// soakHost is the first argument of a test binary that shall be a service of a soak.
	soakHost  = "soak-host"
	soakScope = "shop"

	// soakLease is short, since a soak waits for its end again and again. A busy machine may renew it too
	// late: that costs more takeovers, and nothing else.
	soakLease = time.Second
	// supersededEvent is what a host says when a late owner's completion was refused.
	supersededEvent = "idempotency.superseded"
)

// runSoakHost serves orders, each made of two steps at a bank, until it is told to end.
func runSoakHost(database, bank string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	backend, err := server.OpenBackend(ctx, database)
	if err != nil {
		return err
	}
	defer backend.Close()
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	if err := backend.Prepare(ctx, log); err != nil {
		return err
	}
	keys := idempotency.New(backend.Keys, idempotency.Config{
		Lease: soakLease,
		Observer: fifty.ObserverFunc(func(ctx context.Context, e fifty.Event) {
			if e.Name == supersededEvent {
				log.WarnContext(ctx, e.Name, "error", e.Err)
			}
		}),
	})
	protect := idempotencyhttp.Middleware(keys, idempotencyhttp.Config{
		Scope: func(*http.Request) (string, error) { return soakScope, nil }, Steps: true,
	})
	mux := http.NewServeMux()
	mux.Handle("POST "+soakSteps, protect(orderHandler(bank)))
	return serveUntil(ctx, mux)
}

// serveUntil serves on a free port, which it prints, until ctx ends; what is under way then is ended first.
func serveUntil(ctx context.Context, handler http.Handler) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: waitMax}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	return web.Shutdown(last)
}

// orderHandler reserves and charges. What goes wrong is resumed by the next request.
func orderHandler(bank string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		steps, ok := idempotency.StepsFrom(r.Context())
		if !ok {
			http.Error(w, "there are no steps", http.StatusInternalServerError)
			return
		}
		var did []bankAnswer
		for _, path := range []string{soakReserve, soakCharge} {
			a, err := idempotency.Step(r.Context(), steps, path, bookAt(bank+path, string(body)))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			did = append(did, a)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(did)
	})
}
