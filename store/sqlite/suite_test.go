package sqlite_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// suiteStores makes the stores of the suite: each on a file of its own, so that a sweep has only its own case's
// records to work on; all with one clock.
type suiteStores struct {
	clock *hostClock
	sql   sqlite.Statements
}

func newSuite(t *testing.T, sql sqlite.Statements) (suiteStores, idempotencytest.Features) {
	t.Helper()
	s := suiteStores{newHostClock(), sql}
	return s, idempotencytest.Features{
		Advance: func(d time.Duration) { s.clock.Add(d) },
		Now:     s.now,
		TxWaits: "a file has one writer",
		Grace:   2 * time.Millisecond, // one that waits for the writer waits in this process; only a flush may be as slow
	}
}

// now is the file's time, which counts microseconds and rounds up.
func (s suiteStores) now() time.Time {
	return s.clock.Now().Add(time.Microsecond - 1).Truncate(time.Microsecond)
}

func (s suiteStores) store(tb testing.TB, hook idempotencytest.Hook) *sqlite.Store {
	cfg := sqlite.Config{Now: s.clock.Now}.WithHook(hook).WithStatements(s.sql)
	return open(tb, newFile(tb), cfg.WithPragma("synchronous(OFF)")) // no power is cut here
}

func (s suiteStores) keys(tb testing.TB, hook idempotencytest.Hook) idempotency.Store {
	return s.store(tb, hook).Keys()
}

func (s suiteStores) txKeys(tb testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[*sql.Tx] {
	store := s.store(tb, hook)
	business(tb, store)
	return idempotencytest.TxHarness[*sql.Tx]{
		Store:   store.Keys(),
		Txns:    store.Txns(),
		Effect:  effect,
		Effects: func(ctx context.Context, name string) (int, error) { return countEffects(ctx, store, name) },
	}
}

func TestSQLiteKeepsTheContractOfAStoreOfKeys(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := newSuite(t, sqlite.Shipped())
	idempotencytest.Run(t, stores.keys, features)
}

func TestSQLiteKeepsTheContractWithinTransactions(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := newSuite(t, sqlite.Shipped())
	idempotencytest.RunTx(t, stores.txKeys, features)
}
