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
	"github.com/fiftyhosts/fifty/txn"
)

// crowd is how many callers come at once.
const crowd = 256

// batched is a store that gains by batches. It notes how large its calls were, and can be held before each.
type batched struct {
	*faulty
	mu    sync.Mutex
	sizes map[string][]int
	holds map[string]chan struct{} // a call waits until its channel is closed

	claim func(as []idempotency.Attempt) error // instead of a call, when it fails
	after func(as []idempotency.Attempt, out []idempotency.Claimed) error
	ends  func(cs []idempotency.Completion) error
	lost  func(cs []idempotency.Completion) error
	alone func(key string) bool // of members that a batch leaves out
}

func newBatched() *batched {
	return &batched{faulty: newFaulty(), sizes: map[string][]int{}, holds: map[string]chan struct{}{}}
}

func (b *batched) BatchMax() int { return crowd }

// Classify says that a lost connection is nobody's fault.
func (b *batched) Classify(err error) txn.Class {
	switch {
	case errors.Is(err, fifty.ErrUnknownOutcome):
		return txn.Unknown
	case errors.Is(err, errDown):
		return txn.Retryable
	default:
		return txn.Permanent
	}
}

// hold has the next calls wait, and returns what lets them go on.
func (b *batched) hold(call string) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gate := make(chan struct{})
	b.holds[call] = gate
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.holds, call)
		close(gate)
	}
}

func (b *batched) enter(ctx context.Context, call string, size int) error {
	b.mu.Lock()
	b.sizes[call] = append(b.sizes[call], size)
	gate := b.holds[call]
	b.mu.Unlock()
	if gate == nil {
		return nil
	}
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *batched) were(t *testing.T, call string, want ...int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.sizes[call], want) {
		t.Errorf("calls of %s with %v members, want %v", call, b.sizes[call], want)
	}
}

func (b *batched) Claim(ctx context.Context, as []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if err := b.enter(ctx, "claim", len(as)); err != nil {
		return nil, err
	}
	if b.claim != nil {
		if err := b.claim(as); err != nil {
			return nil, err
		}
	}
	out := make([]idempotency.Claimed, len(as))
	for i, a := range as {
		if len(as) > 1 && b.alone != nil && b.alone(a.Request.Key) {
			out[i].Err = idempotency.ErrAlone
			continue
		}
		one, err := b.faulty.Claim(ctx, as[i:i+1])
		if err != nil {
			return nil, err
		}
		out[i] = one[0]
	}
	if b.after != nil {
		return out, b.after(as, out)
	}
	return out, nil
}

func (b *batched) Renew(ctx context.Context, cs []idempotency.Claim, lease time.Duration) ([]error, error) {
	if err := b.enter(ctx, "renew", len(cs)); err != nil {
		return nil, err
	}
	return b.faulty.Renew(ctx, cs, lease)
}

func (b *batched) Complete(ctx context.Context, cs []idempotency.Completion) ([]error, error) {
	if err := b.enter(ctx, "complete", len(cs)); err != nil {
		return nil, err
	}
	if b.ends != nil {
		if err := b.ends(cs); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(cs))
	for i, c := range cs {
		if len(cs) > 1 && b.alone != nil && b.alone(c.Claim.Key) {
			errs[i] = idempotency.ErrAlone
			continue
		}
		one, err := b.faulty.Complete(ctx, cs[i:i+1])
		if err != nil {
			return nil, err
		}
		errs[i] = one[0]
	}
	if b.lost != nil {
		return errs, b.lost(cs)
	}
	return errs, nil
}

// rush is a crowd of callers, each with a key of its own: the first call of the store is held until the others
// wait for it.
type rush struct {
	store *batched
	keys  *idempotency.Keys
	mu    sync.Mutex
	runs  map[string]int
	got   []outcome
	left  func(caller int) // when its Do has returned; nil for nothing
}

type outcome struct {
	res idempotency.Result
	err error
}

func newRush(store *batched, cfg idempotency.Config) *rush {
	return &rush{store: store, keys: idempotency.New(store, cfg), runs: map[string]int{}, got: make([]outcome, crowd)}
}

func keyOf(caller int) string { return fmt.Sprintf("key-%03d", caller) }

// go lets all callers in. ctxOf may give a caller a context; work is what its function does beside being counted.
func (r *rush) all(ctxOf func(caller int) context.Context, work func()) {
	claims, ends := r.store.hold("claim"), r.store.hold("complete")
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			res, err := r.keys.Do(ctxOf(i), request(keyOf(i)), func(context.Context) (idempotency.Response, error) {
				r.mu.Lock()
				r.runs[keyOf(i)]++
				r.mu.Unlock()
				if work != nil {
					work()
				}
				return created(keyOf(i)), nil
			})
			r.got[i] = outcome{res, err}
			if r.left != nil {
				r.left(i)
			}
		})
		if i == 0 {
			synctest.Wait() // its claim is on its way, by itself
		}
	}
	synctest.Wait()
	claims()
	synctest.Wait()
	ends()
	all.Wait()
}

// settled says that each caller but those named got its own answer, of one run.
func (r *rush) settled(t *testing.T, but ...int) {
	t.Helper()
	for i, o := range r.got {
		if slices.Contains(but, i) {
			continue
		}
		if o.err != nil || string(o.res.Body) != keyOf(i) || o.res.Replayed || r.runs[keyOf(i)] != 1 {
			t.Errorf("caller %d: %q, replayed %v, %v, after %d runs", i, o.res.Body, o.res.Replayed, o.err, r.runs[keyOf(i)])
		}
	}
}

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
