package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"

	"github.com/fiftyhosts/fifty/server"
)

// startGateway runs what fifty proxy runs, in this process, until the case ends. It returns its address.
func startGateway(ctx context.Context, b *bench, upstream, db string) (string, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	address, stop, err := serveGateway(ctx, upstream, db, null)
	if err != nil {
		return "", errors.Join(err, null.Close())
	}
	b.Cleanup(func() error { return errors.Join(stop(), null.Close()) })
	return address, nil
}

var listening = regexp.MustCompile(`listening on http://(\S+)`)

// serveGateway returns once the gateway takes requests. stop drains it.
func serveGateway(ctx context.Context, upstream, db string, log io.Writer) (address string, stop func() error, err error) {
	banner, out := io.Pipe()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		err := serve(serving, upstream, db, out, log)
		_ = out.Close()
		done <- err
	}()
	stop = func() error { end(); return <-done }
	text := make([]byte, 64<<10)
	n, err := banner.Read(text) // it is one write
	if found := listening.FindSubmatch(text[:n]); err == nil && found != nil {
		_ = banner.Close() // nothing is read from now on
		return string(found[1]), stop, nil
	}
	return "", nil, fmt.Errorf("the gateway did not start: %w", errors.Join(err, stop()))
}

// serve is fifty proxy on free ports.
func serve(ctx context.Context, upstream, db string, out, log io.Writer) error {
	cfg, err := server.ProxyConfig(upstream, server.ScopeRule{Kind: server.ScopeCredential, Header: "Authorization"})
	if err != nil {
		return err
	}
	return server.Serve(ctx, server.ServeConfig{
		Config: cfg, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", DB: db, Version: "bench",
		Out: out, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// tempFolder makes a folder that goes with the case.
func tempFolder(b *bench) (string, error) {
	folder, err := os.MkdirTemp("", "fifty-bench-")
	if err == nil {
		b.Cleanup(func() error { return os.RemoveAll(folder) })
	}
	return folder, err
}
