package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
)

// turn is the process's queue for the file's writer, first come, first served. SQLite alone would let the
// waiting callers poll, and the newest could win.
type turn struct {
	taken   chan struct{}
	waiting *atomic.Int64 // callers, for tests
}

func newTurn() turn { return turn{make(chan struct{}, 1), &atomic.Int64{}} }

// take waits for the turn. Go hands a place in a channel to the sender that has waited longest.
func (t turn) take(ctx context.Context) error {
	t.waiting.Add(1)
	defer t.waiting.Add(-1)
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) free() { <-t.taken }

// holding marks the context of a function that runs within a transaction of a Store.
type holding struct {
	store *Store
	over  atomic.Bool
}

type holdingKey struct{}

// nested says whether ctx is that of a function that runs within a transaction on the writer of s.
func (s *Store) nested(ctx context.Context) bool {
	h, ok := ctx.Value(holdingKey{}).(*holding)
	return ok && h.store == s && !h.over.Load()
}

// write runs fn in one transaction on the writer, from BEGIN IMMEDIATE to COMMIT. On an error, a panic or
// the end of ctx it is rolled back. COMMIT is sent only while ctx lasts, and once sent it runs to its end,
// so that the end of ctx never leaves the outcome open.
func (s *Store) write(ctx context.Context, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	s.calls.Add(1)
	return s.tidy(ctx, op, fn)
}

// tidy is write for what gives way to others: a sweep sees by the number of calls of write that there are some.
func (s *Store) tidy(ctx context.Context, op string, fn func(ctx context.Context, tx *sql.Tx) error) error {
	if s.nested(ctx) {
		return ErrNested
	}
	s.point(ctx, op+".begin")
	if err := s.turn.take(ctx); err != nil {
		return explain(op, err)
	}
	free := sync.OnceFunc(s.turn.free)
	defer free()

	// The transaction's own context is cancelled by ctx, but no longer once COMMIT begins. When it is, the
	// rollback does not wait for fn to notice, and neither does the next writer.
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	detach := context.AfterFunc(ctx, func() { cancel(); free() })
	defer detach()

	tx, err := s.writer.BeginTx(own, nil)
	if err != nil {
		return explain(op, cause(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing; a connection that can't roll back is closed
	if err := s.within(ctx, tx, fn); err != nil {
		return err
	}
	s.point(ctx, op+".commit")
	if !detach() {
		return explain(op, cause(ctx, ctx.Err()))
	}
	// Linearization point: COMMIT. Before it no other connection sees anything of the transaction, after it
	// all see all of it.
	if err := tx.Commit(); err != nil {
		return committing(err)
	}
	return nil
}

// within calls fn with a context that knows of the transaction, for as long as it runs.
func (s *Store) within(ctx context.Context, tx *sql.Tx, fn func(ctx context.Context, tx *sql.Tx) error) error {
	h := &holding{store: s}
	defer h.over.Store(true)
	return fn(context.WithValue(ctx, holdingKey{}, h), tx)
}

// cause prefers the error of a ctx that is done to its echo from the driver.
func cause(ctx context.Context, err error) error {
	if done := ctx.Err(); done != nil {
		return done
	}
	return err
}

// session is a transaction and the call that it serves.
type session struct {
	store *Store
	tx    *sql.Tx
	op    string
}

func (s *Store) session(tx *sql.Tx, op string) session { return session{s, tx, op} }

// exec runs a statement and returns the number of rows that it changed.
func (x session) exec(ctx context.Context, st statement, args ...any) (int64, error) {
	x.store.point(ctx, x.op+"."+st.name)
	r, err := x.tx.ExecContext(ctx, st.text, args...)
	if err != nil {
		return 0, explain(x.op, err)
	}
	return r.RowsAffected()
}

// row runs a statement that returns one row.
func (x session) row(ctx context.Context, st statement, args ...any) row {
	x.store.point(ctx, x.op+"."+st.name)
	return row{x.tx.QueryRowContext(ctx, st.text, args...), x.op}
}

// each runs a statement and calls fn for each row that it returns.
func (x session) each(ctx context.Context, fn func(r row) error, st statement, args ...any) error {
	x.store.point(ctx, x.op+"."+st.name)
	return each(ctx, x.tx, x.op, fn, st, args...)
}

// read is each without a transaction of its own, and without waiting for a writer.
func (s *Store) read(ctx context.Context, op string, fn func(r row) error, st statement, args ...any) error {
	s.point(ctx, op+"."+st.name)
	return each(ctx, s.readers, op, fn, st, args...)
}

// querier is a transaction, or a pool of connections.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func each(ctx context.Context, on querier, op string, fn func(r row) error, st statement, args ...any) error {
	rows, err := on.QueryContext(ctx, st.text, args...)
	if err != nil {
		return explain(op, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(row{rows, op}); err != nil {
			return err
		}
	}
	return explain(op, errors.Join(rows.Err(), rows.Close()))
}

// row is a result whose errors say which call they belong to.
type row struct {
	row interface{ Scan(dest ...any) error }
	op  string
}

func (r row) Scan(dest ...any) error { return explain(r.op, r.row.Scan(dest...)) }
