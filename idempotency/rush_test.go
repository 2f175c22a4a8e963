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

// all lets all callers in. ctxOf may give a caller a context; work is what its function does beside being counted.
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
