package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// errNotYours answers a function that would end a transaction which it was only lent.
var errNotYours = errors.New("postgres: this transaction is committed or rolled back by what the function returns")

// givenTx is the transaction in the hands of a caller's function. It is a real pgx.Tx in all but its end:
// Commit and Rollback are refused and change nothing, and once the function has returned every method says
// pgx.ErrTxClosed, so that a transaction that was kept can't reach a connection which has a new user.
type givenTx struct {
	tx     pgx.Tx
	ended  *atomic.Bool // shared by a transaction and those nested in it
	nested bool
}

// Begin starts a nested transaction: a savepoint, which is the function's to commit or roll back.
func (t *givenTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if t.ended.Load() {
		return nil, pgx.ErrTxClosed
	}
	nested, err := t.tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &givenTx{tx: nested, ended: t.ended, nested: true}, nil
}

// Commit is refused unless t is nested: return nil from the function instead.
func (t *givenTx) Commit(ctx context.Context) error {
	switch {
	case t.ended.Load():
		return pgx.ErrTxClosed
	case !t.nested:
		return errNotYours
	}
	return t.tx.Commit(ctx)
}

// Rollback is refused unless t is nested: return an error from the function instead.
func (t *givenTx) Rollback(ctx context.Context) error {
	switch {
	case t.ended.Load():
		return pgx.ErrTxClosed
	case !t.nested:
		return errNotYours
	}
	return t.tx.Rollback(ctx)
}

func (t *givenTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, from pgx.CopyFromSource) (int64, error) {
	if t.ended.Load() {
		return 0, pgx.ErrTxClosed
	}
	return t.tx.CopyFrom(ctx, table, columns, from)
}

func (t *givenTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if t.ended.Load() {
		return pgx.FailedBatchResults(b, pgx.ErrTxClosed)
	}
	return t.tx.SendBatch(ctx, b)
}

func (t *givenTx) LargeObjects() pgx.LargeObjects { return t.tx.LargeObjects() }

func (t *givenTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if t.ended.Load() {
		return nil, pgx.ErrTxClosed
	}
	return t.tx.Prepare(ctx, name, sql)
}

func (t *givenTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.ended.Load() {
		return pgconn.CommandTag{}, pgx.ErrTxClosed
	}
	return t.tx.Exec(ctx, sql, args...)
}

func (t *givenTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.ended.Load() {
		return nil, pgx.ErrTxClosed
	}
	return t.tx.Query(ctx, sql, args...)
}

func (t *givenTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.ended.Load() {
		return closedRow{}
	}
	return t.tx.QueryRow(ctx, sql, args...)
}

func (t *givenTx) Conn() *pgx.Conn { return t.tx.Conn() }

type closedRow struct{}

func (closedRow) Scan(...any) error { return pgx.ErrTxClosed }
