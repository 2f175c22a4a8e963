package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/txn"
)

// rollbackMax bounds a rollback, which must not run on the caller's context: that may be why it is needed.
const rollbackMax = 5 * time.Second

// call is one run of a statement.
type call struct {
	statement
	args []any
	dest []any        // where the columns of a row go; nil when it returns none
	each func() error // called when a row is in dest; nil for a statement with one row at most
	rows int64        // after the run: how many rows it returned or changed
}

func (st statement) with(args ...any) *call { return &call{statement: st, args: args} }

func (c *call) into(dest ...any) *call {
	c.dest = dest
	return c
}

// collect runs a statement and gathers what read makes of each row, which is then where c.dest points to.
func collect[T any](ctx context.Context, run runner, c *call, read func() (T, error)) ([]T, error) {
	var all []T
	c.each = func() error {
		if c.rows == 1 { // a run that lost a race is repeated
			all = nil
		}
		v, err := read()
		all = append(all, v)
		return err
	}
	if err := run(ctx, c); err != nil {
		return nil, err
	}
	return all[:c.rows], nil
}

// rows is what both drivers call their cursor.
type rows interface {
	Next() bool
	Scan(dest ...any) error
}

// scan reads the rows of a reply, or the first.
func (c *call) scan(r rows) error {
	c.rows = 0
	for r.Next() {
		if err := r.Scan(c.dest...); err != nil {
			return err
		}
		c.rows++
		if c.each == nil {
			return nil
		}
		if err := c.each(); err != nil {
			return err
		}
	}
	return nil
}

// querier runs statements in order within a transaction, in one round trip where the driver can. It stops
// at the first error. Its errors say that nothing was committed.
type querier interface {
	run(ctx context.Context, calls ...*call) error
}

// engine is all that this package needs of a driver.
type engine[Tx any] interface {
	// run runs one statement in a transaction of its own.
	run(ctx context.Context, c *call) error

	// oneTrip runs statements in a transaction of their own, in one round trip where the driver can.
	oneTrip(ctx context.Context, calls ...*call) error

	// in runs statements in a transaction of the caller's.
	in(tx Tx) querier

	// begin opens a transaction and runs its first statements.
	begin(ctx context.Context, opts txn.Options, first ...*call) (session[Tx], error)

	// beginLate opens a transaction when its function comes with its first statement; guards go ahead of that, and
	// fail where the function must not work. look is what will be asked then. It returns nil where that can't be done.
	beginLate(ctx context.Context, look statement, guards ...*call) (late[Tx], error)
}

// session is a transaction that this package opened and ends.
type session[Tx any] interface {
	querier

	// handle is what the caller's function gets.
	handle() Tx

	// commit runs the last statements, then COMMIT, in one round trip where the driver can.
	commit(ctx context.Context, last ...*call) error

	// abandon rolls back because of err and returns it, marked when the connection was lost.
	abandon(ctx context.Context, err error) error

	// rollback is abandon for what ends without an error, and for a panic. After commit or abandon it
	// does nothing, so it is deferred.
	rollback(ctx context.Context)
}

// hook lets a test hold a caller just before a statement goes to the server.
type hook struct {
	before func(ctx context.Context, point string)
}

// at is called on the caller's goroutine once per round trip, with the names of its statements.
func (h *hook) at(ctx context.Context, calls ...*call) {
	if h.before == nil {
		return
	}
	names := make([]string, len(calls))
	for i, c := range calls {
		names[i] = c.name
	}
	h.before(ctx, strings.Join(names, "+"))
}

// invalidEngine answers every call with what is wrong with the Config.
type invalidEngine[Tx any] struct{ err error }

func (e invalidEngine[Tx]) run(context.Context, *call) error { return e.err }

func (e invalidEngine[Tx]) in(Tx) querier { return invalidQuerier(e) }

func (e invalidEngine[Tx]) begin(context.Context, txn.Options, ...*call) (session[Tx], error) {
	return nil, e.err
}

type invalidQuerier struct{ err error }

func (q invalidQuerier) run(context.Context, ...*call) error { return q.err }
