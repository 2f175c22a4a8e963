package idempotencyhttp_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// calls is a client that counts what reaches it.
type calls struct {
	*httptest.ResponseRecorder
	n int
}

func (c *calls) WriteHeader(status int) { c.n++; c.ResponseRecorder.WriteHeader(status) }

func (c *calls) Write(p []byte) (int, error) { c.n++; return c.ResponseRecorder.Write(p) }

func TestNothingOfTheAnswerLeavesBeforeItIsRecorded(t *testing.T) {
	client := &calls{ResponseRecorder: httptest.NewRecorder()}
	recording, release := make(chan struct{}), make(chan struct{})
	s := newSite(t, idempotencyhttp.Config{}, charge)
	s.store.complete = func(c idempotency.Completion) error {
		close(recording)
		<-release
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeHTTP(client, post("k", "{}"))
	}()
	<-recording
	if client.n > 0 {
		t.Errorf("%d calls, %q", client.n, client.Body)
	}
	close(release)
	<-done
	wantFirst(t, client.ResponseRecorder, 201, `{"id":"ch_1"}`)
}

// inspect serves one request to a handler and its retry, over a network, and returns both answers.
func inspect(t *testing.T, method string, h http.HandlerFunc) (first, second answer) {
	t.Helper()
	s := newSite(t, idempotencyhttp.Config{Methods: []string{method}}, h)
	url, client := s.serve(nil)
	ask := func() answer {
		r := onWire(t, url, "k", "{}")
		r.Method = method
		return send(t, client, r)
	}
	first, second = ask(), ask()
	if second.StatusCode != first.StatusCode || second.Body != first.Body || second.Header.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("first %d %q, second %d %q, %v", first.StatusCode, first.Body, second.StatusCode, second.Body, second.Header)
	}
	s.wantRuns(1)
	return first, second
}

// wantSameHeader checks that two answers differ only in their time and the mark of a replay.
func wantSameHeader(t *testing.T, first, second answer) {
	t.Helper()
	a, b := first.Header.Clone(), second.Header.Clone()
	for _, name := range []string{"Date", "Idempotency-Replayed"} {
		delete(a, name)
		delete(b, name)
	}
	if !maps.EqualFunc(a, b, slices.Equal) || first.ContentLength != second.ContentLength {
		t.Fatalf("first %v (length %d)\nsecond %v (length %d)", a, first.ContentLength, b, second.ContentLength)
	}
}

func TestReplayHasEveryFieldOfTheFirstAnswer(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"201 with Location": charge,
		"empty 200":         func(w http.ResponseWriter, r *http.Request) {},
		"empty 202":         func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) },
		"204":               func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"304 with an ETag":  func(w http.ResponseWriter, r *http.Request) { w.Header().Set("ETag", `"1"`); w.WriteHeader(304) },
		"a type that net/http guesses": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "<html>")
			_, _ = io.WriteString(w, "<body>")
		},
		"a type that is left out on purpose": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(w, "<html>")
		},
		"a compressed body without a type": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "<html>")
		},
		"more than net/http buffers": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
		},
		"a Content-Length that is no number": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "many")
			_, _ = io.WriteString(w, "x")
		},
		"lists and repeated fields": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["X-List"] = []string{"a, b", "c", ""}
			w.Header().Add("Link", "<a>; rel=next")
			w.Header().Add("Link", "<b>; rel=prev")
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := inspect(t, http.MethodPost, h)
			wantSameHeader(t, first, second)
		})
	}
}

func TestHEADIsReplayedWithoutABody(t *testing.T) {
	first, second := inspect(t, http.MethodHead, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1234")
		if n, err := io.WriteString(w, "eaten"); n != 5 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	wantSameHeader(t, first, second)
	if first.Body != "" || first.ContentLength != 1234 {
		t.Fatalf("%q, length %d", first.Body, first.ContentLength)
	}
}

func TestStatusWithoutABodyTakesNone(t *testing.T) {
	inspect(t, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			t.Errorf("%v", err)
		}
	})
}

func TestHeaderCountsAsItWasWhenTheAnswerBegan(t *testing.T) {
	first, second := inspect(t, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot) // superfluous
		w.Header().Set("X-Late", "1")
		w.Header()["X-Early"][0] = "2"
	})
	for _, res := range []answer{first, second} {
		if res.StatusCode != 201 || res.Header.Get("X-Early") != "1" || res.Header.Get("X-Late") != "" {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
	}
}

func TestInformationalAnswersAreDropped(t *testing.T) {
	first, second := inspect(t, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusSwitchingProtocols)
		charge(w, r)
	})
	if first.StatusCode != 201 || second.StatusCode != 201 {
		t.Fatalf("%d, %d", first.StatusCode, second.StatusCode)
	}
}

func TestStatusThatIsNoneIsNeverStored(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(42) })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic, as net/http has it")
			}
		}()
		s.do(post("k", "{}"))
	}()
	wantProblemIn(t, s.do(post("k", "{}")), "unresolved", 409)
}

func TestFieldsAboutOneConnectionAreNotReplayed(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Connection", "close, X-Per-Hop")
		h.Set("X-Per-Hop", "1")
		for _, name := range []string{
			"Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Proxy-Authentication-Info", "TE", "Upgrade", "Transfer-Encoding",
		} {
			h.Set(name, "x")
		}
		h.Set("X-Kept", "1")
	})
	s.do(post("k", "{}"))
	rec, err := s.keys.Find(t.Context(), "acme", "k")
	if err != nil {
		t.Fatal(err)
	}
	if kept := slices.Collect(maps.Keys(rec.Response.Header)); !slices.Equal(kept, []string{"X-Kept"}) {
		t.Fatalf("stored %v", rec.Response.Header)
	}
}

func TestFieldsOfOuterHandlersAreSentAndNotKept(t *testing.T) {
	attempt := 0
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		if got := w.Header().Get("X-Request-Id"); got != "" {
			t.Errorf("the handler sees %q of an outer one", got)
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Add("Set-Cookie", "cart=1")
		w.Header().Add("Vary", "Accept")
		_, _ = io.WriteString(w, "x")
	})
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		attempt++
		w.Header().Set("X-Request-Id", fmt.Sprint(attempt))
		w.Header().Set("Cache-Control", "public")
		w.Header().Set("Content-Type", "text/x-outer")
		w.Header().Add("Set-Cookie", fmt.Sprint("session=", attempt))
		w.Header().Add("Vary", "Origin")
		s.ServeHTTP(w, r)
	})
	for i := range 2 {
		w := httptest.NewRecorder()
		outer.ServeHTTP(w, post("k", "{}"))
		h := w.Result().Header
		id := fmt.Sprint(i + 1)
		if h.Get("X-Request-Id") != id || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "text/x-outer" ||
			!slices.Equal(h["Set-Cookie"], []string{"session=" + id, "cart=1"}) || !slices.Equal(h["Vary"], []string{"Origin", "Accept"}) {
			t.Fatalf("arrival %s: %v", id, h)
		}
	}
}

func TestConnectionOfAProtectedRequestIsOutOfReach(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if _, _, err := control.Hijack(); err == nil {
			t.Error("hijacked")
		}
		for what, err := range map[string]error{
			"SetWriteDeadline": control.SetWriteDeadline(time.Time{}),
			"SetReadDeadline":  control.SetReadDeadline(time.Now()), // the body is here already
			"EnableFullDuplex": control.EnableFullDuplex(),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		echo(w, r)
	})
	url, client := s.serve(nil)
	if res := send(t, client, onWire(t, url, "k", "{}")); res.Body != "2 0 <nil> {}" {
		t.Fatalf("%q", res.Body)
	}
}
