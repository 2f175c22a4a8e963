package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

func TestCallersWhoAskAtTheSameTimeShareCallsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRush(newBatched(), idempotency.Config{})
		r.all(func(int) context.Context { return t.Context() }, nil)
		r.settled(t)
		r.store.were(t, "claim", 1, crowd-1)
		r.store.were(t, "complete", 1, crowd-1)
	})
}

func TestCallerAloneAsksByItself(t *testing.T) {
	store := newBatched()
	keys := idempotency.New(store, idempotency.Config{})
	for _, key := range []string{"k", "another"} {
		if _, err := keys.Do(t.Context(), request(key), answering(created(key))); err != nil {
			t.Fatal(err)
		}
	}
	store.were(t, "claim", 1, 1)
	store.were(t, "complete", 1, 1)
}

// one is a store whose batches gain nothing.
type one struct{ *batched }

func (one) BatchMax() int { return 1 }

func TestStoreThatGainsNothingByBatchesGetsNone(t *testing.T) {
	for name, store := range map[string]func(b *batched) idempotency.Store{
		"none":       func(b *batched) idempotency.Store { return struct{ idempotency.Store }{b} },
		"one member": func(b *batched) idempotency.Store { return one{b} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatched()
				r := newRush(b, idempotency.Config{})
				r.keys = idempotency.New(store(b), idempotency.Config{})
				r.all(func(int) context.Context { return t.Context() }, nil)
				r.settled(t)
				b.were(t, "claim", slices.Repeat([]int{1}, crowd)...)
				b.were(t, "complete", slices.Repeat([]int{1}, crowd)...)
			})
		})
	}
}

// once fails for the first batch of several.
func once[T any](err error) func(members []T) error {
	failed := false
	return func(members []T) error {
		if len(members) > 1 && !failed {
			failed = true
			return err
		}
		return nil
	}
}

func TestCallersWhoseBatchLostItsReplyAskAgainAndEachRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		lost := once[idempotency.Attempt](errLostReply)
		store.after = func(as []idempotency.Attempt, _ []idempotency.Claimed) error { return lost(as) }
		store.lost = once[idempotency.Completion](errLostReply)
		r := newRush(store, idempotency.Config{})
		r.all(func(int) context.Context { return t.Context() }, nil)
		r.settled(t)
	})
}

func TestCallersWhoseBatchNeverArrivedAskAgain(t *testing.T) {
	for call, fail := range map[string]func(*batched){
		"claim":    func(b *batched) { b.claim = once[idempotency.Attempt](errDown) },
		"complete": func(b *batched) { b.ends = once[idempotency.Completion](errDown) },
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newBatched()
				fail(store)
				r := newRush(store, idempotency.Config{})
				r.all(func(int) context.Context { return t.Context() }, nil)
				r.settled(t)
				if n := store.sizes[call]; n[1] != crowd-1 || n[2] == crowd/2 { // nobody is looked for who is at fault
					t.Errorf("calls with %v members", n)
				}
			})
		})
	}
}

var errBad = errors.New("invalid byte sequence")

func TestMemberThatCannotBeDoneFailsAlone(t *testing.T) {
	const bad = 77
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		store.claim = func(as []idempotency.Attempt) error {
			if slices.ContainsFunc(as, func(a idempotency.Attempt) bool { return a.Request.Key == keyOf(bad) }) {
				return errBad
			}
			return nil
		}
		r := newRush(store, idempotency.Config{})
		r.all(func(int) context.Context { return t.Context() }, nil)
		r.settled(t, bad)
		if err := r.got[bad].err; !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, errBad) || r.runs[keyOf(bad)] != 0 {
			t.Errorf("the bad one: %v, after %d runs", err, r.runs[keyOf(bad)])
		}
	})
}

func TestAnswerThatCannotBeKeptIsWithheldFromItsCallerAlone(t *testing.T) {
	const bad = 77
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		store.ends = func(cs []idempotency.Completion) error {
			if slices.ContainsFunc(cs, func(c idempotency.Completion) bool { return c.Claim.Key == keyOf(bad) }) {
				return errBad
			}
			return nil
		}
		r := newRush(store, idempotency.Config{})
		r.all(func(int) context.Context { return t.Context() }, nil)
		r.settled(t, bad)
		if err := r.got[bad].err; !errors.Is(err, fifty.ErrUnknownOutcome) || !errors.Is(err, errBad) {
			t.Errorf("the bad one: %v", err)
		}
	})
}

func TestMemberThatABatchLeavesOutIsAskedForByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		store.alone = func(key string) bool { return key == keyOf(3) || key == keyOf(4) }
		r := newRush(store, idempotency.Config{})
		r.all(func(int) context.Context { return t.Context() }, nil)
		r.settled(t)
		store.were(t, "claim", 1, crowd-1, 1, 1)
	})
}

func TestBatchThatPanicsBreaksNobodyButWhoeverMadeIt(t *testing.T) {
	const bad = 9
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		store.claim = func(as []idempotency.Attempt) error {
			for _, a := range as {
				if a.Request.Key == keyOf(bad) {
					panic("a driver's fault")
				}
			}
			return nil
		}
		r := newRush(store, idempotency.Config{})
		var panicked any
		keys := r.keys
		release := store.hold("claim")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				defer func() {
					if v := recover(); v != nil {
						panicked = fmt.Sprint(i, ": ", v)
					}
				}()
				res, err := keys.Do(t.Context(), request(keyOf(i)), answering(created(keyOf(i))))
				if err != nil || string(res.Body) != keyOf(i) {
					t.Errorf("caller %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		release()
		all.Wait()
		if panicked != "9: a driver's fault" {
			t.Errorf("the panic went to %v", panicked)
		}
	})
}

func TestCallerWhoLeavesTakesNobodyAlong(t *testing.T) {
	const leaver = 5
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		store.claim = func(as []idempotency.Attempt) error {
			if len(as) > 1 { // its batch is under way
				cancel()
				<-gone
			}
			return nil
		}
		r := newRush(store, idempotency.Config{})
		r.left = func(caller int) {
			if caller == leaver {
				close(gone)
			}
		}
		r.all(func(caller int) context.Context {
			if caller == leaver {
				return ctx
			}
			return t.Context()
		}, nil)
		r.settled(t, leaver)
		store.were(t, "claim", 1, crowd-1)
		err := r.got[leaver].err
		if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, context.Canceled) || r.runs[keyOf(leaver)] != 0 {
			t.Errorf("who left: %v, after %d runs", err, r.runs[keyOf(leaver)])
		}
		pass(time.Minute) // its claim landed, and is given back
		if _, err := r.keys.Do(t.Context(), request(keyOf(leaver)), answering(created("later"))); err != nil {
			t.Errorf("who came later: %v", err)
		}
	})
}

func TestCallerWhoLeavesBeforeItsBatchIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		r := newRush(store, idempotency.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		release := store.hold("claim")
		var all sync.WaitGroup
		for i, ctx := range []context.Context{t.Context(), ctx, t.Context(), t.Context()} {
			all.Go(func() {
				_, r.got[i].err = r.keys.Do(ctx, request(keyOf(i)), answering(created(keyOf(i))))
			})
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if err := r.got[1].err; !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("who left: %v", err)
		}
		release()
		all.Wait()
		store.were(t, "claim", 1, 2)
		if _, err := store.Find(t.Context(), "acme", keyOf(1)); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("the key of who left: %v", err)
		}
	})
}

func TestRenewalsTravelTogetherAndNeverBehindClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newBatched()
		const lease = 30 * time.Second
		r := newRush(store, idempotency.Config{Lease: lease, WorkMax: time.Hour, StoreMax: time.Hour})
		var late sync.WaitGroup
		var release func()
		stuck := sync.OnceFunc(func() {
			release = store.hold("claim")
			time.AfterFunc(lease/3+time.Second, store.hold("renew")) // until the first ones wait
			late.Go(func() {
				if _, err := r.keys.Do(t.Context(), request("late"), answering(created("late"))); err != nil {
					t.Error(err)
				}
			})
		})
		r.all(func(int) context.Context { return t.Context() }, func() {
			pass(time.Second) // everybody is at work
			stuck()
			pass(2 * lease) // all this while no claim gets through
		})
		r.settled(t)
		release()
		late.Wait()
		if n := store.sizes["renew"]; len(n) < 2 || n[0] != 1 || n[1] != crowd-1 {
			t.Errorf("renewals with %v members", n)
		}
	})
}

func TestObserverHearsOfBatchesOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := map[string]int{}
		observer := fifty.ObserverFunc(func(_ context.Context, e fifty.Event) {
			if e.Name != "combine.batch" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			heard[fmt.Sprint(e.Attrs[0].Value, " ", e.Attrs[1].Value)]++
		})
		r := newRush(newBatched(), idempotency.Config{Observer: observer})
		r.all(func(int) context.Context { return t.Context() }, nil)
		synctest.Wait() // it hears behind the callers
		want := map[string]int{"idempotency.claims 255": 1, "idempotency.completions 255": 1}
		if fmt.Sprint(heard) != fmt.Sprint(want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	})
}
