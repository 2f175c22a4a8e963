package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// arrivals is how many goroutines send the same request in the cases of Do.
const arrivals = 16

// work is a function that counts its runs.
type work struct {
	fn func(ctx context.Context) (idempotency.Response, error)

	mu     sync.Mutex
	tokens []int64 // of the claims that it ran under, one a run
}

func (k *work) run(ctx context.Context) (idempotency.Response, error) {
	token, _ := idempotency.TokenFrom(ctx)
	k.mu.Lock()
	k.tokens = append(k.tokens, token)
	k.mu.Unlock()
	return k.fn(ctx)
}

func (k *work) runs() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.tokens)
}

// working is work that answers r and err.
func working(r idempotency.Response, err error) *work {
	return &work{fn: func(context.Context) (idempotency.Response, error) { return r, err }}
}

// ran fails the case unless k ran n times.
func (w *world) ran(k *work, n int) {
	w.Helper()
	if got := k.runs(); got != n {
		w.Errorf("the function ran %d times, want %d", got, n)
	}
}

// replays fails the case unless another arrival of req gets r as a replay, without a run.
func (w *world) replays(keys *idempotency.Keys, req idempotency.Request, r idempotency.Response) {
	w.Helper()
	again := working(answerOf("a second run"), nil)
	res, err := keys.Do(w.ctx, req, again.run)
	if err != nil {
		w.Errorf("another arrival got %v, want the answer", err)
	} else if problem := differentAnswer(res.Response, r); problem != "" || !res.Replayed {
		w.Errorf("another arrival got an answer with Replayed %v; %s", res.Replayed, problem)
	}
	w.ran(again, 0)
}

// stands fails the case unless another arrival of req gets want, without a run.
func (w *world) stands(keys *idempotency.Keys, req idempotency.Request, want error) {
	w.Helper()
	again := working(answerOf("a second run"), nil)
	if res, err := keys.Do(w.ctx, req, again.run); !errors.Is(err, want) {
		w.Errorf("another arrival got status %d and %v, want %v", res.Status, err, want)
	}
	w.ran(again, 0)
}

func (w *world) newKeys() *idempotency.Keys { return idempotency.New(w.store, idempotency.Config{}) }

var errWork = errors.New("the work failed in its own way")

var doCases = []claim{
	{"Do runs once however many arrive at once, and all get its answer", (*world).manyArrive},
	{"Do replays an answer byte for byte", func(w *world) {
		keys := w.newKeys()
		for _, tc := range answers {
			if tc.r.NotReplayable {
				continue
			}
			req := w.request()
			res, err := keys.Do(w.ctx, req, working(tc.r, nil).run)
			if problem := differentAnswer(res.Response, tc.r); err != nil || res.Replayed || problem != "" {
				w.Errorf("%s: the first arrival got Replayed %v, %v; %s", tc.name, res.Replayed, err, problem)
			}
			w.replays(keys, req, tc.r)
		}
	}},
	{"Do keeps that it is done when the answer is too large to keep", func(w *world) {
		keys := idempotency.New(w.store, idempotency.Config{ResponseMax: 10})
		req := w.request()
		large := answerOf("eleven char")
		res, err := keys.Do(w.ctx, req, working(large, nil).run)
		if problem := differentAnswer(res.Response, large); err != nil || problem != "" {
			w.Errorf("the first arrival got %v; %s", err, problem)
		}
		w.stands(keys, req, idempotency.ErrNotReplayable)
	}},
	{"Do never runs again after an error that leaves the outcome open", func(w *world) {
		keys, req, k := w.newKeys(), w.request(), working(idempotency.Response{}, errWork)
		_, err := keys.Do(w.ctx, req, k.run)
		if !errors.Is(err, idempotency.ErrUnresolved) || !errors.Is(err, errWork) {
			w.Errorf("the first arrival got %v, want an UnresolvedError around its own", err)
		}
		w.stands(keys, req, idempotency.ErrUnresolved)
		w.stands(keys, otherIntent(req), idempotency.ErrMismatch)
	}},
	{"Do never runs again after a panic or an end of the goroutine", func(w *world) {
		keys := w.newKeys()
		for name, end := range map[string]func(){"panic": func() { panic(errWork) }, "Goexit": runtime.Goexit} {
			req := w.request()
			k := &work{fn: func(context.Context) (idempotency.Response, error) { end(); return idempotency.Response{}, nil }}
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_, _ = keys.Do(w.ctx, req, k.run)
			}()
			if v := <-done; name == "panic" && v != errWork {
				w.Errorf("the panic became %v", v)
			}
			w.ran(k, 1)
			w.stands(keys, req, idempotency.ErrUnresolved)
		}
	}},
	{"Do runs again after an error that says that nothing happened, under a higher token", func(w *world) {
		keys, req, k := w.newKeys(), w.request(), working(idempotency.Response{}, idempotency.NotDone(errWork))
		for range 3 {
			if _, err := keys.Do(w.ctx, req, k.run); !errors.Is(err, errWork) || errors.Is(err, idempotency.ErrUnresolved) {
				w.Errorf("got %v, want the function's own error", err)
			}
		}
		w.ran(k, 3)
		k.fn = working(answerOf("at last"), nil).fn
		if _, err := keys.Do(w.ctx, req, k.run); err != nil {
			w.Errorf("got %v, want the answer", err)
		}
		w.ran(k, 4)
		if !slices.IsSorted(k.tokens) || len(slices.Compact(slices.Clone(k.tokens))) != len(k.tokens) {
			w.Errorf("the tokens were %v; each must be higher than the one before", k.tokens)
		}
		w.replays(keys, req, answerOf("at last"))
	}},
	{"Do keeps a refusal as the answer", func(w *world) {
		keys, req := w.newKeys(), w.request()
		declined := idempotency.Response{Status: 402, Body: []byte("declined")}
		res, err := keys.Do(w.ctx, req, working(answerOf("not this"), idempotency.Refuse(declined)).run)
		if problem := differentAnswer(res.Response, declined); err != nil || res.Replayed || problem != "" {
			w.Errorf("the first arrival got Replayed %v, %v; %s", res.Replayed, err, problem)
		}
		w.replays(keys, req, declined)
	}},
	{"Do never runs another intent under a used key", func(w *world) {
		keys, req := w.newKeys(), w.request()
		if _, err := keys.Do(w.ctx, req, working(answerOf("the answer"), nil).run); err != nil {
			w.Fatalf("Do: %v", err)
		}
		w.stands(keys, otherIntent(req), idempotency.ErrMismatch)
		w.replays(keys, req, answerOf("the answer"))
	}},
	{"Do does not run while another owner is at work, and not when it vanished", func(w *world) {
		keys := w.newKeys()
		live := w.win(attempt(w.request()))
		w.stands(keys, live.Request, idempotency.ErrInFlight)
		w.is(live)
		gone := w.expired(attempt(w.request()))
		w.stands(keys, gone.Request, idempotency.ErrUnresolved)
		w.is(gone)
		if rec, err := keys.Find(w.ctx, gone.Request.Scope, gone.Request.Key); err != nil || rec.State != idempotency.Unknown {
			w.Errorf("Find: %v, %v, want an unknown one", show(rec), err)
		}
		w.done(gone, "the vanished owner's")
		w.replays(keys, gone.Request, answerOf("the vanished owner's"))
	}},
	{"Do keeps the answer of a client that hung up", func(w *world) {
		keys, req := w.newKeys(), w.request()
		ctx, hangUp := context.WithCancel(w.ctx)
		defer hangUp()
		k := &work{fn: func(ctx context.Context) (idempotency.Response, error) {
			hangUp()
			return answerOf("the answer"), ctx.Err()
		}}
		if _, err := keys.Do(ctx, req, k.run); err != nil {
			w.Errorf("got %v; the hanging up must not reach the work", err)
		}
		w.replays(keys, req, answerOf("the answer"))
	}},
	{"in every order one of two Do runs", func(w *world) {
		w.race(ofDo, func() interleave.Case { return w.twoDo(nil) })
	}},
	{"in every order one of two Do runs, and none after it failed", func(w *world) {
		w.race(ofDo, func() interleave.Case { return w.twoDo(errWork) })
	}},
}

// manyArrive holds the function until all other arrivals have been answered.
func (w *world) manyArrive() {
	keys, req := w.newKeys(), w.request()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	release := make(chan struct{})
	k := &work{}
	k.fn = func(context.Context) (idempotency.Response, error) {
		if k.runs() > 1 {
			return answerOf("a second run"), nil
		}
		select {
		case <-release:
			return answerOf("the answer"), nil
		case <-ctx.Done():
			return idempotency.Response{}, errors.New("the other arrivals were not answered while the first was at work")
		}
	}
	type result struct {
		res idempotency.Result
		err error
	}
	results := make(chan result, arrivals)
	for range arrivals {
		go func() {
			res, err := keys.Do(w.ctx, req, k.run)
			results <- result{res, err}
		}()
	}
	for range arrivals - 1 {
		got := <-results
		inFlight, ok := errors.AsType[*idempotency.InFlightError](got.err)
		if !ok || inFlight.RetryAfter <= 0 || inFlight.RetryAfter > time.Minute {
			w.Errorf("an arrival during the work got %d, %v, want an InFlightError", got.res.Status, got.err)
		}
	}
	close(release)
	if got := <-results; got.err != nil || got.res.Replayed {
		w.Errorf("the first arrival got Replayed %v, %v", got.res.Replayed, got.err)
	}
	w.ran(k, 1)
	for range arrivals {
		w.replays(keys, req, answerOf("the answer"))
	}
}

// twoDo is a race of two arrivals whose function answers, or fails with fnErr.
func (w *world) twoDo(fnErr error) interleave.Case {
	keys, req := w.newKeysApart(), w.request()
	k := &work{fn: func(ctx context.Context) (idempotency.Response, error) {
		interleave.Point(ctx, "the work")
		return answerOf("the answer"), fnErr
	}}
	var results [2]idempotency.Result
	var errs [2]error
	arrive := func(i int) func(ctx context.Context) {
		return func(ctx context.Context) { results[i], errs[i] = keys.Do(ctx, req, k.run) }
	}
	return interleave.Case{
		Callers: []func(context.Context){arrive(0), arrive(1)},
		Check: func() error {
			if n := k.runs(); n != 1 {
				return fmt.Errorf("the function ran %d times", n)
			}
			for i, err := range errs {
				switch {
				case err == nil && fnErr == nil:
					if problem := differentAnswer(results[i].Response, answerOf("the answer")); problem != "" {
						return fmt.Errorf("arrival %d: %s", i, problem)
					}
				case errors.Is(err, idempotency.ErrInFlight):
				case fnErr != nil && errors.Is(err, idempotency.ErrUnresolved):
				default:
					return fmt.Errorf("arrival %d got %v", i, err)
				}
			}
			res, err := keys.Do(w.ctx, req, k.run)
			if n := k.runs(); n != 1 {
				return errors.New("the function ran for a later arrival")
			}
			if fnErr != nil && !errors.Is(err, idempotency.ErrUnresolved) {
				return fmt.Errorf("a later arrival got %v, want ErrUnresolved", err)
			}
			if fnErr == nil && (err != nil || differentAnswer(res.Response, answerOf("the answer")) != "") {
				return fmt.Errorf("a later arrival got status %d and %v, want the answer", res.Status, err)
			}
			return nil
		},
	}
}
