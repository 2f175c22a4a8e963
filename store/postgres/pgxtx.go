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
	first  *opening     // the claim, if it waits for the first statement
	ended  *atomic.Bool // shared by a transaction and those nested in it
	nested bool
}

// ready makes sure of the claim, before something that can't travel with it.
func (t *givenTx) ready(ctx context.Context) error {
	switch {
	case t.ended.Load():
		return pgx.ErrTxClosed
	case t.first != nil:
		return t.first.alone(ctx)
	}
	return nil
}

// together runs a statement in one message with the claim, if the claim is still to be made. With no reply and no
// error, the statement is to be run as ever.
func (t *givenTx) together(ctx context.Context, sql string, args []any) (*reply, error) {
	switch {
	case t.ended.Load():
		return nil, pgx.ErrTxClosed
	case t.first != nil:
		return t.first.with(ctx, sql, args)
	}
	return nil, nil
}

// Begin starts a nested transaction: a savepoint, which is the function's to commit or roll back.
func (t *givenTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
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
	if err := t.ready(ctx); err != nil {
		return 0, err
	}
	return t.tx.CopyFrom(ctx, table, columns, from)
}

func (t *givenTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.ready(ctx); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return t.tx.SendBatch(ctx, b)
}

func (t *givenTx) LargeObjects() pgx.LargeObjects {
	if t.first != nil && !t.ended.Load() {
		t.first.aloneOrClosed()
	}
	return t.tx.LargeObjects()
}

func (t *givenTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	return t.tx.Prepare(ctx, name, sql)
}

func (t *givenTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if len(args) == 0 { // may be several statements, which can't travel
		if err := t.ready(ctx); err != nil {
			return pgconn.CommandTag{}, err
		}
		return t.tx.Exec(ctx, sql)
	}
	switch r, err := t.together(ctx, sql, args); {
	case err != nil:
		return pgconn.CommandTag{}, err
	case r != nil:
		return r.exec()
	}
	return t.tx.Exec(ctx, sql, args...)
}

func (t *givenTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	switch r, err := t.together(ctx, sql, args); {
	case err != nil:
		return failedRows{err}, err
	case r != nil && r.ended:
		return r, r.err
	case r != nil:
		return r, nil
	}
	return t.tx.Query(ctx, sql, args...)
}

func (t *givenTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	switch r, err := t.together(ctx, sql, args); {
	case err != nil:
		return failedRows{err}
	case r != nil:
		return replyRow{r}
	}
	return t.tx.QueryRow(ctx, sql, args...)
}

// Conn is the connection, which has the transaction; see pgx.Tx.
func (t *givenTx) Conn() *pgx.Conn {
	if t.first != nil && !t.ended.Load() {
		t.first.aloneOrClosed()
	}
	return t.tx.Conn()
}
