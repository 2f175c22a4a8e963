package idempotencyhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

func TestSecondArrivalGetsTheFirstAnswerMarked(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	wantFirst(t, s.do(post("k", `{"amount":5}`)), 201, `{"id":"ch_1"}`)
	again := s.do(post(`"k"`, `{"amount":5}`))
	wantReplay(t, again, 201, `{"id":"ch_1"}`)
	if again.Header().Get("Location") != "/charges/ch_1" || again.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("header %v", again.Header())
	}
	s.wantRuns(1)
}

func TestOtherMethodsPassUntouched(t *testing.T) {
	var got http.ResponseWriter
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		got = w
		if _, ok := idempotency.TokenFrom(r.Context()); ok {
			t.Error("a request that passes has a token")
		}
		if _, ok := idempotencyhttp.RequestFrom(r.Context()); ok {
			t.Error("a request that passes is said to be protected")
		}
	})
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodHead} {
		r := httptest.NewRequest(method, "/charges", nil)
		r.Header.Set("Idempotency-Key", "k")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if got != w {
			t.Fatalf("%s: the handler got %T instead of the writer itself", method, got)
		}
	}
	s.wantRuns(4)
}

func TestUpgradeOnAnotherMethodPasses(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\nhello")
		_ = conn.Close()
	})
	url, _ := s.serve(nil)
	conn := raw(t, url, "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n", false)
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(all), "\r\n\r\nhello") {
		t.Fatalf("%q, %v", all, err)
	}
}

func TestMethodsOfTheConfigAreCovered(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Methods: []string{http.MethodDelete}}, charge)
	remove := func() *httptest.ResponseRecorder {
		r := post("k", "")
		r.Method = http.MethodDelete
		return s.do(r)
	}
	wantFirst(t, remove(), 201, `{"id":"ch_1"}`)
	wantReplay(t, remove(), 201, `{"id":"ch_1"}`)
	r := post("k", "")
	wantFirst(t, s.do(r), 201, `{"id":"ch_1"}`) // POST is not covered
	s.wantRuns(2)
}

func TestRequestWithoutAKeyPassesOnlyWhenToldTo(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{NoKey: idempotencyhttp.Pass}, charge)
	wantFirst(t, s.do(post("", "{}")), 201, `{"id":"ch_1"}`)
	wantFirst(t, s.do(post("", "{}")), 201, `{"id":"ch_1"}`)
	s.wantRuns(2)
	if n := s.events.count("idempotencyhttp.unprotected"); n != 2 {
		t.Fatalf("%d of 2 unprotected executions were counted", n)
	}
	empty := post("k", "{}")
	empty.Header.Set("Idempotency-Key", "")
	wantProblemIn(t, s.do(empty), "key-invalid", 400) // an empty key is a fault, not a request without one
	anonymous := post("", "{}")
	anonymous.Header.Del("Authorization")
	wantProblemIn(t, s.do(anonymous), "scope-missing", 401) // leaving the key out is no way around the scope
	s.wantRuns(2)
}

func TestScopeOfItsOwnProblemIsAnsweredAsItIs(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Scope: func(*http.Request) (string, error) {
		return "", fmt.Errorf("scope: %w", &idempotencyhttp.Problem{Name: "keys-unreachable", Status: 503, Title: "t", Detail: "d"})
	}}, mustNotRun(t))
	wantProblemIn(t, s.do(post("k", "")), "keys-unreachable", 503)
}

func TestScopeThatCannotBeOneIsRefused(t *testing.T) {
	for name, scope := range map[string]string{"empty": "", "too long": strings.Repeat("s", 513), "a control character": "a\nb", "not UTF-8": "\xff"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{Scope: func(*http.Request) (string, error) { return scope, nil }}, mustNotRun(t))
			wantProblemIn(t, s.do(post("k", "")), "scope-missing", 401)
		})
	}
}

func TestConcurrentDuplicatesRunOnce(t *testing.T) {
	const duplicates = 7
	begun, release := make(chan struct{}), make(chan struct{})
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		charge(w, r)
	})
	var first *httptest.ResponseRecorder
	var working, asking sync.WaitGroup
	working.Go(func() { first = s.do(post("k", "{}")) })
	<-begun
	var answers [duplicates]*httptest.ResponseRecorder
	for i := range answers {
		asking.Go(func() { answers[i] = s.do(post("k", "{}")) })
	}
	asking.Wait()
	close(release)
	working.Wait()
	for _, w := range answers {
		p := wantProblemIn(t, w, "in-flight", 409)
		if w.Header().Get("Retry-After") != "1" || p.RetryAfter != 1 || p.Key != "k" {
			t.Errorf("%+v, Retry-After %q", p, w.Header().Get("Retry-After"))
		}
	}
	wantFirst(t, first, 201, `{"id":"ch_1"}`)
	wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
	s.wantRuns(1)
}

func TestPanicLeavesTheKeyUnresolvedAndGoesOn(t *testing.T) {
	for name, value := range map[string]any{"a bug": errors.New("index out of range"), "an abort": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				charge(w, r)
				panic(value)
			})
			w := httptest.NewRecorder()
			func() {
				defer func() {
					if got := recover(); got != value {
						t.Errorf("recovered %v, want %v", got, value)
					}
				}()
				s.ServeHTTP(w, post("k", "{}"))
			}()
			if w.Body.Len() > 0 {
				t.Fatalf("sent %q", w.Body)
			}
			wantProblemIn(t, s.do(post("k", "{}")), "unresolved", 409)
			s.wantRuns(1)
		})
	}
}

func TestWhatBecomesOfAnAnswerByItsStatus(t *testing.T) {
	for status, retry := range map[int]string{
		200: "replay", 201: "replay", 302: "replay", 400: "replay", 402: "replay", 404: "replay", 409: "replay", 422: "replay",
		401: "runs", 408: "runs", 425: "runs", 429: "runs",
		500: "unresolved", 502: "unresolved", 503: "unresolved", 504: "unresolved",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "as it was")
			})
			first := s.do(post("k", "{}"))
			wantFirst(t, first, status, "as it was")
			if first.Header().Get("Retry-After") != "7" {
				t.Fatalf("header %v", first.Header())
			}
			second := s.do(post("k", "{}"))
			switch retry {
			case "replay":
				wantReplay(t, second, status, "as it was")
				s.wantRuns(1)
			case "runs":
				wantFirst(t, second, status, "as it was")
				s.wantRuns(2)
			default:
				wantProblemIn(t, second, "unresolved", 409)
				s.wantRuns(1)
			}
		})
	}
}

func TestHandlerDecidesForItsOwnRequest(t *testing.T) {
	for name, c := range map[string]struct {
		keep   idempotencyhttp.Keep
		status int
		retry  func(t *testing.T, w *httptest.ResponseRecorder)
		runs   int64
	}{
		"dialling failed for certain": {idempotencyhttp.Freed, 502, func(t *testing.T, w *httptest.ResponseRecorder) { wantFirst(t, w, 502, "x") }, 2},
		"a definite 500":              {idempotencyhttp.Stored, 500, func(t *testing.T, w *httptest.ResponseRecorder) { wantReplay(t, w, 500, "x") }, 1},
		"a 200 that is in doubt":      {idempotencyhttp.Failed, 200, func(t *testing.T, w *httptest.ResponseRecorder) { wantProblemIn(t, w, "unresolved", 409) }, 1},
		"a value that means nothing":  {99, 200, func(t *testing.T, w *httptest.ResponseRecorder) { wantProblemIn(t, w, "unresolved", 409) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				idempotencyhttp.SetKeep(r.Context(), c.keep)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "x")
			})
			wantFirst(t, s.do(post("k", "{}")), c.status, "x")
			c.retry(t, s.do(post("k", "{}")))
			s.wantRuns(c.runs)
		})
	}
	idempotencyhttp.SetKeep(context.Background(), idempotencyhttp.Stored) // nothing to decide, nothing happens
}

func TestHandlerKnowsItsRequestAndToken(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		token, ok := idempotency.TokenFrom(r.Context())
		req, protected := idempotencyhttp.RequestFrom(r.Context())
		_, _ = fmt.Fprint(w, token, ok, protected, req.Scope, req.Key, r.Header.Get("Idempotency-Key"))
	})
	wantFirst(t, s.do(post(`"k"`, "{}")), 200, `1 true trueacmek"k"`)
}

func TestSetUpFaultsAreToldAtOnce(t *testing.T) {
	keys := newKeys(t, idempotencyhttp.Config{}).keys
	for name, c := range map[string]struct {
		keys idempotencyhttp.Doer
		cfg  idempotencyhttp.Config
	}{
		"no scope":       {keys, idempotencyhttp.Config{}},
		"negative bound": {keys, idempotencyhttp.Config{Scope: bearer, BodyMax: -1}},
		"no keys":        {nil, idempotencyhttp.Config{Scope: bearer}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			idempotencyhttp.Middleware(c.keys, c.cfg)
		})
	}
}
