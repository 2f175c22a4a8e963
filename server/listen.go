package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Bounds of a client's connection. There is none for writing an answer: work may take as long as its
// route allows.
const (
	headerReadMax  = 10 * time.Second
	connIdleMax    = 2 * time.Minute
	headerBytesMax = 64 << 10
)

// listen opens an address, or says how to choose another one.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &StartError{fmt.Sprintf("%s %s is in use; end the program that has it, or choose another address", flag, address), err}
	case errors.Is(err, syscall.EACCES):
		return nil, &StartError{fmt.Sprintf("%s %s is not allowed for this user; choose a port above 1023", flag, address), err}
	default:
		return nil, &StartError{fmt.Sprintf("%s %s can't be listened on (%v); write HOST:PORT, such as 127.0.0.1:8080", flag, address, err), err}
	}
}

// loadTLS reads certificate and key; nil without them.
func loadTLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, &StartError{"--tls-cert and --tls-key belong together; give both, or none", nil}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, &StartError{fmt.Sprintf("--tls-cert %s and --tls-key %s can't be used: %v", cert, key, err), err}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// newHTTPServer is one with this package's bounds.
func newHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerReadMax,
		IdleTimeout:       connIdleMax,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// serving runs a server on a listener until it is shut down.
type serving struct {
	*http.Server
	done chan error // gets what Serve returned, once; nil after a shutdown
}

func startServing(s *http.Server, l net.Listener, secure *tls.Config) serving {
	run := serving{s, make(chan error, 1)}
	s.TLSConfig = secure
	go func() {
		var err error
		if secure != nil {
			err = s.ServeTLS(l, "", "")
		} else {
			err = s.Serve(l)
		}
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		run.done <- err
	}()
	return run
}

// shutdown closes the server's listeners at once and waits for its requests, until ctx is done or hurry is
// closed. nil means that all of them finished.
func shutdown(ctx context.Context, s *http.Server, hurry <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-hurry:
		cancel()
		return <-stopped
	}
}

// reachable is a listener's address as a client on this machine would write it.
func reachable(l net.Listener) string {
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return l.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
