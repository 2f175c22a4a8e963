package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

const insertEffect = `insert into effects (name) values ($1)`

// beginnings are all ways in which a function can begin to work in its transaction: each has one effect.
var beginnings = map[string]func(ctx context.Context, tx pgx.Tx) error{
	"Exec": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertEffect, "1")
		return err
	},
	"Exec without arguments": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into effects (name) values ('1')`)
		return err
	},
	"Exec of several statements": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `select 1; insert into effects (name) values ('1'); select 2`)
		return err
	},
	"Exec in a mode of its own": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertEffect, pgx.QueryExecModeSimpleProtocol, "1")
		return err
	},
	"Exec with named arguments": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into effects (name) values (@name)`, pgx.StrictNamedArgs{"name": "1"})
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertEffect+` returning name, 7`, "1")
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowToMap)
		return err
	},
	"Query whose rows are closed unread": func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertEffect+` returning name`, "1")
		rows.Close()
		return errors.Join(err, rows.Err())
	},
	"QueryRow": func(ctx context.Context, tx pgx.Tx) error {
		var name string
		return tx.QueryRow(ctx, insertEffect+` returning name`, "1").Scan(&name)
	},
	"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(insertEffect, "1")
		return tx.SendBatch(ctx, b).Close()
	},
	"CopyFrom": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"name"}, pgx.CopyFromRows([][]any{{"1"}}))
		return err
	},
	"Prepare": func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Prepare(ctx, "an effect", insertEffect); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "an effect", "1")
		return err
	},
	"a nested transaction": func(ctx context.Context, tx pgx.Tx) error {
		nested, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := nested.Exec(ctx, insertEffect, "1"); err != nil {
			return err
		}
		return nested.Commit(ctx)
	},
	"the connection": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, insertEffect, "1")
		return err
	},
	"large objects": func(ctx context.Context, tx pgx.Tx) error {
		large := tx.LargeObjects()
		if _, err := large.Create(ctx, 0); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, insertEffect, "1")
		return err
	},
}

const effectsAndObjects = `select (select count(*) from effects) + (select count(*) from pg_largeobject_metadata)`

// Twice over one connection, since a statement that it has prepared travels in another way than a new one.
func TestPostgresFunctionMayBeginInAnyWay(t *testing.T) {
	t.Parallel()
	for name, begin := range beginnings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := withEffects(t, setup(t))
			s := postgres.New(newPool(t, b.url, func(c *pgxpool.Config) { c.MaxConns = 1 }), postgres.Config{})
			for run := range 3 {
				before := one[int](t, b.pool, `select count(*) from effects`)
				a := attempt(fmt.Sprint(run))
				work := func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					err := begin(ctx, tx)
					if err == nil {
						_, err = tx.Exec(ctx, insertEffect, "2") // and go on
					}
					return created("1"), err
				}
				got, err := s.Keys().InTx(t.Context(), a, work)
				if err != nil || !got.Won {
					t.Fatalf("%+v, %v", got, err)
				}
				if n := one[int](t, b.pool, `select count(*) from effects`); n != before+2 {
					t.Fatalf("%d effects after %d", n, before)
				}
				all := one[int](t, b.pool, effectsAndObjects)
				other := attempt(fmt.Sprint(run))
				began := false
				got, err = s.Keys().InTx(t.Context(), other, func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
					began = true
					if err := begin(ctx, tx); err == nil {
						t.Error("a duplicate's statement was run")
					}
					_, _ = tx.Exec(ctx, insertEffect, "hidden")
					_ = begin(ctx, tx)
					return created("2"), nil
				})
				if err != nil || got.Won || string(got.Record.Response.Body) != "1" || !began {
					t.Fatalf("a duplicate: %+v, %v", got, err)
				}
				if n := one[int](t, b.pool, effectsAndObjects); n != all {
					t.Fatalf("a duplicate left %d effects and objects, there were %d", n, all)
				}
			}
		})
	}
}

// What is wrong with a function's first statement is told as ever, and is the end of its transaction.
func TestPostgresErrorOfTheFirstStatementIsTheFunctions(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	b.exec(t, `create table once (id int primary key, note text default 'x'); insert into once (id) values (1)`)
	for run := range 3 {
		for name, tc := range map[string]struct{ sql, code, constraint string }{
			"a constraint":   {`insert into once (id) values ($1)`, "23505", "once_pkey"},
			"a division":     {`select 1 / ($1::int - 1)`, "22012", ""},
			"a cast":         {`select ('no number' || $1::int)::int`, "22P02", ""},
			"its text":       {`select $1::int from nowhere`, "42P01", ""},
			"its beginning":  {`nothing like SQL $1`, "42601", ""},
			"what it may do": {`select pg_read_file($1::int::text)`, "58P01", ""},
		} {
			hidden := run == 2
			a := attempt("k")
			got, err := b.Keys().InTx(t.Context(), a, func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				_, err := tx.Exec(ctx, tc.sql, 1)
				pgErr, ok := errors.AsType[*pgconn.PgError](err)
				if !ok || pgErr.Code != tc.code || pgErr.ConstraintName != tc.constraint || (tc.code == "42P01") != (pgErr.Position == 21) && tc.code != "42601" {
					t.Errorf("%s: the statement got %#v", name, err)
				}
				if hidden {
					_, _ = tx.Exec(ctx, insertEffect, "1")
					return created("1"), nil
				}
				return created("1"), err
			})
			if err == nil || got.Won || errors.Is(err, fifty.ErrUnknownOutcome) || errors.Is(err, idempotency.ErrUnclaimed) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			b.untouched(t)
		}
	}
}

// One whose arguments don't fit never left, so the transaction goes on, as with any pgx.Tx.
func TestPostgresFirstStatementThatCanNotBeSentLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	for run := range 3 {
		_, err := b.Keys().InTx(t.Context(), attempt(fmt.Sprint(run)), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			if _, err := tx.Exec(ctx, `select $1::int`, make(chan int)); err == nil {
				t.Error("a channel went as a number")
			}
			ended, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := tx.Exec(ended, insertEffect, "1"); !errors.Is(err, context.Canceled) {
				t.Errorf("under a context that has ended: %v", err)
			}
			_, err := tx.Exec(ctx, insertEffect, "1")
			return created("1"), err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 3 {
		t.Errorf("%d effects", n)
	}
}

func TestPostgresContextThatEndsBeforeOrInTheFirstStatementLeavesNothing(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	for range 2 {
		for name, tc := range map[string]func(ctx context.Context, cancel func(), tx pgx.Tx){
			"before": func(ctx context.Context, cancel func(), tx pgx.Tx) {
				cancel()
				_, _ = tx.Exec(ctx, insertEffect, "1")
			},
			"before, by a way that knows of no context": func(_ context.Context, cancel func(), tx pgx.Tx) {
				cancel()
				_, _ = tx.Conn().Exec(context.WithoutCancel(t.Context()), insertEffect, "1")
			},
			"in it": func(ctx context.Context, cancel func(), tx pgx.Tx) {
				go func() {
					until(t, b.pool, `select exists (select from pg_stat_activity where query like 'insert into effects%' and wait_event = 'PgSleep')`)
					cancel()
				}()
				_, _ = tx.Exec(ctx, `insert into effects (name) select $1 from pg_sleep(60)`, "1")
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := b.Keys().InTx(ctx, attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
				tc(ctx, cancel, tx)
				return created("1"), nil
			})
			cancel()
			if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) {
				t.Errorf("%s: %v", name, err)
			}
			b.idle(t)
			b.untouched(t)
		}
	}
}

// idle waits until no connection is in use: a broken one is closed in the background.
func (b bundle) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.pool.Stat().AcquiredConns() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("a connection stays in use")
		}
	}
}

// The winner has a row that the duplicate's work wants, too. The duplicate is told before it could wait for it.
func TestPostgresDuplicateDoesNotWaitForARowOfTheWinner(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	b.exec(t, `insert into effects (name) values ('account')`)
	keys := idempotency.NewTx(b.Keys(), idempotency.Config{})
	other := idempotency.NewTx(b.Keys(), idempotency.Config{})
	book := func(then func(ctx context.Context)) func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
			_, err := tx.Exec(ctx, `update effects set name = name || $1 where name = 'account'`, "!")
			if err == nil {
				then(ctx)
			}
			return created("1"), err
		}
	}
	_, err := keys.InTx(t.Context(), request("k"), book(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		for range 2 {
			_, err := other.InTx(ctx, request("k"), book(func(context.Context) { t.Error("the duplicate had the row") }))
			if !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("the duplicate got %v", err)
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
}
