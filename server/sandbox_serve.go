package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

// SandboxListenDefault is the sandbox's own address.
const SandboxListenDefault = "127.0.0.1:9000"

// SandboxConfig is that of ServeSandbox. The zero value works.
type SandboxConfig struct {
	Listen string       // HOST:PORT. Defaults to SandboxListenDefault
	DB     string       // a database URL, for the ledger. Defaults to DefaultDB
	Out    io.Writer    // gets what is printed at the start. Defaults to nowhere
	Log    *slog.Logger // Defaults to slog.Default()

	// Hurry ends it at once when it is closed. Defaults to never.
	Hurry <-chan struct{}
}

// ServeSandbox runs the payments sandbox alone until ctx is done, and lets charges that are under way
// finish. Its errors are those of Serve.
func ServeSandbox(ctx context.Context, cfg SandboxConfig) error {
	if cfg.Listen == "" {
		cfg.Listen = SandboxListenDefault
	}
	full := ServeConfig{DB: cfg.DB, Out: cfg.Out, Log: cfg.Log}.withDefaults()
	l, err := listen("--listen", cfg.Listen)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	backend, err := OpenBackend(ctx, full.DB)
	if err != nil {
		return err
	}
	defer func() { _ = backend.Close() }()
	if err := backend.Prepare(ctx, full.Log); err != nil {
		return err
	}
	ledger, err := backend.Ledger(ctx)
	if err != nil {
		return err
	}
	run := startServing(newHTTPServer(sandbox.New(ledger, sandbox.Config{Log: full.Log}), full.Log), l, nil)
	fmt.Fprintf(full.Out, "fifty sandbox\n  listening on http://%s\n  database     %s\n", l.Addr(), backend.Name)
	select {
	case err := <-run.done:
		return fmt.Errorf("the listener failed: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), sandbox.SlowMax+sandbox.CommitMax+time.Second)
	defer cancel()
	if err := shutdown(ending, run.Server, cfg.Hurry); err != nil {
		return errors.Join(fmt.Errorf("charges were still under way: %w", err), run.Close())
	}
	return nil
}
