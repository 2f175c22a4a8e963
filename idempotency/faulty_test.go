package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

var errDown = errors.New("connection refused")

// errLostReply is what a store says when its reply was lost.
var errLostReply = fmt.Errorf("connection reset: %w", fifty.ErrUnknownOutcome)

// faulty is a store whose calls can be made to fail before they arrive, or after they took effect.
type faulty struct {
	idempotency.TxStore[*memory.Tx]
	mu     sync.Mutex
	before map[string]func() error // by call; an error means that the request was lost
	after  map[string]func() error // an error means that the reply was lost
	calls  map[string]int
}

func newFaulty() *faulty {
	return &faulty{
		TxStore: memory.New(memory.Config{}).Keys(),
		before:  map[string]func() error{}, after: map[string]func() error{}, calls: map[string]int{},
	}
}

// times returns a fault that strikes the first n times.
func times(n int, err error) func() error {
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// during returns a fault that strikes for so long from now.
func during(d time.Duration, err error) func() error {
	until := time.Now().Add(d)
	return func() error {
		if time.Now().Before(until) {
			return err
		}
		return nil
	}
}

func always(err error) func() error { return func() error { return err } }

func (f *faulty) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *faulty) fault(call string, faults map[string]func() error) error {
	f.mu.Lock()
	fault := faults[call]
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault()
}

func (f *faulty) set(call string, before, after func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before[call], f.after[call] = before, after
}

func (f *faulty) do(call string, fn func() error) error {
	f.mu.Lock()
	f.calls[call]++
	f.mu.Unlock()
	if err := f.fault(call, f.before); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return f.fault(call, f.after)
}

func (f *faulty) Claim(ctx context.Context, as []idempotency.Attempt) (out []idempotency.Claimed, err error) {
	err = f.do("claim", func() error {
		out, err = f.TxStore.Claim(ctx, as)
		return err
	})
	return out, err
}

func (f *faulty) Renew(ctx context.Context, cs []idempotency.Claim, lease time.Duration) (out []error, err error) {
	err = f.do("renew", func() error {
		out, err = f.TxStore.Renew(ctx, cs, lease)
		return err
	})
	return out, err
}

func (f *faulty) Complete(ctx context.Context, cs []idempotency.Completion) (out []error, err error) {
	err = f.do("complete", func() error {
		out, err = f.TxStore.Complete(ctx, cs)
		return err
	})
	return out, err
}

func (f *faulty) Find(ctx context.Context, scope, key string) (rec idempotency.Record, err error) {
	err = f.do("find", func() error {
		rec, err = f.TxStore.Find(ctx, scope, key)
		return err
	})
	return rec, err
}

func (f *faulty) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	return f.do("save step", func() error { return f.TxStore.SaveStep(ctx, c, step) })
}

// request is one intent of the tests' only caller.
func request(key string) idempotency.Request {
	return idempotency.Request{Scope: "acme", Key: key, Fingerprint: idempotency.FingerprintOf("charge", 500)}
}

func created(id string) idempotency.Response {
	return idempotency.Response{Status: 201, Header: map[string][]string{"Location": {"/charges/" + id}}, Body: []byte(id)}
}

func answering(r idempotency.Response) func(context.Context) (idempotency.Response, error) {
	return func(context.Context) (idempotency.Response, error) { return r, nil }
}

func mustNotRun(t *testing.T) func(context.Context) (idempotency.Response, error) {
	return func(context.Context) (idempotency.Response, error) {
		t.Error("the function ran again")
		return idempotency.Response{}, nil
	}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// pass lets time pass: the virtual time of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }
