package idempotencyhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

const charge500 = `{"amount":500}`

// wantCharge checks that an answer is that of charge, whole.
func wantCharge(t *testing.T, resp *http.Response, err error, replayed bool) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	a := readAll(t, resp)
	if a.StatusCode != http.StatusCreated || a.Body != `{"id":"ch_1"}` || a.Header.Get("Location") != "/charges/ch_1" {
		t.Fatalf("got %d %q, want the charge", a.StatusCode, a.Body)
	}
	if got := a.Header.Get("Idempotency-Replayed") == "true"; got != replayed {
		t.Fatalf("replayed is %v, want %v", got, replayed)
	}
}

// wantUnknown checks that an error says that the request may have taken effect, and returns its key.
func wantUnknown(t *testing.T, resp *http.Response, err error) string {
	t.Helper()
	if err == nil {
		t.Fatalf("got %s, want an error", resp.Status)
	}
	failed, ok := errors.AsType[*idempotencyhttp.TransportError](err)
	if !ok || !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v, want a TransportError that is an ErrUnknownOutcome", err)
	}
	return failed.Key
}

func TestOneEffectAndItsAnswerWhateverBecomesOfTheReplies(t *testing.T) {
	for name, faults := range map[string][]fault{
		"request lost":          {requestLost},
		"reply lost":            {replyLost},
		"reply cut in its body": {replyCut},
		"lost, lost, cut, lost": {requestLost, replyLost, replyCut, replyLost},
		"a gateway times out after it": {func(w http.ResponseWriter, r *http.Request, s http.Handler) {
			s.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(504)
		}},
		"the site is shedding load, twice": {says(503, "Retry-After: 2"), says(429)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, charge)
			n := newNetwork(t, s, retry.Policy{}, faults...)
			resp, err := n.post(t.Context(), strings.NewReader(charge500))
			ran := !strings.HasPrefix(name, "request") && !strings.HasPrefix(name, "the site")
			wantCharge(t, resp, err, ran)
			s.wantRuns(1)
			if key := n.wantArrivals(len(faults) + 1); key == "" {
				t.Fatal("there was no key")
			}
			n.clock.wantWaits(t, len(faults))
		})
	}
}

func TestARequestThatArrivesLongAfterItsRetryHasNoEffect(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	var zombie *http.Request
	n := newNetwork(t, s, retry.Policy{}, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		body, _ := io.ReadAll(r.Body)
		zombie = r.Clone(context.Background())
		zombie.Body = io.NopCloser(bytes.NewReader(body))
		panic(http.ErrAbortHandler)
	})
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	wantCharge(t, resp, err, false)
	wantReplay(t, s.do(zombie), http.StatusCreated, `{"id":"ch_1"}`)
	s.wantRuns(1)
}

func TestADuplicateInFlightWaitsAsItIsToldAndGetsTheAnswer(t *testing.T) {
	started, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-release
		charge(w, r)
	})
	n := newNetwork(t, s, retry.Policy{}, func(_ http.ResponseWriter, r *http.Request, site http.Handler) {
		r = r.Clone(context.WithoutCancel(r.Context()))
		go func() {
			defer close(done)
			site.ServeHTTP(httptest.NewRecorder(), r)
		}()
		<-started
		panic(http.ErrAbortHandler) // the client loses the connection while the work goes on
	})
	n.clock.during = func(nth int) {
		if nth == 3 { // two retries have been told that the first is at work
			close(release)
			<-done
		}
	}
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	wantCharge(t, resp, err, true)
	s.wantRuns(1)
	n.wantArrivals(4)
	for _, wait := range n.clock.waits[1:] {
		if wait < time.Second {
			t.Fatalf("waited %v after an answer that asked for 1s", wait)
		}
	}
}

func TestALongerWaitThanThePolicyHasEndsItWithTheAnswer(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, mustNotRun(t))
	n := newNetwork(t, s, retry.Policy{ElapsedMax: time.Minute}, says(503, "Retry-After: 3600"))
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	if err != nil {
		t.Fatal(err)
	}
	if a := readAll(t, resp); a.StatusCode != 503 || a.Header.Get("Retry-After") != "3600" || a.Body != "from the middle" {
		t.Fatalf("got %d %q, want the 503 as it came", a.StatusCode, a.Body)
	}
	n.wantArrivals(1)
	n.clock.wantWaits(t, 0)
}

func TestTheLastAnswerComesAsItIsWhenTheAttemptsAreUsedUp(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, mustNotRun(t))
	n := newNetwork(t, s, retry.Policy{AttemptsMax: 3}, says(429), says(502), says(503, "X-Trace: 7"))
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	if err != nil {
		t.Fatal(err)
	}
	key := n.wantArrivals(3)
	if got := resp.Request.Header.Get("Idempotency-Key"); got != key {
		t.Fatalf("the answer belongs to key %q, %q was sent", got, key)
	}
	if a := readAll(t, resp); a.StatusCode != 503 || a.Header.Get("X-Trace") != "7" || a.Body != "from the middle" {
		t.Fatalf("got %d %q, want the last 503 as it came", a.StatusCode, a.Body)
	}
}

func TestAnAnswerAboutItsAttemptDoesNotHideThatAnEarlierOneMayHaveTakenEffect(t *testing.T) {
	for name, last := range map[string]fault{
		"429":                says(429, "Retry-After: 3600"),
		"401":                says(401),
		"407":                says(407),
		"store-unavailable":  tells("store-unavailable", 503, time.Hour),
		"scope-missing":      tells("scope-missing", 401, 0),
		"key-missing":        tells("key-missing", 400, 0), // something on the way took it out
		"key-invalid":        tells("key-invalid", 400, 0),
		"method-not-allowed": tells("method-not-allowed", 405, 0),
		"body-too-large":     tells("body-too-large", 413, 0),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, charge)
			n := newNetwork(t, s, retry.Policy{}, replyLost, last)
			resp, err := n.post(t.Context(), strings.NewReader(charge500))
			key := wantUnknown(t, resp, err)
			if answer, ok := errors.AsType[*idempotencyhttp.AnswerError](err); !ok || answer.Status < 400 {
				t.Fatalf("got %v, want the last answer in it", err)
			}
			if sent := n.wantArrivals(2); sent != key {
				t.Fatalf("the error names key %q, %q was sent", key, sent)
			}

			// The error says what to do: the same again with the same key.
			resp, err = n.post(idempotencyhttp.WithKey(t.Context(), key), strings.NewReader(charge500))
			wantCharge(t, resp, err, true)
			s.wantRuns(1)
		})
	}
}

func TestAnAnswerThatNothingWasDoneIsGivenWhenNothingWasDone(t *testing.T) {
	for _, status := range []int{401, 407, 408, 425, 429} {
		s := newSite(t, idempotencyhttp.Config{}, mustNotRun(t))
		n := newNetwork(t, s, retry.Policy{AttemptsMax: 2}, says(status), says(status))
		resp, err := n.post(t.Context(), strings.NewReader(charge500))
		if err != nil {
			t.Fatal(err)
		}
		if a := readAll(t, resp); a.StatusCode != status || a.Body != "from the middle" {
			t.Fatalf("got %d %q, want %d", a.StatusCode, a.Body, status)
		}
	}
}

func TestAFailureOfTheHandlerIsToldAsUnresolvedAndNotRunAgain(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	n := newNetwork(t, s, retry.Policy{}, nil)
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	if err != nil {
		t.Fatal(err)
	}
	p, ok := idempotencyhttp.ProblemFrom(resp)
	if !ok || p.Name != "unresolved" || resp.StatusCode != http.StatusConflict {
		t.Fatalf("got %s %+v, want unresolved", resp.Status, p)
	}
	wantProblemOf(t, readAll(t, resp), "unresolved", http.StatusConflict)
	s.wantRuns(1)
	n.wantArrivals(2)
}

func TestAKeptFailureIsFinal(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Keep: func(int) idempotencyhttp.Keep { return idempotencyhttp.Stored }},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	n := newNetwork(t, s, retry.Policy{})
	resp, err := n.post(t.Context(), strings.NewReader(charge500))
	if err != nil {
		t.Fatal(err)
	}
	if a := readAll(t, resp); a.StatusCode != 500 || a.Header.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("got %d, replayed %q", a.StatusCode, a.Header.Get("Idempotency-Replayed"))
	}
	n.wantArrivals(2) // the second shows that it is kept, and there is no third
	s.wantRuns(1)
}

func TestAClientThatGivesUpLearnsThatTheOutcomeIsUnknownAndUnderWhichKey(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	n := newNetwork(t, s, retry.Policy{}, replyLost)
	ctx, cancel := context.WithCancel(t.Context())
	n.clock.during = func(int) { cancel() }
	resp, err := n.post(ctx, strings.NewReader(charge500))
	key := wantUnknown(t, resp, err)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the end of the context in it", err)
	}
	resp, err = n.post(idempotencyhttp.WithKey(t.Context(), key), strings.NewReader(charge500))
	wantCharge(t, resp, err, true)
	s.wantRuns(1)
}

func TestAContextThatEndsInAWaitAfterAnAnswerIsAnError(t *testing.T) {
	n := newNetwork(t, http.NotFoundHandler(), retry.Policy{}, says(429))
	ctx, cancel := context.WithCancel(t.Context())
	n.clock.during = func(int) { cancel() }
	resp, err := n.post(ctx, strings.NewReader(charge500))
	if !errors.Is(err, context.Canceled) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v %v, want only the end of the context: nothing was done", resp, err)
	}
}

func TestADialThatFailedLeavesNothingOpenUnlessSomethingWasSentBefore(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		before  error
		unknown bool
	}{
		"dials only":           {before: refused},
		"after a lost reply":   {before: io.ErrUnexpectedEOF, unknown: true},
		"after a failed write": {before: &net.OpError{Op: "write", Net: "tcp", Err: errors.New("broken pipe")}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			rt := idempotencyhttp.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
				if attempts++; attempts == 1 {
					return nil, c.before
				}
				return nil, refused
			}), retry.Policy{Clock: &clock{}, AttemptsMax: 3})
			_, err := rt.RoundTrip(httptest.NewRequest(http.MethodPost, "http://shop/charges", nil))
			if errors.Is(err, fifty.ErrUnknownOutcome) != c.unknown || !errors.Is(err, retry.ErrAttemptsMax) || attempts != 3 {
				t.Fatalf("got %v after %d attempts, want unknown: %v", err, attempts, c.unknown)
			}
		})
	}
}

func TestConcurrentClientsOfOneIntentGetOneEffectAndOneAnswer(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	var faults []fault
	for range 6 {
		faults = append(faults, replyLost, requestLost, replyCut, nil, says(503))
	}
	n := newNetwork(t, s, retry.Policy{AttemptsMax: 100, ElapsedMax: 24 * time.Hour}, faults...)
	ctx := idempotencyhttp.WithKey(t.Context(), "order-17")
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			resp, err := n.post(ctx, strings.NewReader(charge500))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 201 || string(body) != `{"id":"ch_1"}` {
				t.Errorf("got %d %q %v", resp.StatusCode, body, err)
			}
		})
	}
	clients.Wait()
	s.wantRuns(1)
}
