package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// doCallers is how many callers Do has at once, and doPool how many connections our side has.
const (
	doCallers = 256
	doPool    = 32
)

var doCases = []Case{
	{
		Name: "do-postgres-empty",
		Goal: atLeast(5),
		What: "256 callers of one process, each with a new key and a function that does nothing. Ours: Do. Theirs: the claim and the completion, a statement and a commit each, at its best pool size.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			return doThroughput(ctx, b, func(context.Context, *pgxpool.Pool) error { return nil })
		},
	},
	{
		Name: "do-postgres-commit",
		Goal: atLeast(2),
		What: "The same, where the function writes an order and commits it, over the same pool, on both sides.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return doThroughput(ctx, b, writeOrder) },
	},
	{
		Name: "do-postgres-alone",
		Goal: atMost(1.05),
		What: "One caller, a function that does nothing: latency. Theirs: the two statements.",
		Run:  doAlone,
	},
}

// The hand-written record of a request: all columns that Fifty writes, in a table with the indexes and the free
// space of fifty.keys.
const (
	handClaim = `insert into records (scope, key, fingerprint, state, token, attempt, owner, resume, expires)
values ($1::text, $2::text, $3::bytea, 1, 1, $4::text, $5::text, false, clock_timestamp() + interval '30 seconds')
on conflict do nothing`

	handComplete = `update records
set state = 2, status = $5::integer, header = $6::bytea, body = $7::bytea, not_replayable = false, changed = clock_timestamp()
where scope = $1::text and key = $2::text and token = $3::bigint and attempt = $4::text and state in (1, 3)`
)

func writeOrder(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, orderInsert, customer, 1999)
	return err
}

// keyedWork is a function that runs under a key.
type keyedWork func(ctx context.Context, pool *pgxpool.Pool) error

func doThroughput(ctx context.Context, b *bench, work keyedWork) (float64, error) {
	w, theirs, err := newDoWorld(ctx, b, handPools, work)
	if err != nil {
		return 0, err
	}
	return medianOf(throughput(ctx, b, doCallers, Side{Name: "Do", Op: w.do(work)}, theirs...))
}

func doAlone(ctx context.Context, b *bench) (float64, error) {
	empty := func(context.Context, *pgxpool.Pool) error { return nil }
	w, theirs, err := newDoWorld(ctx, b, []int{4}, empty)
	if err != nil {
		return 0, err
	}
	return medianOf(latency(ctx, b, Side{Name: "Do", Op: w.do(empty)}, theirs...))
}

// newDoWorld makes the tables, and the hand-written side over each pool.
func newDoWorld(ctx context.Context, b *bench, pools []int, work keyedWork) (*pgWorld, []Side, error) {
	w, err := newPgWorld(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	w.pool.Close()
	if w.pool, err = openPool(ctx, b, w.url, doPool); err != nil {
		return nil, nil, err
	}
	w.store = postgres.New(w.pool, postgres.Config{})
	w.keys = idempotency.NewTx(w.store.Keys(), idempotency.Config{Owner: handOwner})
	b.Explain("By hand, in a table like fifty.keys, indexes included:\n%s;\n\n%s", handClaim, handComplete)
	var theirs []Side
	for _, connections := range pools {
		pool, err := openPool(ctx, b, w.url, connections)
		if err != nil {
			return nil, nil, err
		}
		theirs = append(theirs, Side{Name: fmt.Sprintf("by hand, pool of %d", connections), Op: doByHand(pool, work)})
	}
	return w, theirs, settlePostgres(ctx, w.url)
}

// do is one request of ours.
func (w *pgWorld) do(work keyedWork) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		_, err := w.keys.Do(ctx, benchRequest(saleID()), func(ctx context.Context) (idempotency.Response, error) {
			return orderAnswer(1), work(ctx, w.pool)
		})
		return err
	}
}

// doByHand is one request of the hand-written side.
func doByHand(pool *pgxpool.Pool, work keyedWork) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		key := saleID()
		tag, err := pool.Exec(ctx, handClaim, benchScope, key, []byte(benchPrint), key, handOwner)
		if err != nil || tag.RowsAffected() != 1 {
			return errors.Join(errors.New("the claim by hand failed"), err)
		}
		if err := work(ctx, pool); err != nil {
			return err
		}
		answer := orderAnswer(1)
		args, err := recordArgs(key, answer)
		if err != nil {
			return err
		}
		header := args[len(args)-2]
		tag, err = pool.Exec(ctx, handComplete, benchScope, key, int64(1), key, answer.Status, header, answer.Body)
		if err != nil || tag.RowsAffected() != 1 {
			return errors.Join(errors.New("the completion by hand failed"), err)
		}
		return nil
	}
}
