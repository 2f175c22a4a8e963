package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

// Defaults of ServeConfig.
const (
	ListenDefault = "127.0.0.1:8080"
	AdminDefault  = "127.0.0.1:8081"
	DrainDefault  = 30 * time.Second

	SweepEveryDefault = time.Minute
)

// sandboxScope is the only caller where the sandbox is behind the gateway.
const sandboxScope = "sandbox"

// ServeConfig is that of Serve. The zero value works: it serves the payments sandbox.
type ServeConfig struct {
	Config Config // without routes the payments sandbox is started behind the gateway

	Listen, Admin   string        // HOST:PORT; port 0 takes a free one. Default to ListenDefault and AdminDefault
	TLSCert, TLSKey string        // PEM files, for the public listener. Default to none: plain HTTP
	DB              string        // a database URL. Defaults to DefaultDB
	Drain           time.Duration // how long requests in flight may take to finish at the end. Defaults to DrainDefault

	Version string       // for what is printed at the start
	Out     io.Writer    // gets what is printed at the start. Defaults to nowhere
	Log     *slog.Logger // Defaults to slog.Default()

	// SweepEvery is about how often records whose time is over are tidied. Defaults to SweepEveryDefault.
	SweepEvery time.Duration

	// Hurry ends a drain at once when it is closed. Defaults to never.
	Hurry <-chan struct{}
}

func (c ServeConfig) withDefaults() ServeConfig {
	if c.Listen == "" {
		c.Listen = ListenDefault
	}
	if c.Admin == "" {
		c.Admin = AdminDefault
	}
	if c.DB == "" {
		c.DB = DefaultDB
	}
	if c.Drain == 0 {
		c.Drain = DrainDefault
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = SweepEveryDefault
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// StartError says why a process can't start as it was asked to: a fault of its flags or configuration.
// No request was taken.
type StartError struct {
	Problem string // what is wrong and what would be right
	Cause   error  // or nil
}

func (e *StartError) Error() string { return e.Problem }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Cause }

// UnfinishedError says that a drain ended before the work did. Each key of that work stays in flight until
// its lease runs out, and is unresolved from then on.
type UnfinishedError struct{ Requests int64 }

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%d keyed requests were still at work at the end: whether they took effect is not known, and their keys are held", e.Requests)
}

// Serve runs a gateway until ctx is done, and then drains it: /readyz turns to 503, the public listener
// closes, and requests in flight finish. It returns nil when all of them did, and an *UnfinishedError when
// they did not within the drain or before Hurry. A *StartError, *URLError or *BackendError means that it
// did not start. ctx does not end work that is under way.
func Serve(ctx context.Context, cfg ServeConfig) error {
	s := &server{cfg: cfg.withDefaults(), metrics: NewMetrics()}
	defer s.release()
	if err := s.start(ctx); err != nil {
		if ctx.Err() != nil {
			s.cfg.Log.Info("stopped before it took requests")
			return nil
		}
		return err
	}
	select {
	case err := <-s.public.done:
		return fmt.Errorf("the public listener failed: %w", err)
	case err := <-s.admin.done:
		return fmt.Errorf("the admin listener failed: %w", err)
	case <-ctx.Done():
	}
	return s.drain()
}

// server is one run of Serve.
type server struct {
	cfg     ServeConfig
	metrics *Metrics
	ready   *readiness
	backend *Backend
	gateway *Gateway
	public  serving
	admin   serving
	sandbox serving
	cleanup []func() // in the order of making
}

// later keeps what release calls, the newest first.
func (s *server) later(fn func()) { s.cleanup = append(s.cleanup, fn) }

func (s *server) release() {
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
}

// start opens the listeners before the database, so that an address that is taken makes no file, and
// takes requests last.
func (s *server) start(ctx context.Context) error {
	secure, err := loadTLS(s.cfg.TLSCert, s.cfg.TLSKey)
	if err != nil {
		return err
	}
	public, err := listen("--listen", s.cfg.Listen)
	if err != nil {
		return err
	}
	s.later(func() { _ = public.Close() })
	private, err := listen("--admin", s.cfg.Admin)
	if err != nil {
		return err
	}
	s.later(func() { _ = private.Close() })

	s.ready = &readiness{log: s.cfg.Log, store: func(ctx context.Context) error { return s.backend.Ready(ctx) }}
	s.ready.set("starting")
	s.admin = startServing(newHTTPServer(admin(s.ready, s.metrics), s.cfg.Log), private, nil)
	s.later(func() { _ = s.admin.Close() })

	if s.backend, err = OpenBackend(ctx, s.cfg.DB); err != nil {
		return err
	}
	s.later(s.closeBackend)
	if err := s.backend.Prepare(ctx, s.cfg.Log); err != nil {
		return err
	}
	demo := len(s.cfg.Config.Routes) == 0
	if demo {
		if err := s.startSandbox(ctx); err != nil {
			return err
		}
	}
	if err := s.makeGateway(ctx); err != nil {
		return err
	}
	s.later(s.startSweeping())
	s.public = startServing(newHTTPServer(s.gateway, s.cfg.Log), public, secure)
	s.later(func() { _ = s.public.Close() })
	s.ready.set("")
	s.banner(public, private, secure != nil, demo)
	return nil
}

func (s *server) makeGateway(ctx context.Context) error {
	secret, err := s.backend.Secret(ctx, "scope")
	if err != nil {
		return err
	}
	s.gateway = NewGateway(s.cfg.Config, GatewayConfig{
		Keys: s.backend.Keys, Secret: secret, Seal: s.cfg.Config.Seal, Metrics: s.metrics, Log: s.cfg.Log,
	})
	s.later(s.gateway.Close)
	return nil
}

// startSandbox puts the payments sandbox on a free port of its own, so that the gateway reaches it as it
// would any service, and makes it the only route.
func (s *server) startSandbox(ctx context.Context) error {
	ledger, err := s.backend.Ledger(ctx)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return &StartError{"the sandbox finds no free port: " + err.Error(), err}
	}
	s.sandbox = startServing(newHTTPServer(sandbox.New(ledger, sandbox.Config{Log: s.cfg.Log}), s.cfg.Log), l, nil)
	s.later(func() { _ = s.sandbox.Close() })
	s.cfg.Config, err = ProxyConfig("http://"+l.Addr().String(), ScopeRule{Kind: ScopeConstant, Constant: sandboxScope})
	return err
}

// drain lets the work finish. The admin listener stays until the end, so that /readyz can say why.
func (s *server) drain() error {
	s.ready.set("draining")
	s.cfg.Log.Info("draining: no new requests are taken", "in_flight", s.gateway.Running(), "for", s.cfg.Drain)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Drain)
	defer cancel()
	err := shutdown(ctx, s.public.Server, s.cfg.Hurry)
	if n := s.gateway.Running(); err != nil && n > 0 {
		return &UnfinishedError{Requests: n}
	}
	if err != nil {
		s.cfg.Log.Warn("the drain ended before all connections were done; no keyed request was at work")
	}
	s.cfg.Log.Info("drained")
	return nil
}

// closeBackend leaves the database open to work that goes on after all: its completion is worth more than
// a tidy end.
func (s *server) closeBackend() {
	if s.gateway != nil && s.gateway.Running() > 0 {
		return
	}
	if err := s.backend.Close(); err != nil {
		s.cfg.Log.Warn("the database did not close", "error", err)
	}
}

func scheme(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}
