package postgres

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/txn"
)

// pgxEngine is an engine on a pgx pool. Several statements in a row travel as one pgx.Batch, which uses
// the pool's QueryExecMode as everything else does.
type pgxEngine struct {
	pool *pgxpool.Pool
	hook *hook
}

// pgxConn is a pool's connection or a transaction.
type pgxConn interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (e *pgxEngine) run(ctx context.Context, c *call) error {
	e.hook.at(ctx, c)
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return fail(ctx, c.name, connecting, err)
	}
	defer conn.Release()
	if err := pgxRun(ctx, conn, c); err != nil {
		return fail(ctx, c.name, committing, err)
	}
	return nil
}

func (e *pgxEngine) in(tx pgx.Tx) querier { return pgxQuerier{tx, e.hook} }

// pgxQuerier runs statements in a transaction.
type pgxQuerier struct {
	conn pgxConn
	hook *hook
}

func (q pgxQuerier) run(ctx context.Context, calls ...*call) error {
	q.hook.at(ctx, calls...)
	if len(calls) == 1 {
		if err := pgxRun(ctx, q.conn, calls[0]); err != nil {
			return fail(ctx, calls[0].name, within, err)
		}
		return nil
	}
	b := &pgx.Batch{}
	if point, err := pgxSend(ctx, q.conn, b, calls); err != nil {
		return fail(ctx, point, within, err)
	}
	return nil
}

// pgxRun runs one statement. It reads the reply to its end: only then is a statement that commits by
// itself known to be committed.
func pgxRun(ctx context.Context, conn pgxConn, c *call) error {
	if c.dest == nil {
		tag, err := conn.Exec(ctx, c.text, c.args...)
		c.rows = tag.RowsAffected()
		return err
	}
	rows, err := conn.Query(ctx, c.text, c.args...)
	if err != nil {
		return err
	}
	return c.read(rows)
}

func (c *call) read(rows pgx.Rows) error {
	defer rows.Close()
	if err := c.scan(rows); err != nil {
		return err
	}
	rows.Close()
	return rows.Err()
}

// pgxSend sends calls as one round trip, after what is in b already, and names the call that failed.
func pgxSend(ctx context.Context, conn pgxConn, b *pgx.Batch, calls []*call) (point string, err error) {
	point = "begin"
	first := b.Len()
	for _, c := range calls {
		b.Queue(c.text, c.args...)
	}
	if b.Len() == 0 {
		return "", nil
	}
	results := conn.SendBatch(ctx, b)
	for range first {
		if _, err := results.Exec(); err != nil {
			_ = results.Close()
			return point, err
		}
	}
	for _, c := range calls {
		point = c.name
		if err := c.readNext(results); err != nil {
			_ = results.Close()
			return point, err
		}
	}
	return point, results.Close()
}

func (c *call) readNext(results pgx.BatchResults) error {
	if c.dest != nil {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		return c.read(rows)
	}
	return c.tagged(results.Exec())
}

// tagged notes the reply of a statement without rows, in a message with others. A COMMIT that rolled back is an error.
func (c *call) tagged(tag pgconn.CommandTag, err error) error {
	c.rows = tag.RowsAffected()
	if err == nil && c.name == commitCall.name && tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	return err
}

var (
	beginCall  = statement{"begin", "begin"}
	commitCall = statement{"commit", "commit"}
)

// pgxLevels are the isolation levels by their SQL names.
var pgxLevels = map[txn.Isolation]pgx.TxIsoLevel{
	txn.DefaultIsolation: "",
	txn.ReadCommitted:    pgx.ReadCommitted,
	txn.RepeatableRead:   pgx.RepeatableRead,
	txn.Serializable:     pgx.Serializable,
}

func (e *pgxEngine) begin(ctx context.Context, opts txn.Options, first ...*call) (session[pgx.Tx], error) {
	options := pgx.TxOptions{IsoLevel: pgxLevels[opts.Isolation]}
	if opts.ReadOnly {
		options.AccessMode = pgx.ReadOnly
	}
	e.hook.at(ctx, append([]*call{beginCall.with()}, first...)...)
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, fail(ctx, "begin", connecting, err)
	}
	b := &pgx.Batch{}
	b.BeginTx(options)
	begun := &startedBatch{pgxConn: conn}
	if point, err := pgxSend(ctx, begun, b, first); err != nil {
		if begun.tx != nil {
			rollbackPgx(ctx, begun.tx)
		}
		conn.Release()
		return nil, fail(ctx, point, within, err)
	}
	return &pgxSession{
		pgxQuerier: pgxQuerier{begun.tx, e.hook},
		conn:       conn,
		tx:         begun.tx,
		given:      &givenTx{tx: begun.tx, ended: &atomic.Bool{}},
	}, nil
}

// startedBatch keeps the transaction that a batch begins.
type startedBatch struct {
	pgxConn
	tx pgx.Tx
}

func (s *startedBatch) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	results := s.pgxConn.SendBatch(ctx, b)
	s.tx = results.Tx()
	return results
}

// pgxSession is a transaction on a connection that it holds.
type pgxSession struct {
	pgxQuerier
	conn  *pgxpool.Conn
	tx    pgx.Tx
	given *givenTx // tx in the hands of the caller's function
	ended bool
}

func (s *pgxSession) handle() pgx.Tx { return s.given }

// whole says whether the function left the transaction in a state in which it can be committed.
func (s *pgxSession) whole(ctx context.Context) error {
	pg := s.conn.Conn().PgConn()
	switch {
	case pg.IsBusy():
		return fail(ctx, "commit", within, errors.New("the function left rows or a batch open; close them before it returns"))
	case !pg.IsClosed() && pg.TxStatus() == 'I':
		s.end()
		return ErrEnded
	}
	return nil
}

func (s *pgxSession) commit(ctx context.Context, last ...*call) error {
	s.given.ended.Store(true)
	if err := s.whole(ctx); err != nil {
		return err
	}
	last = append(last, commitCall.with())
	s.hook.at(ctx, last...)
	if ctx.Err() != nil { // nothing is sent
		return fail(ctx, "commit", within, ctx.Err())
	}
	if point, err := pgxSend(ctx, s.tx, &pgx.Batch{}, last); err != nil {
		return fail(ctx, point, committing, err)
	}
	s.end()
	return nil
}

func (s *pgxSession) abandon(ctx context.Context, err error) error {
	if !s.ended && s.conn.Conn().IsClosed() {
		err = lostWithin(ctx, err)
	}
	s.rollback(ctx)
	return err
}

func (s *pgxSession) rollback(ctx context.Context) {
	s.given.ended.Store(true)
	if s.ended {
		return
	}
	rollbackPgx(ctx, s.tx)
	s.end()
}

// end gives the connection back; the pool closes one whose transaction is not over.
func (s *pgxSession) end() {
	s.ended = true
	s.conn.Release()
}

// rollbackPgx rolls back; where that fails pgx has closed the connection, and the server rolls back.
func rollbackPgx(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
	defer cancel()
	_ = tx.Rollback(ctx)
}
