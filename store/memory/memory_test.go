package memory_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/txn"

	"github.com/fiftyhosts/fifty/idempotency"
)

// clock is a store's clock that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMemoryKeepsTheContractOfKeys(t *testing.T) {
	t.Parallel()
	c := newClock()
	newStore := func(_ testing.TB, hook idempotencytest.Hook) idempotency.Store {
		return memory.NewHooked(memory.Config{Now: c.Now}, hook).Keys()
	}
	idempotencytest.Run(t, newStore, idempotencytest.Features{
		Advance: c.advance, Now: c.Now,
		Blocked: func(context.Context) int { return 0 }, // there are no transactions to wait for
	})
}

func TestMemoryKeepsTheContractOfKeysInTransactions(t *testing.T) {
	t.Parallel()
	c := newClock()
	var latest atomic.Pointer[memory.Store]
	newTx := func(_ testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[*memory.Tx] {
		s := memory.NewHooked(memory.Config{Now: c.Now}, hook)
		latest.Store(s)
		var mu sync.Mutex
		effects := map[string]int{}
		return idempotencytest.TxHarness[*memory.Tx]{
			Store: s.Keys(),
			Txns:  s.Txns(),
			Effect: func(_ context.Context, tx *memory.Tx, name string) error {
				tx.OnCommit(func() {
					mu.Lock()
					defer mu.Unlock()
					effects[name]++
				})
				return nil
			},
			Effects: func(_ context.Context, name string) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				return effects[name], nil
			},
		}
	}
	idempotencytest.RunTx(t, newTx, idempotencytest.Features{
		Advance: c.advance, Now: c.Now,
		Blocked: func(context.Context) int { return latest.Load().Waiting() },
	})
}

func TestOnCommitRunsOnceAtCommitAndNeverAfterARollback(t *testing.T) {
	txns := memory.New(memory.Config{}).Txns()
	n := 0
	errUndo := errors.New("undo")
	err := txns.Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
		tx.OnCommit(func() { n++ })
		if err := txns.Savepoint(ctx, tx, func(context.Context) error {
			tx.OnCommit(func() { n += 100 })
			return errUndo
		}); err != errUndo {
			t.Errorf("savepoint: %v", err)
		}
		if n != 0 {
			t.Error("ran before the commit")
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Fatalf("%v, n = %d", err, n)
	}
	err = txns.Transact(t.Context(), txn.Options{}, func(_ context.Context, tx *memory.Tx) error {
		tx.OnCommit(func() { n++ })
		return errUndo
	})
	if err != errUndo || n != 1 {
		t.Fatalf("%v, n = %d", err, n)
	}
}

func TestSecretIsMadeOncePerName(t *testing.T) {
	s := memory.New(memory.Config{})
	a, _ := s.Secret(t.Context(), "a")
	again, _ := s.Secret(t.Context(), "a")
	b, _ := s.Secret(t.Context(), "b")
	if len(a) != 32 || string(a) != string(again) || string(a) == string(b) {
		t.Fatal("want 32 bytes, the same for one name, others for another")
	}
	a[0]++
	if again, _ := s.Secret(t.Context(), "a"); again[0] == a[0] {
		t.Fatal("a caller can change the secret")
	}
}
