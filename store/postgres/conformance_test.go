package postgres_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

const effectsTable = `create table if not exists effects (name text not null)`

// harness is one database that all stores of a test share.
type harness struct {
	url   string
	watch *pgxpool.Pool // apart, so that a look never waits for a connection
}

func newHarness(tb testing.TB, url string) harness {
	tb.Helper()
	h := harness{url: url, watch: newPool(tb, url)}
	migrated(tb, postgres.New(h.watch, postgres.Config{}))
	if _, err := h.watch.Exec(tb.Context(), effectsTable); err != nil {
		tb.Fatal(err)
	}
	return h
}

// features lets the suite ask the server who waits for a lock.
func (h harness) features() idempotencytest.Features {
	return idempotencytest.Features{Blocked: func(ctx context.Context) (n int) {
		const waiting = `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
		if err := h.watch.QueryRow(ctx, waiting).Scan(&n); err != nil {
			return 0
		}
		return n
	}}
}

func (h harness) effects(ctx context.Context, name string) (n int, err error) {
	err = h.watch.QueryRow(ctx, `select count(*) from effects where name = $1`, name).Scan(&n)
	return n, err
}

func (h harness) pgx(pool *pgxpool.Pool, change func(*postgres.Statements)) func(testing.TB, idempotencytest.Hook) idempotencytest.TxHarness[pgx.Tx] {
	return func(_ testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[pgx.Tx] {
		s := postgres.New(pool, postgres.Config{})
		s.SetHook(hook)
		if change != nil {
			s = s.Break(change)
		}
		return idempotencytest.TxHarness[pgx.Tx]{
			Store: s.Keys(),
			Txns:  s.Txns(),
			Effect: func(ctx context.Context, tx pgx.Tx, name string) error {
				_, err := tx.Exec(ctx, `insert into effects (name) values ($1)`, name)
				return err
			},
			Effects: h.effects,
		}
	}
}

func (h harness) sql(db *sql.DB, change func(*postgres.Statements)) func(testing.TB, idempotencytest.Hook) idempotencytest.TxHarness[*sql.Tx] {
	return func(_ testing.TB, hook idempotencytest.Hook) idempotencytest.TxHarness[*sql.Tx] {
		s := postgres.NewDB(db, postgres.Config{})
		s.SetHook(hook)
		if change != nil {
			s = s.Break(change)
		}
		return idempotencytest.TxHarness[*sql.Tx]{
			Store: s.Keys(),
			Txns:  s.Txns(),
			Effect: func(ctx context.Context, tx *sql.Tx, name string) error {
				_, err := tx.ExecContext(ctx, `insert into effects (name) values ($1)`, name)
				return err
			},
			Effects: h.effects,
		}
	}
}

// keysOf is the half of a harness that Run wants.
func keysOf[Tx any](newTx func(testing.TB, idempotencytest.Hook) idempotencytest.TxHarness[Tx]) func(testing.TB, idempotencytest.Hook) idempotency.Store {
	return func(tb testing.TB, hook idempotencytest.Hook) idempotency.Store { return newTx(tb, hook).Store }
}

func TestPostgresKeepsTheContractOfKeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t))
	idempotencytest.Run(t, keysOf(h.pgx(newPool(t, h.url), nil)), h.features())
}

func TestPostgresKeepsTheContractOfKeysInTransactions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t))
	idempotencytest.RunTx(t, h.pgx(newPool(t, h.url), nil), h.features())
}

func TestPostgresKeepsTheContractOfKeysOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t))
	idempotencytest.Run(t, keysOf(h.sql(newDB(t, h.url), nil)), h.features())
}

func TestPostgresKeepsTheContractOfKeysInTransactionsOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testenv.Postgres(t).Database(t))
	idempotencytest.RunTx(t, h.sql(newDB(t, h.url), nil), h.features())
}
