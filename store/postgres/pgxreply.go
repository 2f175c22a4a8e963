package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// reply is the reply to a statement that came in one message with others: pgx.Rows whose end ends the message too,
// so that the connection can be used again.
type reply struct {
	pipe  pipe
	ctx   context.Context
	rows  pgx.Rows // nil when the statement failed at once
	trace trace
	name  string // of the prepared statement

	ended bool
	tag   pgconn.CommandTag
	err   error
}

var _ pgx.Rows = (*reply)(nil)

// end reads the message to its end; err is the statement's, if it is known.
func (r *reply) end(err error) {
	if r.ended {
		return
	}
	r.ended = true
	if r.rows != nil {
		r.rows.Close()
		r.tag = r.rows.CommandTag()
		err = r.rows.Err()
	}
	if endErr := r.pipe.Close(); err == nil {
		err = endErr
	}
	r.err = err
	forget(r.ctx, r.pipe.conn, err, r.name)
	r.trace.end(r.tag, err)
}

// Close ends the reading; it may be called more than once.
func (r *reply) Close() { r.end(nil) }

func (r *reply) Err() error { return r.err }

func (r *reply) CommandTag() pgconn.CommandTag { return r.tag }

func (r *reply) FieldDescriptions() []pgconn.FieldDescription {
	if r.rows == nil {
		return nil
	}
	return r.rows.FieldDescriptions()
}

func (r *reply) Next() bool {
	if r.ended {
		return false
	}
	if r.rows.Next() {
		return true
	}
	r.end(nil)
	return false
}

func (r *reply) Scan(dest ...any) error {
	if r.ended {
		return errors.Join(r.err, errRowsClosed)
	}
	err := r.rows.Scan(dest...)
	if err != nil { // as of any pgx.Rows
		r.end(nil)
	}
	return err
}

func (r *reply) Values() ([]any, error) {
	if r.ended {
		return nil, errors.Join(r.err, errRowsClosed)
	}
	values, err := r.rows.Values()
	if err != nil {
		r.end(nil)
	}
	return values, err
}

func (r *reply) RawValues() [][]byte {
	if r.ended {
		return nil
	}
	return r.rows.RawValues()
}

func (r *reply) Conn() *pgx.Conn { return r.pipe.conn }

func (r *reply) TypeMap() *pgtype.Map { return r.pipe.conn.TypeMap() }

// exec is the reply of a statement whose rows nobody wants.
func (r *reply) exec() (pgconn.CommandTag, error) {
	r.Close()
	return r.tag, r.err
}

// errRowsClosed answers who reads on in a reply that has ended.
var errRowsClosed = errors.New("postgres: the rows are closed")

// replyRow is the first row of a reply.
type replyRow struct{ *reply }

// Scan reads the row, if there is one, and ends the reply.
func (r replyRow) Scan(dest ...any) error {
	defer r.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // they would be gone with the reply
			return errors.New("cannot scan into *pgtype.DriverBytes from QueryRow")
		}
	}
	if !r.Next() {
		if r.err != nil {
			return r.err
		}
		return pgx.ErrNoRows
	}
	if err := r.reply.Scan(dest...); err != nil {
		return err
	}
	r.Close()
	return r.err
}

// failedRows are the rows of a statement that was not run.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (r failedRows) Err() error                                 { return r.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }

var _ pgx.Rows = failedRows{}
