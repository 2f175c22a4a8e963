package idempotencyhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

func TestWhichAnswersAreFollowedByAnotherAttempt(t *testing.T) {
	for _, c := range []struct {
		name        string
		answer      fault
		keyed, read bool // sent again: with a key, and for a GET without
	}{
		{"200", says(200), false, false},
		{"202 with a Retry-After", says(202, "Retry-After: 1"), false, false},
		{"204", says(204), false, false},
		{"400", says(400), false, false},
		{"401", says(401), false, false},
		{"402", says(402), false, false},
		{"403", says(403, "Retry-After: 1"), false, false},
		{"404", says(404), false, false},
		{"407", says(407), false, false},
		{"408", says(408), true, true},
		{"409", says(409), false, false},
		{"409 with a Retry-After", says(409, "Retry-After: 1"), true, false},
		{"410", says(410), false, false},
		{"422", says(422), false, false},
		{"425", says(425), true, true},
		{"429", says(429), true, true},
		{"500", says(500), true, true},
		{"501", says(501), false, false},
		{"502", says(502), true, true},
		{"503", says(503), true, true},
		{"504", says(504), true, true},
		{"505", says(505), false, false},
		{"507", says(507), false, false},
		{"511", says(511), false, false},
		{"a kept 500", says(500, "Idempotency-Replayed: true"), false, false},
		{"a kept 429", says(429, "Idempotency-Replayed: true"), false, false},
		{"a kept 409 with a Retry-After", says(409, "Idempotency-Replayed: true", "Retry-After: 1"), false, false},
		{"in-flight", tells("in-flight", 409, time.Second), true, false},
		{"in-flight without a wait", tells("in-flight", 409, 0), true, false},
		{"unresolved", tells("unresolved", 409, 0), false, false},
		{"unresolved with a wait", tells("unresolved", 409, time.Second), false, false},
		{"not-replayable", tells("not-replayable", 409, time.Second), false, false},
		{"mismatch", tells("mismatch", 422, time.Second), false, false},
		{"expired", tells("expired", 410, time.Second), false, false},
		{"unknown", tells("unknown", 503, time.Second), true, true},
		{"store-unavailable", tells("store-unavailable", 503, time.Second), true, true},
		{"upstream-unreachable", tells("upstream-unreachable", 502, time.Second), true, true},
		{"body-incomplete", tells("body-incomplete", 400, 0), true, false},
		{"key-missing", tells("key-missing", 400, time.Second), false, false},
		{"key-invalid", tells("key-invalid", 400, time.Second), false, false},
		{"scope-missing", tells("scope-missing", 401, time.Second), false, false},
		{"method-not-allowed", tells("method-not-allowed", 405, 0), false, false},
		{"body-too-large", tells("body-too-large", 413, time.Second), false, false},
		{"answer-too-large", tells("answer-too-large", 500, 0), false, true},
		{"a problem of another release, 503", tells("of-tomorrow", 503, 0), true, true},
		{"a problem of another release, 400", tells("of-tomorrow", 400, 0), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for method, again := range map[string]bool{http.MethodPost: c.keyed, http.MethodGet: c.read} {
				n := newNetwork(t, http.HandlerFunc(charge), retry.Policy{}, c.answer)
				resp, err := n.client.Do(n.request(t.Context(), method, nil))
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if again && resp.StatusCode != http.StatusCreated {
					t.Fatalf("%s ended with %s, want another attempt", method, resp.Status)
				}
				n.wantArrivals(map[bool]int{false: 1, true: 2}[again])
			}
		})
	}
}

func TestWhichAnswersLeaveOpenWhetherTheWorkHappened(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer fault
		open   bool
	}{
		{"408", says(408), false},
		{"425", says(425), false},
		{"429", says(429), false},
		{"store-unavailable", tells("store-unavailable", 503, 0), false},
		{"upstream-unreachable", tells("upstream-unreachable", 502, 0), false},
		{"body-incomplete", tells("body-incomplete", 400, 0), false},
		{"409 with a Retry-After", says(409, "Retry-After: 1"), true},
		{"in-flight", tells("in-flight", 409, 0), true},
		{"unknown", tells("unknown", 503, 0), true},
		{"500", says(500), true},
		{"502", says(502), true},
		{"503", says(503), true},
		{"504", says(504), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Another answer follows, which by itself says that nothing was done.
			n := newNetwork(t, http.HandlerFunc(charge), retry.Policy{}, c.answer, says(401))
			resp, err := n.post(t.Context(), nil)
			if c.open {
				wantUnknown(t, resp, err)
			} else if err != nil || resp.StatusCode != 401 {
				t.Fatalf("got %v %v, want the 401", resp, err)
			}
			n.wantArrivals(2)
		})
	}
	n := newNetwork(t, http.HandlerFunc(charge), retry.Policy{}, says(502), says(401))
	if resp, err := n.client.Do(n.request(t.Context(), http.MethodGet, nil)); err != nil || resp.StatusCode != 401 {
		t.Fatalf("got %v %v, want the 401: a read leaves nothing open", resp, err)
	}
}

func TestAProblemOfUnknownLengthIsReadAsWell(t *testing.T) {
	chunked := func(f fault) fault {
		return func(w http.ResponseWriter, r *http.Request, site http.Handler) {
			rec := httptest.NewRecorder()
			f(rec, r, site)
			rec.Header().Del("Content-Length")
			for field, values := range rec.Header() {
				w.Header()[field] = values
			}
			w.WriteHeader(rec.Code)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(rec.Body.Bytes())
		}
	}
	n := newNetwork(t, http.HandlerFunc(charge), retry.Policy{}, chunked(tells("body-incomplete", 400, 0)), chunked(tells("in-flight", 409, 0)))
	resp, err := n.post(t.Context(), nil)
	wantCharge(t, resp, err, false)
	n.wantArrivals(3)
}

func TestAPolicyCanForbidToRepeatA500(t *testing.T) {
	p := retry.Policy{Retryable: func(err error) bool {
		answer, ok := errors.AsType[*idempotencyhttp.AnswerError](err)
		return !ok || answer.Status != http.StatusInternalServerError
	}}
	n := newNetwork(t, http.HandlerFunc(charge), p, says(503), says(500))
	resp, err := n.post(t.Context(), nil)
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Fatalf("got %v %v, want the 500", resp, err)
	}
	if a := readAll(t, resp); a.Body != "from the middle" {
		t.Fatalf("the answer's body is %q", a.Body)
	}
	n.wantArrivals(2)
}

// A client whose clock is an hour wrong waits no hour: the date counts from the answer's own.
func TestARetryAfterDateIsReadByTheClockThatWroteIt(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		theirs := time.Now().Add(off).UTC().Truncate(time.Second)
		n := newNetwork(t, http.HandlerFunc(charge), retry.Policy{Base: time.Millisecond},
			says(503, "Date: "+theirs.Format(http.TimeFormat), "Retry-After: "+theirs.Add(7*time.Second).Format(http.TimeFormat)))
		resp, err := n.post(t.Context(), nil)
		wantCharge(t, resp, err, false)
		n.clock.wantWaits(t, 1)
		if wait := n.clock.waits[0]; wait < 7*time.Second || wait > 7*time.Second+time.Millisecond {
			t.Fatalf("waited %v, want 7s and jitter", wait)
		}
	}
}

func TestEveryAnswerThatIsNotReturnedIsClosed(t *testing.T) {
	for name, size := range map[string]int{"small": 5, "larger than what is held": idempotencyhttp.TransportBodyMax + 1} {
		t.Run(name, func(t *testing.T) {
			var bodies []*tracked
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				b := &tracked{Reader: strings.NewReader(strings.Repeat("x", size))}
				bodies = append(bodies, b)
				return &http.Response{StatusCode: 503, ContentLength: -1, Body: b, Header: http.Header{}}, nil
			})
			resp, err := idempotencyhttp.Transport(base, retry.Policy{Clock: &clock{}, AttemptsMax: 3}).
				RoundTrip(httptest.NewRequest(http.MethodPost, "http://shop/", nil))
			if err != nil || len(bodies) != 3 {
				t.Fatalf("%v after %d attempts", err, len(bodies))
			}
			for _, b := range bodies[:2] {
				b.wantClosed(t)
			}
			if a := readAll(t, resp); len(a.Body) != size {
				t.Fatalf("the last answer has %d bytes, want %d", len(a.Body), size)
			}
			bodies[2].wantClosed(t)
		})
	}
}

func TestAStreamedAnswerIsPassedOnAsItComes(t *testing.T) {
	next := make(chan struct{})
	n := newNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first,")
		_ = http.NewResponseController(w).Flush()
		<-next
		_, _ = io.WriteString(w, "second")
	}), retry.Policy{})
	resp, err := n.post(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 6)
	if _, err := io.ReadFull(resp.Body, first); err != nil || string(first) != "first," {
		t.Fatalf("got %q, %v", first, err)
	}
	close(next) // the handler was still at work when its first part was here
	if a := readAll(t, resp); a.Body != "second" {
		t.Fatalf("got %q", a.Body)
	}
}

func TestAnAnswerThatBreaksOffEachTimeIsAnUnknownOutcome(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	n := newNetwork(t, s, retry.Policy{AttemptsMax: 2}, replyCut, replyCut)
	resp, err := n.post(t.Context(), nil)
	key := wantUnknown(t, resp, err)
	resp, err = n.post(idempotencyhttp.WithKey(t.Context(), key), nil)
	wantCharge(t, resp, err, true)
	s.wantRuns(1)
}

func TestABaseThatRefusesTheRequestLeavesNothingOpen(t *testing.T) {
	refused := &fifty.InvalidError{Field: "Request.URL", Problem: "names no upstream"}
	waits := &clock{}
	_, err := idempotencyhttp.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, refused }),
		retry.Policy{Clock: waits}).RoundTrip(httptest.NewRequest(http.MethodPost, "http://shop/", nil))
	if !errors.Is(err, fifty.ErrInvalid) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v, want what the base said", err)
	}
	waits.wantWaits(t, 0)
}

func TestABaseWithoutAnAnswerIsAnError(t *testing.T) {
	_, err := idempotencyhttp.Transport(roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }),
		retry.Policy{AttemptsMax: 1}).RoundTrip(httptest.NewRequest(http.MethodPost, "http://shop/", nil))
	wantUnknown(t, nil, err)
}

func TestAnAnswerErrorReadsWell(t *testing.T) {
	n := newNetwork(t, http.NotFoundHandler(), retry.Policy{AttemptsMax: 1},
		replyLost, tells("store-unavailable", 503, time.Second))
	n.client = &http.Client{Transport: idempotencyhttp.Transport(n.direct.Transport, retry.Policy{AttemptsMax: 2, Clock: n.clock})}
	_, err := n.post(idempotencyhttp.WithKey(t.Context(), "order-17"), nil)
	for _, want := range []string{`key "order-17"`, "answered 503: store-unavailable: d", "outcome unknown", "EOF", "attempts used up"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Fatalf("%v: %q is missing", err, want)
		}
	}
}
