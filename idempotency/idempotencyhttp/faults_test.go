package idempotencyhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

// The tests of this file are the faults that other implementations of the Idempotency-Key header shipped,
// each as what must hold instead.

func TestKeyOfAVanishedOwnerDoesNotStayInFlight(t *testing.T) {
	const lease = 30 * time.Second
	now := time.Now()
	store := memory.New(memory.Config{Now: func() time.Time { return now }}).Keys()
	h := idempotencyhttp.Middleware(idempotency.New(&vanishing{Keys: store}, idempotency.Config{}),
		idempotencyhttp.Config{Scope: bearer})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	ask := func() *httptest.ResponseRecorder {
		defer func() { _ = recover() }() // the owner's host dies
		w := httptest.NewRecorder()
		h.ServeHTTP(w, post("k", "{}"))
		return w
	}
	ask()
	now = now.Add(lease - 1)
	wantProblemIn(t, ask(), "in-flight", 409)
	now = now.Add(1) // no time left is expired, not endless
	wantProblemIn(t, ask(), "unresolved", 409)
}

// vanishing is a store that never hears the end of anything: its owners' hosts are gone by then.
type vanishing struct{ memory.Keys }

func (*vanishing) Complete(context.Context, []idempotency.Completion) ([]error, error) {
	return nil, errDown
}

func TestRetryAfterIsInSeconds(t *testing.T) {
	for after, want := range map[time.Duration]string{
		time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60", 0: "",
	} {
		w := httptest.NewRecorder()
		idempotencyhttp.WriteProblem(w, &idempotencyhttp.Problem{Name: "n", Status: 409, RetryAfter: after})
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%v: Retry-After %q, want %q", after, got, want)
		}
	}
}

func TestOwnerThatWasSupersededAnswersWhatWasDecided(t *testing.T) {
	lost := &idempotency.LostError{Superseded: true}
	decided := idempotency.Record{State: idempotency.Done, Response: idempotency.Response{
		Status: 200, Header: map[string][]string{"X-By": {"operator"}}, Body: []byte("resolved"),
	}}
	for name, c := range map[string]struct {
		flush, fails bool
		found        func(req idempotency.Request) (idempotency.Record, error)
		want         func(t *testing.T, w *httptest.ResponseRecorder)
	}{
		"with an answer": {
			found: func(req idempotency.Request) (idempotency.Record, error) { decided.Request = req; return decided, nil },
			want:  func(t *testing.T, w *httptest.ResponseRecorder) { wantReplay(t, w, 200, "resolved") },
		},
		"with an answer, after a failure": {
			fails: true,
			found: func(req idempotency.Request) (idempotency.Record, error) { decided.Request = req; return decided, nil },
			want:  func(t *testing.T, w *httptest.ResponseRecorder) { wantReplay(t, w, 200, "resolved") },
		},
		"without one that can be read": {
			found: func(idempotency.Request) (idempotency.Record, error) { return idempotency.Record{}, errDown },
			want:  func(t *testing.T, w *httptest.ResponseRecorder) { wantProblemIn(t, w, "unknown", 503) },
		},
		"while it streamed another answer": {
			flush: true,
			found: func(req idempotency.Request) (idempotency.Record, error) { decided.Request = req; return decided, nil },
			want: func(t *testing.T, w *httptest.ResponseRecorder) {
				if w != nil {
					t.Fatalf("the answer ended as if it were whole: %q", w.Body)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
				if c.fails {
					w.WriteHeader(http.StatusInternalServerError)
				}
				charge(w, r)
				if c.flush {
					w.(http.Flusher).Flush()
				}
			})
			var req idempotency.Request
			s.store.complete = func(end idempotency.Completion) error {
				rec, err := s.store.TxStore.Find(t.Context(), end.Claim.Scope, end.Claim.Key)
				req = rec.Request
				if err != nil {
					t.Error(err)
				}
				return lost
			}
			s.store.find = func() (idempotency.Record, error) { return c.found(req) }
			c.want(t, s.doOrAbort(post("k", "{}")))
		})
	}
}

// doOrAbort is do; nil means that the connection was broken off.
func (s *site) doOrAbort(r *http.Request) (w *httptest.ResponseRecorder) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			w = nil
		} else if v != nil {
			panic(v)
		}
	}()
	return s.do(r)
}

func TestOrderOfJSONMembersIsTheSameRequest(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	s.do(post("k", `{"amount":500,"currency":"eur"}`))
	wantReplay(t, s.do(post("k", `{"currency": "eur", "amount": 500}`)), 201, `{"id":"ch_1"}`)
}

func TestCookiesWithCommasAreReplayedOneByOne(t *testing.T) {
	cookies := []string{
		"a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/",
		"b=2; Expires=Thu, 22 Oct 2026 07:28:00 GMT, HttpOnly",
	}
	first, second := inspect(t, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		for _, c := range cookies {
			w.Header().Add("Set-Cookie", c)
		}
	})
	for _, res := range []answer{first, second} {
		if !slices.Equal(res.Header["Set-Cookie"], cookies) {
			t.Fatalf("%q", res.Header["Set-Cookie"])
		}
	}
}

func TestCreatedIsReplayedAsCreatedWithItsLocation(t *testing.T) {
	_, second := inspect(t, http.MethodPost, charge)
	if second.StatusCode != 201 || second.Header.Get("Location") != "/charges/ch_1" {
		t.Fatalf("%d %v", second.StatusCode, second.Header)
	}
}

func TestKeyIsHeldDuringTheWorkAndDuplicatesAreToldAtOnce(t *testing.T) {
	var s *site
	s = newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		wantProblemIn(t, s.do(post("k", "{}")), "in-flight", 409) // no waiting, so nothing to hang in
		charge(w, r)
	})
	s.do(post("k", "{}"))
	s.wantRuns(1)
}

func TestClientThatHangsUpDuringTheWorkFindsItsAnswerLater(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var effects atomic.Int64
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		if err := r.Context().Err(); err != nil {
			t.Errorf("the work was cancelled: %v", err)
		}
		effects.Add(1)
		charge(w, r)
	})
	served := make(chan struct{}, 1)
	url, client := s.serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if effects.Load() == 0 {
				go func() {
					<-r.Context().Done() // the server has noticed that the client is gone
					close(release)
				}()
			}
			next.ServeHTTP(w, r)
			served <- struct{}{}
		})
	})
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-begun
		hangUp()
	}()
	wantBroken(t, client, onWire(t, url, "k", "{}").WithContext(ctx))
	<-served
	res := send(t, client, onWire(t, url, "k", "{}"))
	if res.StatusCode != 201 || res.Body != `{"id":"ch_1"}` || res.Header.Get("Idempotency-Replayed") != "true" || effects.Load() != 1 {
		t.Fatalf("%d %q %v, %d effects", res.StatusCode, res.Body, res.Header, effects.Load())
	}
}

func TestClientThatHangsUpDuringAStreamStopsNothing(t *testing.T) {
	gone := make(chan struct{})
	finished := make(chan error, 1)
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		<-gone
		var err error
		for range 100 { // more than any buffer between here and the client that is gone
			if err == nil {
				_, err = io.WriteString(w, strings.Repeat("x", 10_000))
			}
		}
		finished <- err
	})
	url, client := s.serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			go func() {
				<-r.Context().Done()
				close(gone)
			}()
			next.ServeHTTP(w, r)
		})
	})
	res, err := client.Do(onWire(t, url, "k", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if err := <-finished; err != nil {
		t.Fatalf("the handler heard of it: %v", err)
	}
}

func TestSameKeyOfAnotherTenantIsAnotherRequest(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "for "+r.Header.Get("Authorization"))
	})
	other := func() *http.Request {
		r := post("k", "{}")
		r.Header.Set("Authorization", "Bearer globex")
		return r
	}
	wantFirst(t, s.do(post("k", "{}")), 200, "for Bearer acme")
	wantFirst(t, s.do(other()), 200, "for Bearer globex")
	wantReplay(t, s.do(post("k", "{}")), 200, "for Bearer acme")
	wantReplay(t, s.do(other()), 200, "for Bearer globex")
	s.wantRuns(2)
}

func TestNothingIsReplayedBeforeTheCallerIsKnown(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	s.do(post("k", "{}"))
	for name, change := range map[string]func(r *http.Request){
		"no credential":                   func(r *http.Request) { r.Header.Del("Authorization") },
		"no credential and a bad key":     func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("Idempotency-Key", `"`) },
		"no credential and no key":        func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Del("Idempotency-Key") },
		"no credential and a broken body": func(r *http.Request) { r.Header.Del("Authorization"); r.ContentLength = 1 << 40 },
	} {
		t.Run(name, func(t *testing.T) {
			r := post("k", "{}")
			change(r)
			wantProblemIn(t, s.do(r), "scope-missing", 401)
		})
	}
	s.wantRuns(1)
}

func TestKeysThatDifferInCaseAreTwoKeys(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	wantFirst(t, s.do(post("order-a", "{}")), 201, `{"id":"ch_1"}`)
	wantFirst(t, s.do(post("order-A", "{}")), 201, `{"id":"ch_1"}`)
	s.wantRuns(2)
}

func TestWorkThatOutlivesItsLeaseRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(60 * time.Second)
			charge(w, r)
		})
		s.Handler = idempotencyhttp.Middleware(idempotency.New(s.store, idempotency.Config{Lease: 10 * time.Second}), s.cfg)(s.inner)
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- s.do(post("k", "{}")) }()
		<-time.After(59 * time.Second)
		wantProblemIn(t, s.do(post("k", "{}")), "in-flight", 409)
		wantFirst(t, <-first, 201, `{"id":"ch_1"}`)
		wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
		s.wantRuns(1)
	})
}

func TestStoreThatIsDownRunsNothingUnprotected(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	s.store.claim = func() error { return errDown }
	w := s.do(post("k", "{}"))
	p := wantProblemIn(t, w, "store-unavailable", 503)
	if strings.Contains(w.Body.String(), "10.1.2.3") || w.Header().Get("Retry-After") == "" || p.Key != "k" {
		t.Fatalf("%s %v", w.Body, w.Header())
	}
	s.wantRuns(0)
	s.store.claim = nil
	wantFirst(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
}

func TestAnswerThatCannotBeRecordedIsWithheldAndNeverRunsAgain(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	lossy(s)
	w := s.do(post("k", "{}"))
	wantProblemIn(t, w, "unknown", 503)
	if strings.Contains(w.Body.String(), "10.1.2.3") || w.Header().Get("Location") != "" || w.Header().Get("Retry-After") == "" {
		t.Fatalf("%s %v", w.Body, w.Header())
	}
	s.store.complete = nil
	wantProblemIn(t, s.do(post("k", "{}")), "in-flight", 409) // until the lease runs out, and then unresolved
	s.wantRuns(1)
}

func TestAnswerThatIsNotKeptIsGivenWhateverBecomesOfTheKey(t *testing.T) {
	for _, status := range []int{429, 500} {
		s := newSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		lossy(s)
		wantFirst(t, s.do(post("k", "{}")), status, "")
	}
}

func TestAnotherRequestUnderAUsedKeyIsRefusedNotRun(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{}, charge)
	s.do(post("k", `{"amount":5}`))
	p := wantProblemIn(t, s.do(post("k", `{"amount":6}`)), "mismatch", 422)
	if p.Key != "k" || !strings.Contains(p.Detail, "new key") {
		t.Fatalf("%+v", p)
	}
	s.wantRuns(1)
}
