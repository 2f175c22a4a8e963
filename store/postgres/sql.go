package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/txn"
)

// sqlEngine is an engine on database/sql. Each statement is a round trip of its own, but for the first two or
// three of a transaction that this package opens.
type sqlEngine struct {
	db   *sql.DB
	hook *hook
}

// sqlConn is a *sql.DB or a *sql.Tx.
type sqlConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (e *sqlEngine) run(ctx context.Context, c *call) error {
	e.hook.at(ctx, c)
	if ctx.Err() != nil {
		return fail(ctx, c.name, connecting, ctx.Err())
	}
	if err := sqlRun(ctx, e.db, c); err != nil {
		return fail(ctx, c.name, committing, err)
	}
	return nil
}

func (e *sqlEngine) in(tx *sql.Tx) querier { return sqlQuerier{tx, e.hook} }

// sqlQuerier runs statements in a transaction.
type sqlQuerier struct {
	conn sqlConn
	hook *hook
}

func (q sqlQuerier) run(ctx context.Context, calls ...*call) error {
	for _, c := range calls {
		q.hook.at(ctx, c)
		if err := sqlRun(ctx, q.conn, c); err != nil {
			return fail(ctx, c.name, within, err)
		}
	}
	return nil
}

// sqlRun runs one statement and reads its reply to the end: see pgxRun.
func sqlRun(ctx context.Context, conn sqlConn, c *call) error {
	if c.dest == nil {
		res, err := conn.ExecContext(ctx, c.text, c.args...)
		if err != nil {
			return err
		}
		c.rows, err = res.RowsAffected()
		return err
	}
	rows, err := conn.QueryContext(ctx, c.text, c.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := c.scan(rows); err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	return rows.Err()
}

// sqlLevels are the isolation levels as database/sql names them.
var sqlLevels = map[txn.Isolation]sql.IsolationLevel{
	txn.DefaultIsolation: sql.LevelDefault,
	txn.ReadCommitted:    sql.LevelReadCommitted,
	txn.RepeatableRead:   sql.LevelRepeatableRead,
	txn.Serializable:     sql.LevelSerializable,
}

func (e *sqlEngine) begin(ctx context.Context, opts txn.Options, first ...*call) (session[*sql.Tx], error) {
	e.hook.at(ctx, beginCall.with())
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return nil, fail(ctx, "begin", connecting, err)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sqlLevels[opts.Isolation], ReadOnly: opts.ReadOnly})
	if err != nil {
		_ = conn.Close()
		return nil, fail(ctx, "begin", connecting, err)
	}
	s := &sqlSession{sqlQuerier: sqlQuerier{tx, e.hook}, conn: conn, tx: tx}
	if err := s.together(ctx, first); err != nil {
		return nil, s.abandon(ctx, err)
	}
	return s, nil
}

// sqlSession is a transaction that database/sql also rolls back when its context ends.
type sqlSession struct {
	sqlQuerier
	conn *sql.Conn // that tx is on; it goes back to the pool when tx is over
	tx   *sql.Tx
}

// together sends the calls in one round trip, past database/sql, where the driver is pgx's.
func (s *sqlSession) together(ctx context.Context, calls []*call) error {
	if len(calls) < 2 {
		return s.run(ctx, calls...)
	}
	isPgx := true
	err := s.conn.Raw(func(driver any) error {
		var c *stdlib.Conn
		if c, isPgx = driver.(*stdlib.Conn); !isPgx {
			return nil
		}
		s.hook.at(ctx, calls...)
		if point, err := pgxSend(ctx, c.Conn(), &pgx.Batch{}, calls); err != nil {
			return fail(ctx, point, within, err)
		}
		return nil
	})
	if !isPgx {
		return s.run(ctx, calls...)
	}
	if _, ours := errors.AsType[*storeError](err); err != nil && !ours {
		return fail(ctx, calls[0].name, within, err)
	}
	return err
}

func (s *sqlSession) handle() *sql.Tx { return s.tx }

func (s *sqlSession) commit(ctx context.Context, last ...*call) error {
	if err := s.run(ctx, last...); err != nil {
		return s.notCommitted(ctx, err)
	}
	s.hook.at(ctx, commitCall.with())
	if ctx.Err() != nil { // nothing is sent
		return fail(ctx, "commit", within, ctx.Err())
	}
	defer s.conn.Close() // the transaction is over, and that is what counts
	if err := s.tx.Commit(); err != nil {
		if errors.Is(err, sql.ErrTxDone) {
			return s.notCommitted(ctx, err)
		}
		return fail(ctx, "commit", committing, err)
	}
	return nil
}

// notCommitted tells a transaction that the function ended from one that ended with its context.
func (s *sqlSession) notCommitted(ctx context.Context, err error) error {
	switch {
	case !errors.Is(err, sql.ErrTxDone):
		return err
	case ctx.Err() == nil:
		return ErrEnded
	default:
		return fail(ctx, "commit", within, errors.Join(ctx.Err(), err))
	}
}

func (s *sqlSession) abandon(ctx context.Context, err error) error {
	defer s.conn.Close()
	if s.tx.Rollback() != nil {
		return lostWithin(ctx, err)
	}
	return err
}

func (s *sqlSession) rollback(context.Context) {
	_ = s.tx.Rollback()
	_ = s.conn.Close()
}
