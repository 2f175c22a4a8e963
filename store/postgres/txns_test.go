package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// untouched fails the test unless no effect and no key is there, and no connection is still in use.
func (b bundle) untouched(t *testing.T) {
	t.Helper()
	if n := one[int](t, b.pool, `select (select count(*) from effects) + (select count(*) from fifty.keys)`); n != 0 {
		t.Errorf("%d effects and keys are there", n)
	}
	if n := b.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still in use", n)
	}
}

func TestPostgresPanicInATransactionRollsBackAndGoesOn(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	runs := 0
	for what, call := range map[string]func(){
		"InTx": func() {
			_, _ = b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				_, _ = charge(&runs)(ctx, tx)
				panic("on purpose")
			})
		},
		"Transact": func() {
			_ = b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
				_, _ = charge(&runs)(ctx, tx)
				panic("on purpose")
			})
		},
	} {
		func() {
			defer func() {
				if r := recover(); r != "on purpose" {
					t.Errorf("%s: the panic became %v", what, r)
				}
			}()
			call()
		}()
		b.untouched(t)
	}
}

func TestPostgresFunctionCanNotEndTheTransactionThatItIsGiven(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	var kept, nested pgx.Tx
	runs := 0
	got, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		kept = tx
		defer tx.Rollback(ctx) //nolint:errcheck // as many do who commit at the end
		inner, err := tx.Begin(ctx)
		if err != nil {
			return idempotency.Response{}, err
		}
		if _, err := inner.Exec(ctx, `insert into effects (name) values ('undone')`); err != nil {
			return idempotency.Response{}, err
		}
		if err := inner.Rollback(ctx); err != nil { // a nested one is the function's own
			return idempotency.Response{}, err
		}
		if nested, err = tx.Begin(ctx); err != nil {
			return idempotency.Response{}, err
		}
		r, err := charge(&runs)(ctx, nested)
		if commitErr := tx.Commit(ctx); commitErr == nil {
			t.Error("the function committed")
		}
		return r, err
	})
	if err != nil || !got.Won {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 1 {
		t.Errorf("%d effects", n)
	}
	for name, tx := range map[string]pgx.Tx{"the transaction": kept, "a nested one": nested} {
		if _, err := tx.Exec(t.Context(), `select 1`); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s that was kept: %v", name, err)
		}
		var n int
		if err := tx.QueryRow(t.Context(), `select 1`).Scan(&n); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s that was kept: %v", name, err)
		}
		if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxClosed) {
			t.Errorf("%s that was kept: %v", name, err)
		}
	}
}

func TestPostgresTransactionThatItsFunctionEndedIsNeverAnswered(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	for _, end := range []string{"commit", "rollback"} {
		_, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			_, err := tx.Exec(ctx, end)
			return created("1"), err
		})
		if !errors.Is(err, postgres.ErrEnded) {
			t.Errorf("%s: %v", end, err)
		}
	}
	overSQL := postgres.NewDB(newDB(t, b.url), postgres.Config{})
	_, err := overSQL.Keys().InTx(t.Context(), attempt("k"), func(_ context.Context, tx *sql.Tx) (idempotency.Response, error) {
		return created("1"), tx.Commit()
	})
	if !errors.Is(err, postgres.ErrEnded) {
		t.Errorf("*sql.Tx: %v", err)
	}
	b.untouched(t)
}

func TestPostgresFunctionThatHidesAFailedStatementCommitsNothing(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	fail := func(ctx context.Context, tx pgx.Tx) {
		_, _ = tx.Exec(ctx, `insert into effects (name) values ('hidden')`)
		_, _ = tx.Exec(ctx, `select 1 / 0`)
	}
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		fail(ctx, tx)
		return nil
	})
	if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("Transact: %v", err)
	}
	_, err = b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		fail(ctx, tx)
		return created("1"), nil
	})
	if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("InTx: %v", err)
	}
	b.untouched(t)
}

func TestPostgresFunctionThatLeavesRowsOpenCommitsNothing(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	runs := 0
	_, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		runs++
		_, err := tx.Query(ctx, `select generate_series(1, 10)`)
		return created("1"), err
	})
	if err == nil || b.Keys().Classify(err) != txn.Permanent || runs != 1 {
		t.Errorf("%v after %d runs", err, runs)
	}
	b.untouched(t)
}

// A constraint of the caller's that fails at COMMIT is the caller's error, not a lost race for the key.
func TestPostgresDeferredConstraintOfTheCallersFailsInTx(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	b.exec(t, `create table once (id int unique deferrable initially deferred)`)
	runs := 0
	_, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		runs++
		_, err := tx.Exec(ctx, `insert into once values (1), (1)`)
		return created("1"), err
	})
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pgErr.Code != "23505" || pgErr.TableName != "once" || runs != 1 {
		t.Errorf("%v after %d runs", err, runs)
	}
	b.untouched(t)
}

func TestPostgresRefusalUndoesTheWorkAndIsTheAnswer(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	keys, runs := idempotency.NewTx(b.Keys(), idempotency.Config{}), 0
	declined := idempotency.Response{Status: 402, Body: []byte("declined")}
	for i := range 2 {
		res, err := keys.InTx(t.Context(), request("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			if _, err := charge(&runs)(ctx, tx); err != nil {
				return idempotency.Response{}, err
			}
			return idempotency.Response{}, idempotency.Refuse(declined)
		})
		if err != nil || res.Status != 402 || string(res.Body) != "declined" || res.Replayed != (i > 0) {
			t.Errorf("arrival %d: %+v, %v", i, res, err)
		}
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 || runs != 1 {
		t.Errorf("%d effects after %d runs", n, runs)
	}
}

func TestPostgresIsolationAndAccessModeAreThoseAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	overSQL := postgres.NewDB(newDB(t, b.url), postgres.Config{})
	for opts, want := range map[txn.Options]string{
		{}:                              "read committed/off",
		{Isolation: txn.ReadCommitted}:  "read committed/off",
		{Isolation: txn.RepeatableRead}: "repeatable read/off",
		{Isolation: txn.Serializable, ReadOnly: true}: "serializable/on",
	} {
		const show = `select current_setting('transaction_isolation') || '/' || current_setting('transaction_read_only')`
		var got, gotSQL string
		err := errors.Join(
			b.Txns().Transact(t.Context(), opts, func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, show).Scan(&got) }),
			overSQL.Txns().Transact(t.Context(), opts, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, show).Scan(&gotSQL)
			}),
		)
		if err != nil || got != want || gotSQL != want {
			t.Errorf("%+v: %q and %q, %v; want %q", opts, got, gotSQL, err, want)
		}
	}
	if err := b.Txns().Transact(t.Context(), txn.Options{Isolation: 9}, nil); !errors.Is(err, fifty.ErrInvalid) {
		t.Errorf("no such level: %v", err)
	}
}

func TestPostgresSerializationFailureAtCommitIsRetryable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `create table doctors (name text, on_call boolean)`)
	b.exec(t, `insert into doctors values ('a', true), ('b', true)`)
	opts := txn.Options{Isolation: txn.Serializable}
	leave := func(ctx context.Context, tx pgx.Tx, name string) error {
		var n int
		if err := tx.QueryRow(ctx, `select count(*) from doctors where on_call`).Scan(&n); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `update doctors set on_call = false where name = $1`, name)
		return err
	}
	err := b.Txns().Transact(t.Context(), opts, func(ctx context.Context, tx pgx.Tx) error {
		if err := leave(ctx, tx, "a"); err != nil {
			return err
		}
		return b.Txns().Transact(ctx, opts, func(ctx context.Context, tx pgx.Tx) error { return leave(ctx, tx, "b") })
	})
	if class := b.Txns().Classify(err); err == nil || class != txn.Retryable || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("%v, class %v", err, class)
	}
}

func TestPostgresErrorsHaveTheirClass(t *testing.T) {
	t.Parallel()
	classify := (&postgres.Store[pgx.Tx]{}).Txns().Classify
	code := func(c string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: c}) }
	for name, c := range map[string]struct {
		err  error
		want txn.Class
	}{
		"no error":                   {nil, txn.Permanent},
		"serialization failure":      {code("40001"), txn.Retryable},
		"deadlock":                   {code("40P01"), txn.Retryable},
		"too many connections":       {code("53300"), txn.Retryable},
		"starting up":                {code("57P03"), txn.Retryable},
		"lock time-out":              {code("55P03"), txn.Permanent},
		"unique violation":           {code("23505"), txn.Permanent},
		"idle in transaction":        {code("25P03"), txn.Permanent},
		"statement cancelled":        {code("57014"), txn.Permanent},
		"completion unknown":         {code("40003"), txn.Unknown},
		"connection failure":         {code("08006"), txn.Unknown},
		"resolution unknown":         {code("08007"), txn.Unknown},
		"connection refused":         {code("08004"), txn.Permanent},
		"shutdown":                   {code("57P01"), txn.Unknown},
		"crash":                      {code("57P02"), txn.Unknown},
		"somebody's unknown outcome": {fmt.Errorf("x: %w", fifty.ErrUnknownOutcome), txn.Unknown},
		"somebody's end of file":     {io.ErrUnexpectedEOF, txn.Permanent},
		"somebody's deadline":        {context.DeadlineExceeded, txn.Permanent},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestPostgresServerThatStopsUnderATransactionIsNotUnknown(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	end := func(ctx context.Context, tx pgx.Tx) error { // as an administrator's pg_terminate_backend does
		_, err := tx.Exec(ctx, `select pg_terminate_backend(pg_backend_pid())`)
		return err
	}
	err := b.Txns().Transact(t.Context(), txn.Options{}, end)
	if class := b.Txns().Classify(err); err == nil || class != txn.Retryable || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("the function says it: %v, class %v", err, class)
	}
	err = b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		_ = end(ctx, tx)
		return nil
	})
	if class := b.Txns().Classify(err); err == nil || class != txn.Retryable || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("the function hides it: %v, class %v", err, class)
	}
	b.untouched(t)
}

func TestPostgresLeaseIsCountedInItsUnit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := attempt("k")
	a.Lease = 90 * time.Minute
	won := claim(t, b.Keys(), a)
	const between = `select expires - changed between $1::text::interval - interval '1 second' and $1::text::interval + interval '1 second' from fifty.keys`
	if !one[bool](t, b.pool, between, "90 minutes") {
		t.Error("the claim's lease is not 90 minutes")
	}
	if _, err := b.Keys().Renew(t.Context(), []idempotency.Claim{claimOf(won.Record)}, 5*time.Hour); err != nil {
		t.Fatal(err)
	}
	if !one[bool](t, b.pool, between, "5 hours") {
		t.Error("the renewal's lease is not 5 hours")
	}
}
