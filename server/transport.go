package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Bounds of the conversation with an upstream.
const (
	DialMax              = 5 * time.Second // name look-up, connection and TLS handshake together
	upstreamIdleMax      = 90 * time.Second
	upstreamIdleConnsMax = 64        // kept open per upstream for requests without a key
	upstreamHeaderMax    = 256 << 10 // bytes of an answer's header
)

// DialError says that no connection to the upstream came about, so that no byte of the request was sent
// and nothing was run. Besides it only a NotSentError says that.
type DialError struct {
	Address string
	Cause   error
}

func (e *DialError) Error() string {
	return fmt.Sprintf("upstream %s can't be reached: %v", e.Address, e.Cause)
}

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Cause }

// NotSentError says that a request was given up before its first byte was sent: nothing was run by it.
type NotSentError struct{ Cause error }

func (e *NotSentError) Error() string { return "nothing was sent to the upstream: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *NotSentError) Unwrap() error { return e.Cause }

// onceTransport sends each request at most once, over a connection of its own (H1). http.Transport can't
// be used for that: it takes a request with an Idempotency-Key for one that may be sent again, and does so
// when a connection that it kept dies. Here the connection is made first, by a call of its own, and the
// request is then written to that connection and to no other: there is no second place to send it to.
//
// Dialling includes the TLS handshake: before it ends no byte of the request can be sent. HTTP/2 is off,
// since its client resends what the server claims to have refused. Proxies from the environment are not
// used: nothing says that they don't resend. An answer of up to holdMax bytes is read whole
// before it is returned, so that an upstream that dies in its middle is an error and not half an answer.
//
// It is safe for concurrent use.
type onceTransport struct {
	dialer  *http.Transport // makes connections; never sends
	dialMax time.Duration
	holdMax int64 // bytes; zero holds nothing

	// before, if there is one, is called when there is a connection and no byte of the request was sent on it.
	// It may change the request's header. On an error nothing is sent.
	before func(r *http.Request) error
}

func newOnceTransport(holdMax int64) *onceTransport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &onceTransport{
		dialer: &http.Transport{
			Protocols:              &protocols,
			DialContext:            (&net.Dialer{}).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			DisableCompression:     true, // the answer is passed on as it is
			MaxResponseHeaderBytes: upstreamHeaderMax,
		},
		dialMax: DialMax,
		holdMax: holdMax,
	}
}

// RoundTrip sends the request once. A *DialError or *NotSentError means that nothing was sent; after any other error the
// upstream may have received the request and acted on it.
func (t *onceTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	address := addressOf(r.URL)
	dialing, cancel := context.WithTimeout(r.Context(), t.dialMax)
	conn, err := t.dialer.NewClientConn(dialing, r.URL.Scheme, address)
	cancel()
	if err != nil {
		closeBody(r)
		return nil, &DialError{Address: address, Cause: err}
	}

	r = r.Clone(r.Context())
	r.Close = true  // tells the upstream that no other request follows
	r.GetBody = nil // nothing can rewind the body
	r.Trailer = nil // the body was read whole before; what is sent is what was compared
	if t.before != nil {
		if err := t.before(r); err != nil {
			closeBody(r)
			_ = conn.Close()
			return nil, &NotSentError{err}
		}
	}
	resp, err := conn.RoundTrip(r)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	body, err := t.hold(resp)
	if err != nil {
		_ = resp.Body.Close()
		_ = conn.Close()
		return nil, fmt.Errorf("the upstream's answer broke off: %w", err)
	}
	resp.Body = &connBody{Reader: body, body: resp.Body, conn: conn}
	return resp, nil
}

// CloseIdleConnections has nothing to close: no connection is kept.
func (t *onceTransport) CloseIdleConnections() {}

// hold reads an answer that ends within holdMax, so that it has a length from then on. One that is made to
// be streamed is not held.
func (t *onceTransport) hold(resp *http.Response) (io.Reader, error) {
	if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && media == "text/event-stream" {
		return resp.Body, nil
	}
	if t.holdMax == 0 || resp.ContentLength > t.holdMax || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.Body, nil
	}
	var held bytes.Buffer
	n, err := io.Copy(&held, io.LimitReader(resp.Body, t.holdMax+1))
	if err != nil {
		return nil, err
	}
	if n > t.holdMax {
		return io.MultiReader(&held, resp.Body), nil
	}
	if resp.Request.Method != http.MethodHead {
		resp.ContentLength = n
	}
	resp.TransferEncoding, resp.Trailer = nil, nil // a kept answer has no trailers
	return &held, nil
}

// connBody closes the connection with the body.
type connBody struct {
	io.Reader
	body io.Closer
	conn io.Closer
}

func (b *connBody) Close() error { return errors.Join(b.body.Close(), b.conn.Close()) }

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// addressOf returns host and port.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// newPassTransport makes the transport of what is not protected. It keeps connections and leaves it to
// http.Transport when to send a request again; splitTransport keeps those from it where that is wrong.
func newPassTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: DialMax}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &DialError{Address: address, Cause: err}
			}
			return conn, nil
		},
		TLSHandshakeTimeout:    DialMax,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    upstreamIdleConnsMax,
		IdleConnTimeout:        upstreamIdleMax,
		DisableCompression:     true,
		MaxResponseHeaderBytes: upstreamHeaderMax,
		ExpectContinueTimeout:  time.Second,
	}
}

// splitTransport sends over kept connections what net/http repeats rightly or not at all, and anything
// else once. net/http repeats a request whose method is safe, and one that has an Idempotency-Key or
// X-Idempotency-Key, whatever its method.
type splitTransport struct {
	once *onceTransport
	pass *http.Transport
}

func (t splitTransport) CloseIdleConnections() { t.pass.CloseIdleConnections() }

func (t splitTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	_, keyed := r.Header["Idempotency-Key"]
	_, xKeyed := r.Header["X-Idempotency-Key"]
	if (keyed || xKeyed) && !isSafe(r.Method) {
		return t.once.RoundTrip(r)
	}
	return t.pass.RoundTrip(r)
}
