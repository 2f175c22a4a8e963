package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// A function's context must be in nothing different from one of the standard library, whether or not somebody
// waited for its end before it came, and for contexts below it too.
func TestFunctionsContextEndsAsOneOfTheStandardLibrary(t *testing.T) {
	const workMax = time.Minute
	type end struct{ err, cause error }
	ended := func(ctx context.Context) end { return end{ctx.Err(), context.Cause(ctx)} }
	for name, look := range map[string]func(ctx context.Context){
		"nobody looks":              func(context.Context) {},
		"somebody asked Err":        func(ctx context.Context) { _ = ctx.Err() },
		"somebody asked Done":       func(ctx context.Context) { ctx.Done() },
		"somebody asked for values": func(ctx context.Context) { ctx.Value("nothing") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys := idempotency.New(newFaulty(), idempotency.Config{WorkMax: workMax})
				began := time.Now()
				var kept context.Context
				check := func(when string, ctx context.Context, want end) {
					t.Helper()
					below, cancel := context.WithCancel(ctx)
					defer cancel()
					for what, got := range map[string]end{"it": ended(ctx), "a context below it": ended(below)} {
						if got != want {
							t.Errorf("%s: %s says %v", when, what, got)
						}
					}
				}
				_, err := keys.Do(t.Context(), request("in time"), func(ctx context.Context) (idempotency.Response, error) {
					kept = ctx
					look(ctx)
					if at, ok := ctx.Deadline(); !ok || !at.Equal(began.Add(workMax)) {
						t.Errorf("its deadline is %v, %v", at, ok)
					}
					pass(workMax - 1)
					check("before WorkMax", ctx, end{})
					return created("ch_1"), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				check("after Do", kept, end{context.Canceled, context.Canceled})
				pass(workMax)
				check("long after Do", kept, end{context.Canceled, context.Canceled})

				_, err = keys.Do(t.Context(), request("late"), func(ctx context.Context) (idempotency.Response, error) {
					kept = ctx
					look(ctx)
					pass(workMax)
					synctest.Wait()
					check("at WorkMax", ctx, end{context.DeadlineExceeded, context.DeadlineExceeded})
					return created("ch_2"), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				check("after a late Do", kept, end{context.DeadlineExceeded, context.DeadlineExceeded})
			})
		})
	}
}

// What a store gets must end as its caller's context does, and at its own time-out.
func TestStoresContextEndsWithItsCallersOrAtItsTimeOut(t *testing.T) {
	errGone := errors.New("the client has gone")
	synctest.Test(t, func(t *testing.T) {
		store := &waiting{faulty: newFaulty()}
		keys := idempotency.New(store, idempotency.Config{StoreMax: 10 * time.Second})
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(errGone) })
		began := time.Now()
		_, err := keys.Do(ctx, request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnavailable)
		if !errors.Is(store.err, context.Canceled) || store.cause != errGone || time.Since(began) != time.Second {
			t.Errorf("the caller left, and the store got %v, %v after %v", store.err, store.cause, time.Since(began))
		}
		_, err = keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnavailable)
		if store.err != context.DeadlineExceeded || store.cause != context.DeadlineExceeded || store.waited != 5*time.Second {
			t.Errorf("nobody left, and the store got %v, %v after %v", store.err, store.cause, store.waited)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = keys.Do(soon, request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrUnavailable)
		if at, _ := soon.Deadline(); !store.deadline.Equal(at) || store.waited != time.Second {
			t.Errorf("the caller has a second, and the store was given until %v, for %v", store.deadline, store.waited)
		}
	})
}

// waiting is a store whose claims wait for the end of their context.
type waiting struct {
	*faulty
	err, cause error
	deadline   time.Time
	waited     time.Duration
}

func (w *waiting) Claim(ctx context.Context, _ []idempotency.Attempt) ([]idempotency.Claimed, error) {
	began := time.Now()
	w.deadline, _ = ctx.Deadline()
	<-ctx.Done()
	w.err, w.cause, w.waited = ctx.Err(), context.Cause(ctx), time.Since(began)
	return nil, w.err
}

func TestContextOfALostClaimTellsWhyWhoeverAsksAndWhenever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		for key, ask := range map[string]func(ctx context.Context) func() (error, error){
			"afterwards": func(ctx context.Context) func() (error, error) {
				return func() (error, error) { return ctx.Err(), context.Cause(ctx) }
			},
			"the cause alone": func(ctx context.Context) func() (error, error) {
				return func() (error, error) { cause := context.Cause(ctx); return ctx.Err(), cause }
			},
			"below it, made before": func(ctx context.Context) func() (error, error) {
				below, cancel := context.WithTimeout(ctx, time.Hour)
				t.Cleanup(cancel)
				return func() (error, error) { return below.Err(), context.Cause(below) }
			},
			"below it, made afterwards": func(ctx context.Context) func() (error, error) {
				return func() (error, error) {
					below, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					return below.Err(), context.Cause(below)
				}
			},
			"called back": func(ctx context.Context) func() (error, error) {
				told := make(chan [2]error, 1)
				context.AfterFunc(ctx, func() { told <- [2]error{ctx.Err(), context.Cause(ctx)} })
				return func() (error, error) { got := <-told; return got[0], got[1] }
			},
		} {
			_, err := keys.Do(t.Context(), request(key), func(ctx context.Context) (idempotency.Response, error) {
				end := ask(ctx)
				decideElsewhere(t, store, key)
				pass(time.Minute) // the heartbeat is refused meanwhile
				if err, cause := end(); err != context.Canceled || !errors.Is(cause, idempotency.ErrLost) {
					t.Errorf("%s: %v, %v", key, err, cause)
				}
				return created("ch_1"), nil
			})
			if res, again := keys.Do(t.Context(), request(key), mustNotRun(t)); again != nil || string(res.Body) != "elsewhere" {
				t.Errorf("%s: the owner got %v, and the next %+v, %v", key, err, res, again)
			}
		}
	})
}

// decideElsewhere gives a key that is in flight another answer than its owner's.
func decideElsewhere(t *testing.T, store *faulty, key string) {
	t.Helper()
	rec, err := store.Find(t.Context(), "acme", key)
	if err != nil {
		t.Fatal(err)
	}
	owner := idempotency.Claim{Scope: "acme", Key: key, Token: rec.Token, Attempt: rec.Attempt}
	if errs, err := store.Complete(t.Context(), []idempotency.Completion{{Claim: owner, State: idempotency.Free}}); err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	other := idempotency.New(store, idempotency.Config{})
	if _, err := other.Do(t.Context(), request(key), answering(created("elsewhere"))); err != nil {
		t.Fatal(err)
	}
}
