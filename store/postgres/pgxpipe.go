package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// bound is a statement that is prepared on a connection, with its arguments.
type bound struct {
	sd    *pgconn.StatementDescription
	build pgx.ExtendedQueryBuilder
}

// bind prepares a statement under a name, unless the connection has it, and encodes its arguments. When it fails
// by an argument, nothing was sent.
func bind(ctx context.Context, conn *pgx.Conn, name, sql string, args []any, to *bound) error {
	sd, err := conn.Prepare(ctx, name, sql)
	if err != nil {
		return err
	}
	to.sd = sd
	return to.build.Build(conn.TypeMap(), sd, args)
}

// pipe is one message with several statements. It must be closed.
type pipe struct {
	*pgconn.Pipeline
	conn *pgx.Conn
}

// send sends the statements as one message, which ends with a Sync: when one fails, the server skips the rest.
func send(ctx context.Context, conn *pgx.Conn, all []bound) (pipe, error) {
	p := pipe{conn.PgConn().StartPipeline(ctx), conn}
	for i := range all {
		b := &all[i]
		p.SendQueryStatement(b.sd, b.build.ParamValues, b.build.ParamFormats, b.build.ResultFormats)
	}
	if err := p.Sync(); err != nil {
		_ = p.Close()
		return p, err
	}
	return p, nil
}

// next is the reply to the next statement.
func (p pipe) next() (*pgconn.ResultReader, error) {
	results, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, errors.New("the server's replies are not those to what was sent")
	}
	return reader, nil
}

func (p pipe) read(c *call) error {
	reader, err := p.next()
	if err != nil {
		return err
	}
	if c.dest != nil {
		return c.read(pgx.RowsFromResultReader(p.conn.TypeMap(), reader))
	}
	return c.tagged(reader.Close())
}

// callsMax is how many of this package's statements travel together at most.
const callsMax = 6

// bindAll prepares the calls, and names the one that failed.
func bindAll(ctx context.Context, conn *pgx.Conn, calls []*call, to []bound) (point string, err error) {
	for i, c := range calls {
		if err := bind(ctx, conn, c.text, c.text, c.args, &to[i]); err != nil {
			return c.name, err
		}
	}
	return "", nil
}

// pipeAll runs the calls in one round trip once the connection knows them. It names the call that failed, and
// says whether any was sent.
func pipeAll(ctx context.Context, conn *pgx.Conn, calls ...*call) (point string, sent bool, err error) {
	var all [callsMax]bound
	if point, err = bindAll(ctx, conn, calls, all[:]); err != nil {
		return point, false, err
	}
	p, err := send(ctx, conn, all[:len(calls)])
	if err != nil {
		return calls[0].name, !pgconn.SafeToRetry(err), err
	}
	for _, c := range calls {
		if err := p.read(c); err != nil {
			_ = p.Close()
			forget(ctx, conn, err, c.text)
			return c.name, true, err
		}
	}
	return calls[len(calls)-1].name, true, p.Close()
}

// forget drops a prepared statement that failed because of what it is: its tables have changed, or somebody has
// dropped it from the session. Its next use prepares it anew.
func forget(ctx context.Context, conn *pgx.Conn, err error, name string) {
	state, ok := sqlState(err)
	if !ok || conn.IsClosed() {
		return
	}
	for _, class := range []string{"0A", "26", "42"} { // as "cached plan must not change result type"
		if strings.HasPrefix(state, class) {
			_ = conn.Deallocate(ctx, name)
		}
	}
}
