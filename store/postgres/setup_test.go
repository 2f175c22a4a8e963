package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

func TestPostgresReadOnlyDatabaseIsNamedAndNothingRuns(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	answered, runs := idempotency.NewTx(b.Keys(), idempotency.Config{}), 0
	if _, err := answered.InTx(t.Context(), request("answered"), charge(&runs)); err != nil {
		t.Fatal(err)
	}
	pool := newPool(t, b.url, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	s := postgres.New(pool, postgres.Config{})
	keys := idempotency.NewTx(s.Keys(), idempotency.Config{})

	_, doErr := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
		t.Error("the function ran")
		return idempotency.Response{}, nil
	})
	_, inTxErr := keys.InTx(t.Context(), request("k"), mustNotRun(t))
	for name, err := range map[string]error{"Do": doErr, "InTx": inTxErr} {
		if !errors.Is(err, idempotency.ErrUnavailable) || !errors.Is(err, postgres.ErrReadOnly) || !strings.Contains(err.Error(), "takes no writes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Keys().Sweep(t.Context(), 0, 0, 10); !errors.Is(err, postgres.ErrReadOnly) {
		t.Errorf("Sweep: %v", err)
	}
	// What is there already can be read.
	if res, err := keys.InTx(t.Context(), request("answered"), mustNotRun(t)); err != nil || !res.Replayed {
		t.Errorf("a duplicate: %+v, %v", res, err)
	}
	warnings, err := s.Check(t.Context())
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "default_transaction_read_only") {
		t.Errorf("Check: %q, %v", warnings, err)
	}
}

func TestPostgresTablesOfAnOlderProgramAreNamed(t *testing.T) {
	t.Parallel()
	none := bundle{pool: newPool(t, testenv.Postgres(t).Database(t))}
	all := map[string]bundle{"no tables": none}
	const newest = 5 // of the migrations that keys need
	for version := 2; version < newest; version++ {
		older := bundle{pool: newPool(t, testenv.Postgres(t).Database(t))}
		for _, statement := range postgres.MigrationsUpTo(version) {
			older.exec(t, statement)
		}
		all[fmt.Sprint("tables of version ", version)] = older
	}
	for name, b := range all {
		keys := idempotency.NewTx(postgres.New(b.pool, postgres.Config{}).Keys(), idempotency.Config{})
		_, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			t.Error("the function ran")
			return idempotency.Response{}, nil
		})
		_, inTxErr := keys.InTx(t.Context(), request("k"), func(context.Context, pgx.Tx) (idempotency.Response, error) {
			t.Error("the function ran")
			return idempotency.Response{}, nil
		})
		for _, err := range []error{err, inTxErr} {
			if !errors.Is(err, postgres.ErrSchemaTooOld) || !errors.Is(err, idempotency.ErrUnavailable) || !strings.Contains(err.Error(), "call Migrate") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPostgresMigrationDoesNotMakeClaimsQueueBehindALongTransaction(t *testing.T) {
	t.Parallel()
	b := bundle{pool: newPool(t, testenv.Postgres(t).Database(t))}
	for _, statement := range postgres.MigrationsUpTo(2) {
		b.exec(t, statement)
	}
	long, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer long.Rollback(context.Background()) //nolint:errcheck // it only holds a lock
	if _, err := long.Exec(t.Context(), `select count(*) from fifty.keys`); err != nil {
		t.Fatal(err)
	}
	s := postgres.New(b.pool, postgres.Config{})
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Fatalf("%v", err)
	}
	if err := long.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	migrated(t, s)
}
