package postgres_test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// stockFeatures lets the suite ask the server who waits for a lock. All orders of its races take a quarter of an
// hour, so that only make soak runs them all.
func (h harness) stockFeatures() inventorytest.Features {
	f := inventorytest.Features{Blocked: h.features().Blocked, OrdersMax: 12}
	if os.Getenv("FIFTY_SOAK_ROUNDS") != "" {
		f.OrdersMax = 0
	}
	return f
}

func (h harness) stockPgx(pool *pgxpool.Pool) func(testing.TB, inventorytest.Hook) inventorytest.TxHarness[pgx.Tx] {
	return func(_ testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[pgx.Tx] {
		s := postgres.New(pool, postgres.Config{})
		s.SetHook(hook)
		s.SetStockLockMax(patience) // a schedule may hold a row for longer than a host would
		return inventorytest.TxHarness[pgx.Tx]{
			Store: s.Stock(), Txns: s.Txns(), Effects: h.effects,
			Effect: func(ctx context.Context, tx pgx.Tx, name string) error {
				_, err := tx.Exec(ctx, `insert into effects (name) values ($1)`, name)
				return err
			},
		}
	}
}

func (h harness) stockSQL(db *sql.DB) func(testing.TB, inventorytest.Hook) inventorytest.TxHarness[*sql.Tx] {
	return func(_ testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*sql.Tx] {
		s := postgres.NewDB(db, postgres.Config{})
		s.SetHook(hook)
		s.SetStockLockMax(patience) // a schedule may hold a row for longer than a host would
		return inventorytest.TxHarness[*sql.Tx]{
			Store: s.Stock(), Txns: s.Txns(), Effects: h.effects,
			Effect: func(ctx context.Context, tx *sql.Tx, name string) error {
				_, err := tx.ExecContext(ctx, `insert into effects (name) values ($1)`, name)
				return err
			},
		}
	}
}

func stockOf[Tx any](newTx func(testing.TB, inventorytest.Hook) inventorytest.TxHarness[Tx]) func(testing.TB, inventorytest.Hook) inventory.Store {
	return func(tb testing.TB, hook inventorytest.Hook) inventory.Store { return newTx(tb, hook).Store }
}

func TestPostgresKeepsTheContractOfStock(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t)+"&synchronous_commit=off") // the server stays up
	inventorytest.Run(t, stockOf(h.stockPgx(newPool(t, h.url))), h.stockFeatures())
}

func TestPostgresKeepsTheContractOfStockInTransactions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t)+"&synchronous_commit=off") // the server stays up
	inventorytest.RunTx(t, h.stockPgx(newPool(t, h.url)), h.stockFeatures())
}

func TestPostgresKeepsTheContractOfStockOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t)+"&synchronous_commit=off") // the server stays up
	inventorytest.Run(t, stockOf(h.stockSQL(newDB(t, h.url))), h.stockFeatures())
}

func TestPostgresKeepsTheContractOfStockInTransactionsOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t)+"&synchronous_commit=off") // the server stays up
	inventorytest.RunTx(t, h.stockSQL(newDB(t, h.url)), h.stockFeatures())
}
