package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fiftyhosts/fifty/idempotency"
)

// fate is what became of a claim that travels with the work.
type fate int

const (
	waiting   fate = iota // nothing was sent
	claimed               // the guards passed: the key is this transaction's
	refused               // a guard failed: the key is another's, or not to be had without a closer look
	undecided             // the claim failed; no work was done
)

// opening is a claim that waits for the function's first statement, so that the two take one round trip. Its
// calls go ahead of that statement in one message. The first of them are guards: they fail for a key that is not
// free, and the server then skips all that follows, so a duplicate's statement is never run, and waits for nobody.
// BEGIN comes behind them and makes them a part of its transaction: until then they are in one that ends with the
// message, so that nothing has to be rolled back for a duplicate.
//
// What can't travel with it makes the claim go first, by itself: a round trip more.
type opening struct {
	conn  *pgx.Conn
	texts *texts
	hook  *hook
	ahead []*call
	ctx   context.Context // of the whole call, for methods that have none
	fate  fate
	err   error // what every statement gets, once the key is not to be had
}

// alone sends the claim by itself, unless it was sent.
func (o *opening) alone(ctx context.Context) error {
	if o.fate != waiting {
		return o.err
	}
	o.hook.at(ctx, o.ahead...)
	point, sent, err := pipeAll(ctx, o.conn, o.ahead...)
	return o.learn(ctx, point, sent, err)
}

// aloneOrClosed is alone for methods that can't say that it failed, and that hand out the connection: should it not
// be in the transaction, it is closed.
func (o *opening) aloneOrClosed() {
	if o.alone(o.ctx) != nil && o.conn.PgConn().TxStatus() == 'I' {
		_ = o.conn.Close(context.WithoutCancel(o.ctx))
	}
}

// learn notes what the reply to the claim says, and returns what the function's statement gets instead of a reply
// of its own.
func (o *opening) learn(ctx context.Context, point string, sent bool, err error) error {
	switch {
	case err == nil:
		o.fate = claimed
		return nil
	case isState(err, guardFailed) && o.isGuard(point):
		o.fate, o.err = refused, idempotency.ErrUnclaimed
		return o.err
	case !sent && !o.conn.IsClosed() && o.conn.PgConn().TxStatus() != 'E' && ctx.Err() != nil:
		return unclaimedError{fail(ctx, point, within, err)} // another statement may come under another context
	}
	o.fate, o.err = undecided, unclaimedError{fail(ctx, point, within, err)}
	return o.err
}

func (o *opening) isGuard(point string) bool {
	return point == guardLockName || point == guardNewName
}

// unclaimedError is an error of the claim itself, which came before any work.
type unclaimedError struct{ error }

func (e unclaimedError) Unwrap() error { return e.error }

// Is says that it is an idempotency.ErrUnclaimed.
func (e unclaimedError) Is(target error) bool { return target == idempotency.ErrUnclaimed }

// with sends the claim together with a statement, if both can travel together, and returns the statement's reply.
// When there is neither a reply nor an error, the claim is made, and the statement is to be run as ever.
func (o *opening) with(ctx context.Context, sql string, args []any) (*reply, error) {
	if o.fate != waiting {
		return nil, o.err
	}
	text, plain, ok := travels(ctx, sql, args)
	if !ok {
		return nil, o.alone(ctx)
	}
	var all [callsMax + 1]bound
	n := len(o.ahead)
	name := o.texts.name(ctx, o.conn, text)
	if name == "" || bind(ctx, o.conn, name, text, plain, &all[n]) != nil {
		return nil, o.alone(ctx) // and the statement says by itself what is wrong with it
	}
	if point, err := bindAll(ctx, o.conn, o.ahead, all[:]); err != nil {
		return nil, o.learn(ctx, point, false, err)
	}
	if o.hook.before != nil {
		o.hook.at(ctx, append(o.ahead[:n:n], work.with())...)
	}
	ctx, trace := o.texts.traced(ctx, o.conn, sql, args)
	r, err := o.send(ctx, all[:n+1], trace, name)
	if err != nil {
		trace.end(pgconn.CommandTag{}, err)
	}
	return r, err
}

// work stands for the function's statement where the statements of a round trip are named.
var work = statement{"the work", ""}

func (o *opening) send(ctx context.Context, all []bound, trace trace, name string) (*reply, error) {
	p, err := send(ctx, o.conn, all)
	if err != nil {
		return nil, o.learn(ctx, o.ahead[0].name, !pgconn.SafeToRetry(err), err)
	}
	for _, c := range o.ahead {
		if err := p.read(c); err != nil {
			_ = p.Close()
			forget(ctx, o.conn, err, c.text)
			return nil, o.learn(ctx, c.name, true, err)
		}
	}
	o.fate = claimed
	r := &reply{pipe: p, ctx: ctx, trace: trace, name: name}
	reader, err := p.next()
	if err != nil {
		r.end(err)
	} else {
		r.rows = pgx.RowsFromResultReader(o.conn.TypeMap(), reader)
	}
	return r, nil
}

// travels says whether a statement can go together with others in a message, and what it is then. One that says
// how it wants to be executed can't.
func travels(ctx context.Context, sql string, args []any) (text string, plain []any, ok bool) {
	if len(args) > 0 {
		switch first := args[0].(type) {
		case pgx.NamedArgs:
			text, plain, err := first.RewriteQuery(ctx, nil, sql, args[1:])
			return text, plain, err == nil
		case pgx.StrictNamedArgs:
			text, plain, err := first.RewriteQuery(ctx, nil, sql, args[1:])
			return text, plain, err == nil
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID, pgx.QueryRewriter:
			return "", nil, false
		}
	}
	return sql, args, true
}
