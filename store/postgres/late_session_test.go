package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// single is a store over one connection.
func (b bundle) single(t *testing.T, change ...func(*pgxpool.Config)) (*postgres.Store[pgx.Tx], *pgxpool.Pool) {
	t.Helper()
	pool := newPool(t, b.url, append(change, func(c *pgxpool.Config) { c.MaxConns = 1 })...)
	return postgres.New(pool, postgres.Config{}), pool
}

// A connection keeps statements of functions prepared; their number is bounded.
func TestPostgresConnectionKeepsABoundedNumberOfStatements(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	s, pool := b.single(t)
	for i := range 100 {
		_, err := s.Keys().InTx(t.Context(), attempt(fmt.Sprint(i)), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			_, err := tx.Exec(ctx, fmt.Sprintf(`insert into effects (name) values ($1 || '%d')`, i), "an effect")
			return created("1"), err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, pool, `select count(*) from pg_prepared_statements where name like 'fifty\_%'`); n == 0 || n > 64 {
		t.Errorf("%d statements", n)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 100 {
		t.Errorf("%d effects", n)
	}
}

// What the session has forgotten, or what has changed its form, costs one call at most, as with pgx's own statements.
func TestPostgresStatementThatTheSessionLostIsPreparedAnew(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	s, pool := b.single(t)
	runs := 0
	read := func() error {
		runs++
		_, err := s.Keys().InTx(t.Context(), attempt(fmt.Sprint(runs)), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			rows, err := tx.Query(ctx, `select * from effects where name <> $1`, "none")
			if err != nil {
				return idempotency.Response{}, err
			}
			_, err = pgx.CollectRows(rows, pgx.RowToMap)
			return created("1"), err
		})
		return err
	}
	for what, change := range map[string]func(){
		"nothing":             func() {},
		"a column more":       func() { b.exec(t, `alter table effects add column more int`) },
		"a session that lost": func() { pool.Exec(t.Context(), `deallocate all`) }, //nolint:errcheck // the next call would say so
		"DeallocateAll": func() {
			if err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error { return c.Conn().DeallocateAll(t.Context()) }); err != nil {
				t.Error(err)
			}
		},
	} {
		if err := read(); err != nil {
			t.Fatal(err)
		}
		change()
		var err error
		for range 12 { // as many statements are of the message
			if err = read(); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
}

// traced keeps what a tracer hears.
type traced struct {
	mu    sync.Mutex
	ended []string
}

type tracedKey struct{}

func (tr *traced) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, tracedKey{}, data.SQL)
}

func (tr *traced) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	sql, _ := ctx.Value(tracedKey{}).(string)
	tr.ended = append(tr.ended, fmt.Sprintf("%s: %s, failed %v", sql, data.CommandTag, data.Err != nil))
}

func TestPostgresTracerSeesTheFunctionsStatements(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	tr := &traced{}
	s, _ := b.single(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tr })
	for range 3 { // the last two are duplicates
		_, err := s.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			_, err := tx.Exec(ctx, insertEffect, "1")
			if err == nil {
				_, err = tx.Exec(ctx, insertEffect, "2")
			}
			return created("1"), err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	done, failed := insertEffect+": INSERT 0 1, failed false", insertEffect+": , failed true"
	var got []string
	for _, line := range tr.ended {
		if line == done || line == failed {
			got = append(got, line)
		}
	}
	if want := []string{done, done, failed, failed}; !slices.Equal(got, want) {
		t.Errorf("the tracer heard %q, want %q", got, want)
	}
}

// A pool that prepares nothing, for the sake of a pooler, has the claim go first.
func TestPostgresPoolThatPreparesNothingClaimsFirst(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		s, pool := b.single(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		seen, runs := watch(s), 0
		for range 2 {
			if _, err := s.Keys().InTx(t.Context(), attempt(mode.String()), charge(&runs)); err != nil {
				t.Fatalf("%v: %v", mode, err)
			}
		}
		seen.were(t, mode.String(), "begin+intx.enter+intx.look", "intx.answer+commit", "begin+intx.enter+intx.look")
		if n := one[int](t, pool, `select count(*) from pg_prepared_statements where name <> ''`); n != 0 || runs != 1 {
			t.Errorf("%v: %d statements after %d runs", mode, n, runs)
		}
	}
}

// A function that panics before it had a statement has begun nothing.
func TestPostgresPanicBeforeTheFirstStatementLeavesNothing(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		_, _ = b.Keys().InTx(t.Context(), attempt("k"), func(context.Context, pgx.Tx) (idempotency.Response, error) {
			panic("on purpose")
		})
	}()
	b.untouched(t)
}

// A function that fails before it had a statement has its error, unless it is a duplicate's.
func TestPostgresErrorBeforeTheFirstStatementIsThatOfTheFirstArrivalOnly(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	fails := func(context.Context, pgx.Tx) (idempotency.Response, error) {
		return idempotency.Response{}, errRollBack
	}
	if _, err := b.Keys().InTx(t.Context(), attempt("k"), fails); !errors.Is(err, errRollBack) {
		t.Errorf("the first: %v", err)
	}
	b.untouched(t)
	runs := 0
	if _, err := b.Keys().InTx(t.Context(), attempt("k"), charge(&runs)); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Keys().InTx(t.Context(), attempt("k"), fails); err != nil || string(got.Record.Response.Body) != "1" {
		t.Errorf("a duplicate: %+v, %v", got, err)
	}
}
