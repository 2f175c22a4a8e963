package postgres

import (
	"context"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// textsMax bounds the functions' statements that a connection keeps prepared for traveling with a claim. Of more,
// the one that was used the longest ago makes room. pgx keeps its own for all other uses.
const textsMax = 64

// texts are the functions' statements that are prepared on a connection, so that they can travel with a claim.
type texts struct {
	travel bool            // the pool lets statements be prepared
	tracer pgx.QueryTracer // of the connection, or nil
	of     map[string]*text
	used   int64 // counts the uses
	made   int64 // counts the names
}

type text struct {
	name string // empty: it can't be prepared
	used int64
}

// textsKey is where a connection has its texts.
const textsKey = "fiftyhosts.texts"

// textsOf are those of a connection, which is used by one caller at a time.
func textsOf(conn *pgx.Conn) *texts {
	data := conn.PgConn().CustomData()
	if t, ok := data[textsKey].(*texts); ok {
		return t
	}
	cfg := conn.Config()
	t := &texts{
		travel: cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && cfg.StatementCacheCapacity > 0,
		tracer: cfg.Tracer,
		of:     map[string]*text{},
	}
	data[textsKey] = t
	return t
}

// name is that of a statement on the connection. It is empty for one that can't be prepared. One that the
// connection does not know is prepared, in a round trip of its own.
func (t *texts) name(ctx context.Context, conn *pgx.Conn, sql string) string {
	t.used++
	if known := t.of[sql]; known != nil {
		known.used = t.used
		return known.name
	}
	if !t.travel || !plainly.MatchString(sql) || conn.PgConn().TxStatus() != 'I' { // a failure would end a transaction
		return ""
	}
	if len(t.of) >= textsMax {
		t.makeRoom(ctx, conn)
	}
	t.made++
	name := fmt.Sprintf("fifty_%d", t.made)
	if _, err := conn.Prepare(ctx, name, sql); err != nil {
		if _, ok := sqlState(err); !ok {
			return "" // it may have been the connection
		}
		name = ""
	}
	t.of[sql] = &text{name, t.used}
	return name
}

func (t *texts) makeRoom(ctx context.Context, conn *pgx.Conn) {
	var oldest string
	for sql, known := range t.of {
		if oldest == "" || known.used < t.of[oldest].used {
			oldest = sql
		}
	}
	if name := t.of[oldest].name; name != "" {
		_ = conn.Deallocate(ctx, name) // what fails has lost its connection
	}
	delete(t.of, oldest)
}

// plainly is how a statement begins that reads or writes rows, and not the name of a prepared one.
var plainly = regexp.MustCompile(`(?is)^\s*(select|insert|update|delete|with|merge|values)\s`)

// trace tells the connection's tracer about a statement that did not go through pgx.Conn. The zero value is that
// of a connection without one.
type trace struct {
	tracer pgx.QueryTracer
	ctx    context.Context
	conn   *pgx.Conn
}

func (t *texts) traced(ctx context.Context, conn *pgx.Conn, sql string, args []any) (context.Context, trace) {
	if t.tracer == nil {
		return ctx, trace{}
	}
	ctx = t.tracer.TraceQueryStart(ctx, conn, pgx.TraceQueryStartData{SQL: sql, Args: args})
	return ctx, trace{t.tracer, ctx, conn}
}

func (t trace) end(tag pgconn.CommandTag, err error) {
	if t.tracer != nil {
		t.tracer.TraceQueryEnd(t.ctx, t.conn, pgx.TraceQueryEndData{CommandTag: tag, Err: err})
	}
}
