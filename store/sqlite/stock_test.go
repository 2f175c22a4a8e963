package sqlite_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// stockSuite is newSuite for stock.
func stockSuite(t *testing.T, sql sqlite.Statements) (suiteStores, inventorytest.Features) {
	t.Helper()
	stores, f := newSuite(t, sql)
	return stores, inventorytest.Features{Advance: f.Advance, TxWaits: f.TxWaits, Grace: f.Grace}
}

func (s suiteStores) stock(tb testing.TB, hook inventorytest.Hook) inventory.Store {
	return s.store(tb, func(ctx context.Context, point string) { hook(ctx, point) }).Stock()
}

func (s suiteStores) txStock(tb testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*sql.Tx] {
	store := s.store(tb, func(ctx context.Context, point string) { hook(ctx, point) })
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
	features.SchedulesMin = 1500
	inventorytest.Run(t, stores.stock, features)
}

func TestSQLiteKeepsTheContractOfStockInTransactions(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := stockSuite(t, sqlite.Shipped())
	inventorytest.RunTx(t, stores.txStock, features)
}
