package idempotencyhttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/retry"
)

// sentBy runs one request through a Transport whose base answers 201, and returns what base was given.
func sentBy(t *testing.T, r *http.Request) *http.Request {
	t.Helper()
	var sent *http.Request
	rt := idempotencyhttp.Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		if sent != nil {
			t.Fatal("sent more than once")
		}
		sent = r
		return &http.Response{StatusCode: 201, Body: http.NoBody, Request: r}, nil
	}), retry.Policy{Clock: &clock{}})
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return sent
}

func TestEachIntentGetsAKeyOfItsOwnThatSortsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		seen := map[string]bool{}
		latest := ""
		for range 50 {
			for range 20 {
				key := sentBy(t, httptest.NewRequest(http.MethodPost, "http://shop/", nil)).Header.Get("Idempotency-Key")
				if !form.MatchString(key) || seen[key] {
					t.Fatalf("%q is no new UUID of version 7", key)
				}
				seen[key] = true
				ms, err := strconv.ParseInt(key[:8]+key[9:13], 16, 64)
				if err != nil || ms != time.Now().UnixMilli() {
					t.Fatalf("%q was made at %d, want %d", key, ms, time.Now().UnixMilli())
				}
				if latest != "" && key[:13] < latest[:13] {
					t.Fatalf("%q sorts before the earlier %q", key, latest)
				}
				latest = key
			}
			<-time.After(time.Millisecond) // of the bubble's clock
		}
	})
}

func TestWhichRequestsGetWhichKey(t *testing.T) {
	byHand := strings.ToLower("Idempotency-Key") // past http.Header's own spelling
	for _, c := range []struct {
		method, header, context string
		want                    string // "" is none, "new" one that was made
	}{
		{method: "POST", want: "new"},
		{method: "PATCH", want: "new"},
		{method: "POST", context: "order-17", want: "order-17"},
		{method: "PATCH", context: "order-17", want: "order-17"},
		{method: "PUT", context: "order-17", want: "order-17"},
		{method: "DELETE", context: "order-17", want: "order-17"},
		{method: "LOCK", context: "order-17", want: "order-17"},
		{method: "POST", context: "order-17", header: `"order-18"`, want: `"order-18"`},
		{method: "DELETE", header: "order-18", want: "order-18"},
		{method: "GET", header: "order-18", want: "order-18"},
		{method: "PUT"},
		{method: "DELETE"},
		{method: "GET", context: "order-17"},
		{method: "HEAD", context: "order-17"},
		{method: "OPTIONS", context: "order-17"},
		{method: "TRACE", context: "order-17"},
		{method: "", context: "order-17"},
	} {
		t.Run(c.method+" "+c.context+" "+c.header, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://shop/", nil)
			r.Method = c.method
			if c.context != "" {
				r = r.WithContext(idempotencyhttp.WithKey(r.Context(), c.context))
			}
			if c.header != "" {
				r.Header[byHand] = []string{c.header}
			}
			before := r.Header.Clone()
			sent := sentBy(t, r)
			lines := sent.Header.Values("Idempotency-Key")
			switch {
			case c.want == "" && len(lines) == 0:
			case c.want == "new" && len(lines) == 1 && len(lines[0]) == 36:
			case len(lines) == 1 && lines[0] == c.want && len(sent.Header[byHand]) == 0:
			default:
				t.Fatalf("sent %q, want %q", sent.Header, c.want)
			}
			if len(r.Header) != len(before) || r.Header.Get("Idempotency-Key") != before.Get("Idempotency-Key") {
				t.Fatalf("the caller's request was changed: %q", r.Header)
			}
		})
	}
}

func TestARequestWithoutAHeaderMapGetsItsKey(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://shop/", nil)
	r.Header = nil
	if key := sentBy(t, r).Header.Get("Idempotency-Key"); len(key) != 36 {
		t.Fatalf("the key is %q", key)
	}
}

func TestTheServiceReadsTheKeyThatTheCallerGave(t *testing.T) {
	keys := []string{
		"order-17", "a b", " a", "a ", `"`, `\`, `a\`, `a"b`, `"a"`, `\"`, "a,b", "a;b", ",", ";", " ", "  ", `\\" ;`,
		strings.Repeat("k", idempotency.KeyMax), strings.Repeat(`"`, idempotency.KeyMax),
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		key := make([]byte, 1+random.IntN(8))
		for i := range key {
			key[i] = ` "\,;ab`[random.IntN(7)]
		}
		keys = append(keys, string(key))
	}
	got := ""
	s := newSite(t, idempotencyhttp.Config{}, func(_ http.ResponseWriter, r *http.Request) {
		req, _ := idempotencyhttp.RequestFrom(r.Context())
		got = req.Key
	})
	for _, key := range keys {
		ctx := idempotencyhttp.WithKey(t.Context(), key)
		if from, ok := idempotencyhttp.KeyFrom(ctx); !ok || from != key {
			t.Fatalf("KeyFrom is %q, %v; want %q", from, ok, key)
		}
		line := sentBy(t, httptest.NewRequest(http.MethodPost, "http://shop/", nil).WithContext(ctx)).Header.Get("Idempotency-Key")
		w := s.do(post(line, charge500))
		if got != key && w.Header().Get("Idempotency-Replayed") == "" {
			t.Fatalf("key %q was sent as %s and read as %q (%d %s)", key, line, got, w.Code, w.Body)
		}
	}
	if _, ok := idempotencyhttp.KeyFrom(t.Context()); ok {
		t.Fatal("a key from nowhere")
	}
}

func TestAKeyThatCantBeUsedIsRefusedBeforeAnythingIsSent(t *testing.T) {
	mustNotSend := idempotencyhttp.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("something was sent")
		return nil, io.EOF
	}), retry.Policy{})
	for name, c := range map[string]struct {
		lines []string
		key   string
	}{
		"empty":               {key: ""},
		"too long":            {key: strings.Repeat("k", 256)},
		"not ASCII":           {key: "käse"},
		"a line break":        {key: "a\nb"},
		"two lines":           {lines: []string{"a", "b"}},
		"a blank line":        {lines: []string{" "}},
		"an empty line":       {lines: []string{""}},
		"the same line twice": {lines: []string{"a", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := &tracked{Reader: strings.NewReader("x")}
			r := httptest.NewRequest(http.MethodPost, "http://shop/", body)
			r.Body = body
			if c.lines != nil {
				r.Header["Idempotency-Key"] = c.lines
			} else {
				r = r.WithContext(idempotencyhttp.WithKey(r.Context(), c.key))
			}
			_, err := mustNotSend.RoundTrip(r)
			if !errors.Is(err, fifty.ErrInvalid) || errors.Is(err, fifty.ErrUnknownOutcome) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			body.wantClosed(t)
		})
	}
}

func TestWithoutAKeyOnlySafeMethodsAreSentAgain(t *testing.T) {
	for method, again := range map[string]bool{
		"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true,
		"PUT": false, "DELETE": false, "LOCK": false,
	} {
		s := newKeys(t, idempotencyhttp.Config{})
		s.Handler = http.HandlerFunc(charge)
		n := newNetwork(t, s, retry.Policy{}, replyLost)
		resp, err := n.client.Do(n.request(t.Context(), method, nil))
		switch {
		case again && err != nil:
			t.Fatalf("%s: %v", method, err)
		case again:
			_ = resp.Body.Close()
			n.wantArrivals(2)
		case err == nil:
			t.Fatalf("%s: got %s, want the error of the lost reply", method, resp.Status)
		default:
			n.wantArrivals(1)
		}
	}
}

func TestAReadThatFailsLeavesNothingOpen(t *testing.T) {
	n := newNetwork(t, http.NotFoundHandler(), retry.Policy{AttemptsMax: 2}, requestLost, requestLost)
	_, err := n.client.Do(n.request(t.Context(), http.MethodGet, nil))
	if !errors.Is(err, retry.ErrAttemptsMax) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v, want the attempts used up and nothing unknown", err)
	}
}

func TestPutAndDeleteWithAKeyAreSentAgainUnderIt(t *testing.T) {
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		s := newSite(t, idempotencyhttp.Config{Methods: []string{method}}, charge)
		n := newNetwork(t, s, retry.Policy{}, replyLost)
		r := n.request(idempotencyhttp.WithKey(t.Context(), "order-17"), method, strings.NewReader(charge500))
		resp, err := n.client.Do(r)
		wantCharge(t, resp, err, true)
		s.wantRuns(1)
		if key := n.wantArrivals(2); key != "order-17" {
			t.Fatalf("the key is %q", key)
		}
	}
}

func TestTransportRefusesAPolicyThatCantWork(t *testing.T) {
	for _, p := range []retry.Policy{{Base: -1}, {Cap: -1}, {ElapsedMax: -1}, {AttemptsMax: -1}} {
		func() {
			defer func() {
				if told, ok := recover().(string); !ok || !strings.Contains(told, "Policy.") {
					t.Errorf("%+v: got %v, want a panic that names the field", p, told)
				}
			}()
			idempotencyhttp.Transport(nil, p)
		}()
	}
}

// A context that has ended before: nothing is sent, and the body is closed all the same.
func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := &tracked{Reader: strings.NewReader("x")}
	r := httptest.NewRequest(http.MethodPost, "http://shop/", nil).WithContext(ctx)
	r.Body, r.GetBody = body, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }
	_, err := idempotencyhttp.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("something was sent")
		return nil, io.EOF
	}), retry.Policy{}).RoundTrip(r)
	if !errors.Is(err, context.Canceled) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	body.wantClosed(t)
}
