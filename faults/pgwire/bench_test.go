package pgwire_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/pgwire"
	"github.com/fiftyhosts/fifty/internal/testenv"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 2 * time.Minute

// schemas counts the tests' schemas.
var schemas atomic.Int64

const insert = `insert into ran (what) values ($1)`

// bench is a database, a proxy before it, one connection through the proxy and one that goes around it.
type bench struct {
	t       *testing.T
	ctx     context.Context
	proxy   *faults.Proxy
	through string
	conn    *pgx.Conn // its statements are prepared
	direct  *pgx.Conn
}

func setup(t *testing.T, cfg faults.Config) bench {
	t.Helper()
	// A schema of its own: on a busy machine, a database takes seconds.
	schema := fmt.Sprintf("wire%d", schemas.Add(1))
	url := testenv.Postgres(t).URL() + "&search_path=" + schema
	ignore := goleak.IgnoreCurrent()
	proxy, through, err := pgwire.Start(url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	b := bench{t: t, ctx: ctx, proxy: proxy, through: through}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Errorf("the proxy: %v", err)
		}
		for _, c := range []*pgx.Conn{b.conn, b.direct} {
			if c != nil {
				_ = c.Close(ctx)
				<-c.PgConn().CleanupDone()
			}
		}
		cancel()
		goleak.VerifyNone(t, ignore)
	})
	b.direct = b.connect(url)
	b.exec(b.direct, `create schema `+schema)
	b.exec(b.direct, `create table ran (what text)`)
	b.conn = b.warm()
	return b
}

// warm is a connection through the proxy whose statements are prepared.
func (b bench) warm() *pgx.Conn {
	b.t.Helper()
	conn := b.connect(b.through)
	b.exec(conn, insert, "warm")
	return conn
}

// renew is the same with another connection: a fault has ended the first.
func (b bench) renew() bench {
	b.t.Helper()
	_ = b.conn.Close(b.ctx)
	<-b.conn.PgConn().CleanupDone()
	b.proxy.Arm(nil)
	b.conn = b.warm()
	b.t.Cleanup(func() {
		_ = b.conn.Close(b.ctx)
		<-b.conn.PgConn().CleanupDone()
	})
	return b
}

func (b bench) connect(url string) *pgx.Conn {
	b.t.Helper()
	conn, err := pgx.Connect(b.ctx, url)
	if err != nil {
		b.t.Fatal(err)
	}
	return conn
}

func (b bench) exec(conn *pgx.Conn, statement string, args ...any) {
	b.t.Helper()
	if _, err := conn.Exec(b.ctx, statement, args...); err != nil {
		b.t.Fatalf("%s: %v", statement, err)
	}
}

// insert sends the insert through the proxy.
func (b bench) insert(what string) error {
	_, err := b.conn.Exec(b.ctx, insert, what)
	return err
}

// ran is how often the server has executed what.
func (b bench) ran(what string) int {
	b.t.Helper()
	var n int
	if err := b.direct.QueryRow(b.ctx, `select count(*) from ran where what = $1`, what).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// retry sends the insert again, on another connection through the proxy.
func (b bench) retry(what string) {
	b.t.Helper()
	other := b.connect(b.through)
	defer other.Close(b.ctx)
	b.exec(other, insert, what)
}

// strike waits for the fault.
func (b bench) strike() *faults.Strike {
	b.t.Helper()
	s, err := b.proxy.WaitStrike(b.ctx, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b bench) finished(s *faults.Strike) {
	b.t.Helper()
	if err := s.Wait(b.ctx); err != nil {
		b.t.Fatalf("%v: %v; thrown away: %q", s, err, s.Replies())
	}
}

// begin calls insert elsewhere, and returns where its error arrives.
func (b bench) begin(what string) <-chan error {
	failed := make(chan error, 1)
	go func() { failed <- b.insert(what) }()
	return failed
}

func (b bench) backends(pid uint32) int {
	b.t.Helper()
	var n int
	if err := b.direct.QueryRow(b.ctx, `select count(*) from pg_stat_activity where pid = $1`, pid).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// until waits until there are n server processes with this id.
func (b bench) until(pid uint32, n int) {
	b.t.Helper()
	for b.backends(pid) != n {
		if b.ctx.Err() != nil {
			b.t.Fatalf("there are %d processes %d, want %d", b.backends(pid), pid, n)
		}
	}
}
