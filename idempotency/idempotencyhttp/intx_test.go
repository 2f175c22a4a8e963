package idempotencyhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

func TestInTxCommitsOrRollsBackByTheAnswer(t *testing.T) {
	for _, c := range []struct {
		name      string
		status    int
		keep      idempotencyhttp.Keep // zero: by the status
		effects   int                  // after the first arrival
		retryRuns bool
	}{
		{"201 is committed with its work", 201, 0, 1, false},
		{"302 is committed with its work", 302, 0, 1, false},
		{"402 is rolled back and kept", 402, 0, 0, false},
		{"404 is rolled back and kept", 404, 0, 0, false},
		{"429 is rolled back and forgotten", 429, 0, 0, true},
		{"500 is rolled back and forgotten", 500, 0, 0, true},
		{"503 is rolled back and forgotten", 503, 0, 0, true},
		{"500 that is to be kept is rolled back and kept", 500, idempotencyhttp.Stored, 0, false},
		{"200 that is to be freed is rolled back and forgotten", 200, idempotencyhttp.Freed, 0, true},
		{"200 that failed is rolled back and forgotten", 200, idempotencyhttp.Failed, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			effects := 0
			s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
				tx.OnCommit(func() { effects++ })
				if c.keep != 0 {
					idempotencyhttp.SetKeep(r.Context(), c.keep)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "as it was")
			})
			wantFirst(t, s.do(post("k", "{}")), c.status, "as it was")
			if effects != c.effects {
				t.Fatalf("%d effects, want %d", effects, c.effects)
			}
			second := s.do(post("k", "{}"))
			if c.retryRuns {
				wantFirst(t, second, c.status, "as it was")
				s.wantRuns(2)
			} else {
				wantReplay(t, second, c.status, "as it was")
				s.wantRuns(1)
			}
			if effects != c.effects {
				t.Fatalf("%d effects after the retry, want %d", effects, c.effects)
			}
		})
	}
}

func TestInTxPanicRollsBackAndGoesOn(t *testing.T) {
	effects, panics := 0, true
	s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		tx.OnCommit(func() { effects++ })
		charge(w, r)
		if panics {
			panic(http.ErrAbortHandler)
		}
	})
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the panic did not go on")
			}
		}()
		s.ServeHTTP(w, post("k", "{}"))
	}()
	if w.Body.Len() > 0 || effects > 0 {
		t.Fatalf("sent %q, %d effects", w.Body, effects)
	}
	panics = false
	wantFirst(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
	if effects != 1 {
		t.Fatalf("%d effects", effects)
	}
}

func TestInTxDuplicateDuringTheWorkIsTold(t *testing.T) {
	var s *site
	s = newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		wantProblemIn(t, s.do(post("k", "{}")), "in-flight", 409)
		charge(w, r)
	})
	wantFirst(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
	s.wantRuns(1)
}

func TestInTxAnswerIsNotStreamed(t *testing.T) {
	client := &calls{ResponseRecorder: httptest.NewRecorder()}
	s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		_, _ = io.WriteString(w, "one")
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("Flush is said to have worked")
		}
		_, _ = io.WriteString(w, "two")
		if client.n > 0 {
			t.Errorf("%d calls before the commit", client.n)
		}
	})
	s.ServeHTTP(client, post("k", "{}"))
	wantFirst(t, client.ResponseRecorder, 200, "onetwo")
	wantReplay(t, s.do(post("k", "{}")), 200, "onetwo")
}

func TestInTxAnswerAboveItsBoundIsRolledBack(t *testing.T) {
	effects := 0
	s := newTxSite(t, idempotencyhttp.Config{ResponseMax: 32}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		tx.OnCommit(func() { effects++ })
		_, _ = io.WriteString(w, strings.Repeat("x", 32))
		for range 2 {
			if _, err := io.WriteString(w, "x"); err == nil {
				t.Error("the bound does not hold")
			}
		}
	})
	wantProblemIn(t, s.do(post("k", "{}")), "answer-too-large", 500)
	wantProblemIn(t, s.do(post("k", "{}")), "answer-too-large", 500) // nothing was kept
	s.wantRuns(2)
	if effects > 0 {
		t.Fatalf("%d effects", effects)
	}
}

func TestInTxWithTrailersIsCommittedAndNotKept(t *testing.T) {
	effects := 0
	s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		tx.OnCommit(func() { effects++ })
		_, _ = io.WriteString(w, "x")
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	})
	wantFirst(t, s.do(post("k", "{}")), 200, "x")
	wantProblemIn(t, s.do(post("k", "{}")), "not-replayable", 409)
	if effects != 1 {
		t.Fatalf("%d effects", effects)
	}
}

func TestInTxCommitThatCannotBeToldWithholdsTheAnswer(t *testing.T) {
	s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) { charge(w, r) })
	s.store.inTx = func() error { return fmt.Errorf("connection reset: %w", fifty.ErrUnknownOutcome) }
	w := s.do(post("k", "{}"))
	p := wantProblemIn(t, w, "unknown", 503)
	if strings.Contains(w.Body.String(), "reset") || p.Key != "k" || w.Header().Get("Retry-After") == "" {
		t.Fatalf("%s %v", w.Body, w.Header())
	}
	s.store.inTx = nil
	wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`) // it had been committed
	s.wantRuns(1)
}

func TestInTxStoreThatIsDownRunsNothing(t *testing.T) {
	s := newTxSite(t, idempotencyhttp.Config{}, func(http.ResponseWriter, *http.Request, *memory.Tx) { t.Error("the handler ran") })
	s.store.begin = func() error { return errDown }
	wantProblemIn(t, s.do(post("k", "{}")), "store-unavailable", 503)
}

func TestInTxRefusesOtherMethods(t *testing.T) {
	s := newTxSite(t, idempotencyhttp.Config{}, func(http.ResponseWriter, *http.Request, *memory.Tx) { t.Error("ran") })
	r := post("k", "{}")
	r.Method = http.MethodPut
	w := s.do(r)
	wantProblemIn(t, w, "method-not-allowed", 405)
	if got := w.Header().Get("Allow"); got != "POST, PATCH" {
		t.Fatalf("Allow %q", got)
	}
}

func TestInTxNeedsAKey(t *testing.T) {
	s := newTxSite(t, idempotencyhttp.Config{}, func(http.ResponseWriter, *http.Request, *memory.Tx) { t.Error("ran") })
	wantProblemIn(t, s.do(post("", "{}")), "key-missing", 400)
	defer func() {
		if recover() == nil {
			t.Fatal("a Config that says Pass was taken")
		}
	}()
	newTxSite(t, idempotencyhttp.Config{NoKey: idempotencyhttp.Pass}, nil)
}

func TestInTxWorkOutlivesItsClient(t *testing.T) {
	effects := 0
	ctx, leave := context.WithCancel(t.Context())
	s := newTxSite(t, idempotencyhttp.Config{}, func(w http.ResponseWriter, r *http.Request, tx *memory.Tx) {
		leave()
		if _, bounded := r.Context().Deadline(); r.Context().Err() != nil || !bounded {
			t.Errorf("the work's context: %v, bounded %v", r.Context().Err(), bounded)
		}
		tx.OnCommit(func() { effects++ })
		charge(w, r)
	})
	s.do(post("k", "{}").WithContext(ctx))
	wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
	if effects != 1 {
		t.Fatalf("%d effects", effects)
	}
}
