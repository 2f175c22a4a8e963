package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
)

var postgresTxCases = []Case{
	{
		Name: "postgres-intx-throughput",
		Goal: atLeast(0.97),
		What: "16 clients write an order and the record of its key in one transaction. Ours: InTx. Theirs: the fastest of three by hand.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byThroughput(ctx, b, inTxSides) },
	},
	{
		Name: "postgres-intx-p50",
		Goal: atMost(1.10),
		What: "The same by one client.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byLatency(ctx, b, inTxSides) },
	},
	{
		Name: "postgres-intx-sequential-throughput",
		Goal: noGoal(),
		What: "16 clients. Ours: InTx. Theirs: the same two rows with pgx's BeginFunc, a message for each statement.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, inTxAgainstSequential)
		},
	},
	{
		Name: "postgres-intx-sequential-p50",
		Goal: noGoal(),
		What: "The same by one client.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byLatency(ctx, b, inTxAgainstSequential) },
	},
	{
		Name: "postgres-intx-one-message-throughput",
		Goal: noGoal(),
		What: "16 clients. Ours: InTx. Theirs: an answer that is known before the work, so that all goes in one message.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return byThroughput(ctx, b, inTxAgainstOneMessage)
		},
	},
	{
		Name: "postgres-dotx-throughput",
		Goal: atLeast(0.8),
		What: "16 clients. Ours: DoTx in a transaction that the caller begins and commits. Theirs: the same two rows by hand in such a transaction.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byThroughput(ctx, b, doTxSides) },
	},
	{
		Name: "postgres-dotx-p50",
		Goal: atMost(1.35),
		What: "The same by one client.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byLatency(ctx, b, doTxSides) },
	},
	{
		Name: "postgres-sql-intx-throughput",
		Goal: atLeast(0.8),
		What: "16 clients over database/sql. Ours: InTx. Theirs: begin, order, record and commit by hand over database/sql.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byThroughput(ctx, b, sqlSides) },
	},
	{
		Name: "postgres-sql-intx-p50",
		Goal: noGoal(),
		What: "The same by one client.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return byLatency(ctx, b, sqlSides) },
	},
}

// sides makes the sides of a case.
type sides func(ctx context.Context, b *bench, w *pgWorld) (ours Side, theirs []Side, err error)

func byThroughput(ctx context.Context, b *bench, of sides) (float64, error) {
	return compare(ctx, b, of, func(ours Side, theirs []Side) (Ratio, error) {
		return throughput(ctx, b, pgWorkers, ours, theirs...)
	})
}

func byLatency(ctx context.Context, b *bench, of sides) (float64, error) {
	return compare(ctx, b, of, func(ours Side, theirs []Side) (Ratio, error) { return latency(ctx, b, ours, theirs...) })
}

func compare(ctx context.Context, b *bench, of sides, measure func(ours Side, theirs []Side) (Ratio, error)) (float64, error) {
	w, err := newPgWorld(ctx, b)
	if err != nil {
		return 0, err
	}
	ours, theirs, err := of(ctx, b, w)
	if err != nil {
		return 0, err
	}
	if err := settlePostgres(ctx, w.url); err != nil {
		return 0, err
	}
	r, err := measure(ours, theirs)
	return r.Median, err
}

// op makes an operation that is the same for every worker.
func op(fn func(ctx context.Context) error) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error { return fn(ctx) }
}

func (w *pgWorld) inTx(ctx context.Context) error {
	_, err := w.keys.InTx(ctx, benchRequest(w.key()), order)
	return err
}

const handExplained = `By hand, in a table with the columns, indexes and free space of fifty.keys (create table … like … including
indexes), after the order's own statement, which both sides run:
%s
%s
The answer names the id that the database gave the order, so the record can't be written before the order.
sequential: pgx.BeginFunc; begin, order, record and commit are a message each.
batched: pgx.Batch; begin with the order, the record with commit.
pipelined: the same by pgconn.Pipeline, all four statements prepared.`

func inTxSides(_ context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
	b.Explain(handExplained, orderInsert, recordInsert)
	return Side{Name: "InTx", Op: op(w.inTx)}, []Side{
		{Name: "sequential", Op: op(w.handSequential)},
		{Name: "batched", Op: op(w.handBatched)},
		{Name: "pipelined", Op: op(w.handPipelined)},
	}, nil
}

func inTxAgainstSequential(_ context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
	b.Explain(handExplained, orderInsert, recordInsert)
	return Side{Name: "InTx", Op: op(w.inTx)}, []Side{{Name: "sequential", Op: op(w.handSequential)}}, nil
}

func inTxAgainstOneMessage(_ context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
	b.Explain(handExplained, orderInsert, recordInsert)
	b.Explain("one message: pipelined, with an answer that does not depend on what the database says; not the same work, for comparison only.")
	return Side{Name: "InTx", Op: op(w.inTx)}, []Side{{Name: "one message", Op: op(w.handOneMessage)}}, nil
}

func doTxSides(_ context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
	b.Explain(handExplained, orderInsert, recordInsert)
	b.Explain("In a transaction of the caller's begin and commit are messages of the caller's own on both sides, so only sequential is left.")
	ours := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
			_, err := w.keys.DoTx(ctx, tx, benchRequest(w.key()), order)
			return err
		})
	}
	return Side{Name: "DoTx", Op: op(ours)}, []Side{{Name: "sequential", Op: op(w.handSequential)}}, nil
}

func sqlSides(ctx context.Context, b *bench, w *pgWorld) (Side, []Side, error) {
	b.Explain("By hand over database/sql (pgx's stdlib driver): BeginTx, these two, Commit.\n%s\n%s", orderInsert, recordInsert)
	db, keys, err := w.overSQL(b)
	if err != nil {
		return Side{}, nil, err
	}
	ours := func(ctx context.Context) error {
		_, err := keys.InTx(ctx, benchRequest(w.key()), sqlOrder)
		return err
	}
	return Side{Name: "InTx", Op: op(ours)}, []Side{{Name: "by hand", Op: op(func(ctx context.Context) error { return w.handSQL(ctx, db) })}}, nil
}

// sqlOrder is order over database/sql.
func sqlOrder(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
	var id int64
	if err := tx.QueryRowContext(ctx, orderInsert, customer, 1999).Scan(&id); err != nil {
		return idempotency.Response{}, err
	}
	return orderAnswer(id), nil
}

func (w *pgWorld) handSQL(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	r, err := sqlOrder(ctx, tx)
	if err != nil {
		return err
	}
	args, err := recordArgs(w.key(), r)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, recordInsert, args...); err != nil {
		return err
	}
	return tx.Commit()
}
