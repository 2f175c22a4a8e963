package idempotencyhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

func TestEveryAttemptSendsTheSameBytes(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"none":              nil,
		"empty":             plain{strings.NewReader("")},
		"with GetBody":      strings.NewReader("0123456789"),
		"without GetBody":   plain{strings.NewReader("0123456789")},
		"in small pieces":   iotest.OneByteReader(strings.NewReader("0123456789")),
		"of the bound":      plain{strings.NewReader(strings.Repeat("x", idempotencyhttp.TransportBodyMax))},
		"large, by GetBody": strings.NewReader(strings.Repeat("x", 2*idempotencyhttp.TransportBodyMax)),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{BodyMax: 1 << 30}, charge)
			n := newNetwork(t, s, retry.Policy{}, requestLost, replyLost, replyCut)
			resp, err := n.post(t.Context(), body)
			wantCharge(t, resp, err, true)
			n.wantArrivals(4)
			s.wantRuns(1)
		})
	}
}

func TestABodyThatCantBeSentAgainIsSentOnce(t *testing.T) {
	large := strings.Repeat("x", idempotencyhttp.TransportBodyMax+1)
	for name, length := range map[string]int64{"of known length": int64(len(large)), "of unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{BodyMax: 1 << 30}, charge)
			n := newNetwork(t, s, retry.Policy{}, replyLost)
			body := &tracked{Reader: strings.NewReader(large)}
			r := n.request(idempotencyhttp.WithKey(t.Context(), "order-17"), http.MethodPost, body)
			r.ContentLength = length
			resp, err := n.client.Do(r)
			wantUnknown(t, resp, err)
			body.wantClosed(t)
			n.wantArrivals(1)
			if n.arrivals[0].body != large {
				t.Fatalf("%d bytes arrived, want %d", len(n.arrivals[0].body), len(large))
			}
			n.clock.wantWaits(t, 0)

			// The caller has the body once more, and the key.
			resp, err = n.post(idempotencyhttp.WithKey(t.Context(), "order-17"), strings.NewReader(large))
			wantCharge(t, resp, err, true)
			s.wantRuns(1)
		})
	}
}

func TestAnAnswerToABodyThatCantBeSentAgainIsReturned(t *testing.T) {
	n := newNetwork(t, http.NotFoundHandler(), retry.Policy{}, says(503))
	resp, err := n.post(t.Context(), plain{strings.NewReader(strings.Repeat("x", idempotencyhttp.TransportBodyMax+1))})
	if err != nil {
		t.Fatal(err)
	}
	if a := readAll(t, resp); a.StatusCode != 503 || a.Body != "from the middle" {
		t.Fatalf("got %d %q", a.StatusCode, a.Body)
	}
	n.wantArrivals(1)
}

func TestABodyThatCantBeReadIsNotSent(t *testing.T) {
	broken := errors.New("the disk is gone")
	for name, c := range map[string]struct {
		body   io.Reader
		length int64
		want   error
	}{
		"an error at once":     {iotest.ErrReader(broken), -1, broken},
		"an error in the body": {io.MultiReader(strings.NewReader("01234"), iotest.ErrReader(broken)), -1, broken},
		"shorter than it says": {strings.NewReader("01234"), 10, fifty.ErrInvalid},
		"longer than it says":  {strings.NewReader("0123456789"), 5, fifty.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, http.NotFoundHandler(), retry.Policy{})
			body := &tracked{Reader: c.body}
			r := n.request(t.Context(), http.MethodPost, body)
			r.ContentLength = c.length
			_, err := n.client.Do(r)
			if !errors.Is(err, c.want) || errors.Is(err, fifty.ErrUnknownOutcome) {
				t.Fatalf("got %v, want %v, and nothing unknown", err, c.want)
			}
			body.wantClosed(t)
			if len(n.arrivals) != 0 {
				t.Fatal("something was sent")
			}
		})
	}
}

func TestABodyThatCantBeHadAgainEndsItWithTheOutcomeUnknown(t *testing.T) {
	for name, again := range map[string]func() (io.ReadCloser, error){
		"an error": func() (io.ReadCloser, error) { return nil, errors.New("the file is gone") },
		"nothing":  func() (io.ReadCloser, error) { return nil, nil },
	} {
		s := newSite(t, idempotencyhttp.Config{}, charge)
		n := newNetwork(t, s, retry.Policy{}, replyLost)
		r := n.request(t.Context(), http.MethodPost, strings.NewReader(charge500))
		r.GetBody = again
		resp, err := n.client.Do(r)
		if wantUnknown(t, resp, err); errors.Is(err, retry.ErrExhausted) {
			t.Fatalf("%s: %v: retried though it had no body", name, err)
		}
		n.wantArrivals(1)
	}
}

// H1: net/http itself sends a request with a key again when a connection that it kept dies. It tells nobody,
// so the handler must not run twice, and no attempt of ours is used up.
func TestARequestThatNetHTTPSendsAgainByItselfTakesEffectOnce(t *testing.T) {
	var charges atomic.Int64
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		charges.Add(1)
		charge(w, r)
	})
	var arrivals atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrivals.Add(1) == 2 {
			replyLost(w, r, s)
		}
		s.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.Start()
	t.Cleanup(srv.Close)
	waits := &clock{}
	client := &http.Client{Transport: idempotencyhttp.Transport(&http.Transport{}, retry.Policy{Clock: waits})}
	t.Cleanup(client.CloseIdleConnections)
	for _, replayed := range []bool{false, true} {
		r := onWire(t, srv.URL, "", charge500)
		r.Body, r.GetBody = io.NopCloser(strings.NewReader(charge500)), nil // one that is held makes no difference
		resp, err := client.Do(r)
		wantCharge(t, resp, err, replayed)
	}
	if charges.Load() != 2 || arrivals.Load() != 3 {
		t.Fatalf("%d charges of 2 intents in %d arrivals, want 3 arrivals", charges.Load(), arrivals.Load())
	}
	waits.wantWaits(t, 0)
}

// The same, and then nobody can be dialled: the last error says that nothing was sent, and is wrong.
func TestADialErrorAfterASilentResendIsAnUnknownOutcome(t *testing.T) {
	rt := idempotencyhttp.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{Reused: true})
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}), retry.Policy{AttemptsMax: 1})
	resp, err := rt.RoundTrip(httptest.NewRequest(http.MethodPost, "http://shop/", nil))
	wantUnknown(t, resp, err)
}

func TestAnAddressWhereNobodyListensLeavesNothingOpen(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	waits := &clock{}
	rt := idempotencyhttp.Transport(&http.Transport{}, retry.Policy{AttemptsMax: 3, Clock: waits})
	_, err = rt.RoundTrip(httptest.NewRequest(http.MethodPost, "http://"+l.Addr().String(), nil))
	if !errors.Is(err, retry.ErrAttemptsMax) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v, want three refused dials and nothing unknown", err)
	}
	waits.wantWaits(t, 2)
}

func TestACertificateThatIsRefusedIsNotTriedAgain(t *testing.T) {
	srv := httptest.NewUnstartedServer(mustNotRun(t))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	waits := &clock{}
	_, err := idempotencyhttp.Transport(&http.Transport{}, retry.Policy{Clock: waits}).
		RoundTrip(httptest.NewRequest(http.MethodPost, srv.URL, nil))
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v, want the certificate refused and nothing unknown", err)
	}
	waits.wantWaits(t, 0)
}

func TestATransportOnAnotherHasOneKeyWithIt(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	n := newNetwork(t, s, retry.Policy{AttemptsMax: 2}, replyLost, requestLost, replyCut)
	n.client.Transport = idempotencyhttp.Transport(n.client.Transport, retry.Policy{Clock: n.clock})
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	wantCharge(t, resp, err, true)
	n.wantArrivals(4)
	s.wantRuns(1)
}

func TestIdleConnectionsOfTheBaseAreClosed(t *testing.T) {
	base := &idle{}
	(&http.Client{Transport: idempotencyhttp.Transport(base, retry.Policy{})}).CloseIdleConnections()
	if !base.closed {
		t.Fatal("the base was not told")
	}
	(&http.Client{Transport: idempotencyhttp.Transport(roundTripper(nil), retry.Policy{})}).CloseIdleConnections()
}

type idle struct {
	roundTripper
	closed bool
}

func (i *idle) CloseIdleConnections() { i.closed = true }

// A deadline of the context reads as a time-out to whoever asks net/url's error, and keeps the key.
func TestADeadlineIsATimeoutAndKeepsTheKey(t *testing.T) {
	arrived := make(chan struct{})
	left := make(chan struct{})
	n := newNetwork(t, http.NotFoundHandler(), retry.Policy{}, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		close(arrived)
		<-left
	})
	t.Cleanup(func() { close(left) })
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(context.DeadlineExceeded) // stands for the deadline, and comes when the request is there
	}()
	resp, err := n.post(idempotencyhttp.WithKey(ctx, "order-17"), nil)
	if key := wantUnknown(t, resp, err); key != "order-17" {
		t.Fatalf("the key is %q", key)
	}
	timed, ok := errors.AsType[net.Error](err)
	if !ok || !timed.Timeout() {
		t.Fatalf("got %v, want a time-out", err)
	}
}

// Informational answers, trailers and a switch of protocols are the base's business.
func TestASwitchOfProtocolsIsPassedOn(t *testing.T) {
	n := newNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString(line)
		_ = rw.Flush()
	}), retry.Policy{})
	r := n.request(t.Context(), http.MethodGet, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	r.Header.Set("Idempotency-Key", "k")
	resp, err := n.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	both, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %s with a %T", resp.Status, resp.Body)
	}
	defer func() { _ = both.Close() }()
	if _, err := io.WriteString(both, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(both).ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

func TestTrailersOfARequestAreSent(t *testing.T) {
	got := ""
	n := newNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.Trailer.Get("Digest") }), retry.Policy{})
	r := n.request(t.Context(), http.MethodPost, nil)
	r.Trailer = http.Header{"Digest": nil}
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader([]byte("body")), readFunc(func([]byte) (int, error) {
		r.Trailer.Set("Digest", "d")
		return 0, io.EOF
	})))
	r.ContentLength = -1
	resp, err := n.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got != "d" {
		t.Fatalf("the trailer is %q", got)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
