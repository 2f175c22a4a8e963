package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	modernc "modernc.org/sqlite"
)

// A connection of ours watches its transaction. When a statement is interrupted, the disk is full or memory
// runs out, SQLite may roll the whole transaction back by itself. database/sql does not notice, and the
// statements that follow would each commit on their own: half of a transaction, without its key. So from
// there on every statement and the commit are refused, until the transaction is over.

// The transactions are begun and ended here as well, by statements that are kept prepared. From BEGIN IMMEDIATE on the
// file's writer is held and nothing waits for a lock, so the store's own statements are not watched for the end of their
// context, for which the driver would start a goroutine each: database/sql asks between them.

// connector makes watched connections.
type connector struct {
	driver.Connector
	reused map[string]bool                // statements to keep prepared
	nested func(ctx context.Context) bool // ctx belongs to a transaction that the next one would wait for
}

func newConnector(dsn string, reused map[string]bool, nested func(context.Context) bool) (driver.Connector, error) {
	plain, err := modernc.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return &connector{plain, reused, nested}, nil
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := inner.(fullConn)
	if !ok {
		return nil, errors.Join(errors.New("sqlite: the driver's connection lacks what this package needs"), inner.Close())
	}
	conn := &watched{fullConn: full, from: c, prepared: map[string]driver.Stmt{}}
	full.RegisterRollbackHook(func() { conn.undone = true })
	return conn, nil
}

// fullConn is what the driver's connections can do.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	modernc.HookRegisterer
	IsReadOnly(schema string) (bool, error)
}

// watched is a connection. Like every driver's, it is used by one goroutine at a time.
type watched struct {
	fullConn
	from     *connector
	prepared map[string]driver.Stmt

	open     bool  // a transaction was begun and not ended
	undone   bool  // SQLite has rolled it back
	cause    error // the error after which that was first seen
	readOnly bool
}

// Unwrap returns the driver's own connection.
func (c *watched) Unwrap() driver.Conn { return c.fullConn }

// refusal is the error of a statement in a transaction that is no longer there.
func (c *watched) refusal() error {
	if !c.open || !c.undone {
		return nil
	}
	if c.cause == nil {
		return ErrUndone
	}
	return fmt.Errorf("%w: %w", ErrUndone, c.cause)
}

// saw keeps the error that came with the rollback.
func (c *watched) saw(err error) error {
	if err != nil && c.open && c.undone && c.cause == nil {
		c.cause = err
	}
	return err
}

func (c *watched) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if !opts.ReadOnly && c.from.nested(ctx) {
		return nil, ErrNested
	}
	begin := c.beginWriting
	if opts.ReadOnly {
		begin = c.beginReading
	}
	tx, err := begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	c.open, c.undone, c.cause, c.readOnly = true, false, nil, opts.ReadOnly
	return &watchedTx{tx, c}, nil
}

func (c *watched) beginReading(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	if _, err := c.fullConn.ExecContext(ctx, `PRAGMA query_only = 1`, nil); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// beginWriting waits for the writer, until ctx ends. It may end when the writer is ours already.
func (c *watched) beginWriting(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	_, err := c.execKept(ctx, `BEGIN IMMEDIATE`, nil)
	if err == nil {
		return writing{c}, nil
	}
	if ctx.Err() != nil {
		_ = writing{c}.Rollback() // without a transaction it changes nothing
	}
	return nil, err
}

// execKept runs a statement that is kept prepared.
func (c *watched) execKept(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	stmt, err := c.keep(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// writing ends a transaction that holds the writer. Neither end waits for anything.
type writing struct{ conn *watched }

func (w writing) Commit() error {
	_, err := w.conn.execKept(context.Background(), `COMMIT`, nil)
	if err != nil {
		_ = w.Rollback() // SQLite may have left the transaction open, or not
	}
	return err
}

func (w writing) Rollback() error {
	_, err := w.conn.execKept(context.Background(), `ROLLBACK`, nil)
	return err
}

// calm is the context of one of the store's own statements.
func (c *watched) calm(ctx context.Context) context.Context {
	if c.open && !c.readOnly {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// Begin is BeginTx without a context; database/sql does not use it.
func (c *watched) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

func (c *watched) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.refusal(); err != nil {
		return nil, err
	}
	if !c.from.reused[query] {
		r, err := c.fullConn.ExecContext(ctx, query, args)
		return r, c.saw(err)
	}
	r, err := c.execKept(c.calm(ctx), query, args)
	return r, c.saw(err)
}

func (c *watched) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.refusal(); err != nil {
		return nil, err
	}
	if !c.from.reused[query] {
		rows, err := c.fullConn.QueryContext(ctx, query, args)
		return rows, c.saw(err)
	}
	stmt, err := c.keep(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(c.calm(ctx), args)
	return rows, c.saw(err)
}

// keep returns the prepared form of one of the store's own statements.
func (c *watched) keep(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := c.prepared[query]; ok {
		return stmt, nil
	}
	stmt, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.saw(err)
	}
	c.prepared[query] = stmt
	return stmt, nil
}

func (c *watched) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.refusal(); err != nil {
		return nil, err
	}
	stmt, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.saw(err)
	}
	return &watchedStmt{stmt, c}, nil
}

// Prepare is PrepareContext without a context; database/sql does not use it.
func (c *watched) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *watched) Close() error {
	var errs []error
	for _, stmt := range c.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.fullConn.Close())...)
}

// watchedStmt is a statement that the caller prepared.
type watchedStmt struct {
	driver.Stmt
	conn *watched
}

func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.refusal(); err != nil {
		return nil, err
	}
	r, err := s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return r, s.conn.saw(err)
}

func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.refusal(); err != nil {
		return nil, err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return rows, s.conn.saw(err)
}

// watchedTx is a transaction.
type watchedTx struct {
	driver.Tx
	conn *watched
}

func (t *watchedTx) Commit() error {
	err := t.conn.refusal()
	if err == nil {
		err = t.Tx.Commit()
	}
	if end := t.conn.end(); end != nil {
		return errors.Join(err, end)
	}
	return err
}

func (t *watchedTx) Rollback() error {
	if !t.conn.undone {
		if err := t.Tx.Rollback(); err != nil {
			t.conn.open = false
			return errors.Join(driver.ErrBadConn, err) // closing it rolls back for certain
		}
	}
	return t.conn.end()
}

// end leaves the transaction. A connection that can't be brought back to where it was is thrown away.
func (c *watched) end() error {
	c.open = false
	if c.readOnly {
		c.readOnly = false
		if _, err := c.fullConn.ExecContext(context.Background(), `PRAGMA query_only = 0`, nil); err != nil {
			return errors.Join(driver.ErrBadConn, err)
		}
	}
	return nil
}
