package idempotencyhttp_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
	"github.com/fiftyhosts/fifty/store/memory"
)

// stepping makes a handler with one step, whose effects are counted, and a second part that then decides.
func stepping(t *testing.T, effects *int, then func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := idempotency.StepsFrom(r.Context())
		if !ok {
			t.Error("the handler has no steps")
			return
		}
		_, err := idempotency.Step(r.Context(), s, "charge", func(context.Context, string) (int, error) {
			*effects++
			return *effects, nil
		})
		if err != nil {
			t.Error(err)
		}
		then(w, r)
	}
}

// TestARequestThatBrokeOffIsResumedByTheNextOne: behind its last finished step, and once only.
func TestARequestThatBrokeOffIsResumedByTheNextOne(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"a failure":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"a panic":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a freeing":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"half of it": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") },
	} {
		t.Run(name, func(t *testing.T) {
			effects, broken := 0, true
			s := newSite(t, idempotencyhttp.Config{Steps: true}, stepping(t, &effects, func(w http.ResponseWriter, r *http.Request) {
				if broken {
					broken = false
					fail(w, r)
					return
				}
				charge(w, r)
			}))
			func() {
				defer func() { _ = recover() }()
				s.do(post("k", "{}"))
			}()
			wantFirst(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
			wantReplay(t, s.do(post("k", "{}")), 201, `{"id":"ch_1"}`)
			s.wantRuns(2)
			if effects != 1 {
				t.Errorf("%d effects of a step that had finished", effects)
			}
		})
	}
}

func TestAFreedAnswerWithoutAStepFreesTheKey(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Steps: true}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	s.do(post("k", "{}"))
	if rec, err := s.keys.Find(t.Context(), "acme", "k"); err != nil || rec.State != idempotency.Free {
		t.Errorf("%+v, %v", rec, err)
	}
}

func TestAStepThatCanNotBeSettledHoldsTheKey(t *testing.T) {
	s := newSite(t, idempotencyhttp.Config{Steps: true}, func(w http.ResponseWriter, r *http.Request) {
		steps, _ := idempotency.StepsFrom(r.Context())
		_, err := idempotency.StepOnce(r.Context(), steps, "mail", func(context.Context, string) (int, error) {
			return 0, errors.New("lost")
		}, nil)
		http.Error(w, err.Error(), http.StatusInternalServerError)
	})
	if w := s.do(post("k", "{}")); w.Code != http.StatusInternalServerError {
		t.Errorf("the first got %d", w.Code)
	}
	wantProblemIn(t, s.do(post("k", "{}")), "unresolved", 409)
	s.wantRuns(1)
}

func TestWhatStepsAndStatusAreNotForIsRefusedAtTheStart(t *testing.T) {
	keys := idempotency.NewTx(memory.New(memory.Config{}).Keys(), idempotency.Config{})
	path := func(idempotency.Request) string { return "/s" }
	for name, setUp := range map[string]func(){
		"keys without steps": func() {
			idempotencyhttp.Middleware(struct{ idempotencyhttp.Doer }{keys}, idempotencyhttp.Config{Scope: bearer, Steps: true})
		},
		"steps in a transaction": func() {
			idempotencyhttp.InTx(keys, idempotencyhttp.Config{Scope: bearer, Steps: true}, func(http.ResponseWriter, *http.Request, *memory.Tx) {})
		},
		"a status of a transaction": func() {
			idempotencyhttp.InTx(keys, idempotencyhttp.Config{Scope: bearer, Status: path}, func(http.ResponseWriter, *http.Request, *memory.Tx) {})
		},
		"a status without a scope": func() {
			idempotencyhttp.StatusHandler(keys, idempotencyhttp.Config{}, func(*http.Request) string { return "" })
		},
		"a status without a key": func() { idempotencyhttp.StatusHandler(keys, idempotencyhttp.Config{Scope: bearer}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was taken")
				}
			}()
			setUp()
		})
	}
}
