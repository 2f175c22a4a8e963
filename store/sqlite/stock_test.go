package sqlite_test

import (
	"context"
	"database/sql"
	"sync/atomic"
	"testing"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// stockStores are suiteStores that know how many of the latest store's callers wait.
type stockStores struct {
	suiteStores
	latest *atomic.Pointer[sqlite.Store]
}

// stockSuite is newSuite for stock.
func stockSuite(t *testing.T, sql sqlite.Statements) (stockStores, inventorytest.Features) {
	t.Helper()
	stores, f := newSuite(t, sql)
	s := stockStores{stores, &atomic.Pointer[sqlite.Store]{}}
	return s, inventorytest.Features{
		Advance: f.Advance, TxWaits: f.TxWaits,
		Blocked: func(context.Context) int { return s.latest.Load().Waiting() }, // all wait in this process
	}
}

func (s stockStores) open(tb testing.TB, hook inventorytest.Hook) *sqlite.Store {
	store := s.store(tb, func(ctx context.Context, point string) { hook(ctx, point) })
	s.latest.Store(store)
	return store
}

func (s stockStores) stock(tb testing.TB, hook inventorytest.Hook) inventory.Store {
	return s.open(tb, hook).Stock()
}

func (s stockStores) txStock(tb testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*sql.Tx] {
	store := s.open(tb, hook)
	business(tb, store)
	return inventorytest.TxHarness[*sql.Tx]{
		Store:   store.Stock(),
		Txns:    store.Txns(),
		Effect:  effect,
		Effects: func(ctx context.Context, name string) (int, error) { return countEffects(ctx, store, name) },
	}
}

func TestSQLiteKeepsTheContractOfStock(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := stockSuite(t, sqlite.Shipped())
	features.SchedulesMin = 1200
	inventorytest.Run(t, stores.stock, features)
}

func TestSQLiteKeepsTheContractOfStockInTransactions(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := stockSuite(t, sqlite.Shipped())
	features.SchedulesMin = 120
	inventorytest.RunTx(t, stores.txStock, features)
}
