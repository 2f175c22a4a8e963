package server

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// takesAndHangsUp is an upstream that reads each request, performs its effect and closes the connection
// without an answer. Only a GET is answered, and leaves a connection behind for the next request.
type takesAndHangsUp struct{ effects atomic.Int64 }

func (u *takesAndHangsUp) start(t testing.TB) *url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { u.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

func (u *takesAndHangsUp) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.Method != http.MethodGet {
			u.effects.Add(1)
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// newRequest makes a request whose body net/http could send again.
func newRequest(t testing.TB, method string, u *url.URL, body string) *http.Request {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body) // gives the request a GetBody
	}
	r, err := http.NewRequestWithContext(t.Context(), method, u.String(), from)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	return r
}

// TestARequestIsSentOnceThoughItsConnectionDies is H1. The last rows show that net/http's own transport
// makes two effects of one request here, so that this test would see it.
func TestARequestIsSentOnceThoughItsConnectionDies(t *testing.T) {
	for _, c := range []struct {
		name, body string
		getFirst   bool
		transport  interface {
			http.RoundTripper
			CloseIdleConnections()
		}
		effects int64
	}{
		{"with a body", "{}", false, newOnceTransport(1 << 20), 1},
		{"without a body", "", false, newOnceTransport(1 << 20), 1},
		{"with a body, after another request", "{}", true, newOnceTransport(1 << 20), 1},
		{"without a body, after another request", "", true, newOnceTransport(1 << 20), 1},
		{"passed, with a body, after another request", "{}", true, splitTransport{newOnceTransport(0), newPassTransport()}, 1},
		{"passed, without a body, after another request", "", true, splitTransport{newOnceTransport(0), newPassTransport()}, 1},
		{"net/http, with a body, after another request", "{}", true, newPassTransport(), 2},
		{"net/http, without a body, after another request", "", true, newPassTransport(), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer c.transport.CloseIdleConnections()
			upstream := &takesAndHangsUp{}
			u := upstream.start(t)
			if c.getFirst {
				resp, err := c.transport.RoundTrip(newRequest(t, http.MethodGet, u, ""))
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			resp, err := c.transport.RoundTrip(newRequest(t, http.MethodDelete, u, c.body))
			if err == nil {
				_ = resp.Body.Close()
				t.Fatalf("answered with %d, though nobody did", resp.StatusCode)
			}
			if _, dialled := errors.AsType[*DialError](err); dialled {
				t.Errorf("a connection that died counts as one that was never made: %v", err)
			}
			if got := upstream.effects.Load(); got != c.effects {
				t.Errorf("%d effects, want %d", got, c.effects)
			}
		})
	}
}

func TestOnlyADialThatFailedSaysThatNothingWasSent(t *testing.T) {
	// A port that was free a moment ago, and nobody listens on.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	_ = l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()
	hostOf := func(s *httptest.Server) string {
		return strings.TrimPrefix(s.URL, s.URL[:strings.Index(s.URL, "//")+2])
	}

	for _, c := range []struct{ name, url string }{
		{"nobody listens", "http://" + closed},
		{"no such host", "http://host.invalid"},
		{"no TLS there", "https://" + hostOf(plain)},
		{"a certificate of nobody known", "https://" + hostOf(secure)},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := url.Parse(c.url)
			if err != nil {
				t.Fatal(err)
			}
			_, err = newOnceTransport(1).RoundTrip(newRequest(t, http.MethodPost, u, "{}"))
			dial, ok := errors.AsType[*DialError](err)
			if !ok || dial.Address != addressOf(u) || dial.Unwrap() == nil {
				t.Errorf("got %v, want a DialError for %s", err, addressOf(u))
			}
		})
	}
}

// TestAnUpstreamWithTLSIsSpokenToInHTTP1: an HTTP/2 client resends by itself what the server says it refused.
func TestAnUpstreamWithTLSIsSpokenToInHTTP1(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := newOnceTransport(1 << 20)
	transport.dialer.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.dialer.TLSClientConfig.RootCAs.AddCert(s.Certificate())
	resp, err := transport.RoundTrip(newRequest(t, http.MethodPost, u, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "HTTP/1.1" {
		t.Errorf("the upstream was spoken to in %q, %v", text, err)
	}
}

func TestADialIsBounded(t *testing.T) {
	transport := newOnceTransport(1)
	waiting := make(chan struct{})
	transport.dialMax = time.Millisecond
	transport.dialer.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		defer close(waiting)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	_, err := transport.RoundTrip(newRequest(t, http.MethodPost, &url.URL{Scheme: "http", Host: "silent.invalid"}, ""))
	if _, ok := errors.AsType[*DialError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a DialError for the time that is over", err)
	}
	<-waiting
}

// answers serves one fixed answer, byte by byte as it is given, and closes the connection.
func answers(t testing.TB, raw string) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, out, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = out.WriteString(raw)
		_ = out.Flush()
		_ = conn.Close()
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAnAnswerIsWholeOrAnError(t *testing.T) {
	const hold = 10
	for _, c := range []struct {
		name, raw string
		whole     bool // RoundTrip returns it
		length    int64
		body      string
	}{
		{"whole", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbody", true, 4, "body"},
		{"cut short", "HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nbo", false, 0, ""},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", true, 0, ""},
		{"in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\nX-Sum: 1\r\n\r\n", true, 4, "body"},
		{"in chunks, cut short", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n", false, 0, ""},
		{"until the end", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody", true, 4, "body"},
		{"as much as is held", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789", true, 10, "0123456789"},
		{"more than is held", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789a", true, -1, "0123456789a"},
		{"more than is held, of known length", "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a", true, 11, "0123456789a"},
		{"nothing", "", false, 0, ""},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", false, 0, ""},
		{"no HTTP", "hello\r\n\r\n", false, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := newOnceTransport(hold).RoundTrip(newRequest(t, http.MethodPost, answers(t, c.raw), "{}"))
			if !c.whole {
				if _, dialled := errors.AsType[*DialError](err); err == nil || dialled {
					t.Fatalf("got %v, %v; want an error that leaves the outcome open", resp, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != c.body || resp.ContentLength != c.length || len(resp.Trailer) > 0 {
				t.Errorf("got %q of length %d, trailer %v, %v; want %q of length %d", body, resp.ContentLength, resp.Trailer, err, c.body, c.length)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStreamIsPassedOnAsItComes(t *testing.T) {
	more := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "data: 2\n\n")
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := newOnceTransport(1 << 20).RoundTrip(newRequest(t, http.MethodPost, u, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, len("data: 1\n\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	close(more) // only now does the upstream go on
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != "data: 2\n\n" {
		t.Errorf("got %q, %v", rest, err)
	}
}
