package sqlite_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// suiteStores makes the stores of the suite: all on one file, with one clock.
type suiteStores struct {
	path  string
	clock *hostClock
	sql   sqlite.Statements

	mu   sync.Mutex
	made []*sqlite.Store
}

func newSuite(t *testing.T, sql sqlite.Statements) (*suiteStores, idempotencytest.Features) {
	t.Helper()
	s := &suiteStores{path: newFile(t), clock: newHostClock(), sql: sql}
	return s, idempotencytest.Features{
		Advance: func(d time.Duration) { s.clock.Add(d) },
		Blocked: s.blocked,
		Grace:   time.Millisecond,
	}
}

// blocked counts the callers that wait for the writer. They wait in this process, so this is exact.
func (s *suiteStores) blocked(context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, store := range s.made {
		n += store.Waiting()
	}
	return n
}

func (s *suiteStores) store(tb testing.TB, hook idempotencytest.Hook) *sqlite.Store {
	cfg := sqlite.Config{Now: s.clock.Now}.WithHook(hook).WithStatements(s.sql)
	store := open(tb, s.path, cfg.WithPragma("synchronous(OFF)")) // no power is cut here
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made = append(s.made, store)
	return store
}

func (s *suiteStores) keys(tb testing.TB, hook idempotencytest.Hook) idempotency.Store {
	return s.store(tb, hook).Keys()
}

func (s *suiteStores) txKeys(tb testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[*sql.Tx] {
	store := s.store(tb, hook)
	business(tb, store)
	return idempotencytest.TxHarness[*sql.Tx]{
		Store:   store.Keys(),
		Txns:    store.Txns(),
		Effect:  effect,
		Effects: func(ctx context.Context, name string) (int, error) { return countEffects(ctx, store, name) },
		Break: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (name) VALUES (NULL)`)
			return err
		},
	}
}

func TestSQLiteKeepsTheContractOfAStoreOfKeys(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := newSuite(t, sqlite.Shipped())
	features.SchedulesMin = 1100
	idempotencytest.Run(t, stores.keys, features)
}

func TestSQLiteKeepsTheContractWithinTransactions(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := newSuite(t, sqlite.Shipped())
	features.SchedulesMin = 300
	idempotencytest.RunTx(t, stores.txKeys, features)
}
