package pgwire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults"
)

// The messages of an insert whose statement is prepared.
const (
	bind, describe, execute, sync = 1, 2, 3, 4
)

func TestPostgresTraceListsTheMessagesOfACall(t *testing.T) {
	b := setup(t, faults.Config{})
	for range 2 {
		b.proxy.Arm(nil)
		if err := b.insert("a"); err != nil {
			t.Fatal(err)
		}
		b.exec(b.conn, `begin`)
		var got []string
		for _, m := range b.proxy.Trace() {
			got = append(got, m.String())
		}
		want := []string{"1 Bind " + insert, "2 Describe " + insert, "3 Execute " + insert, "4 Sync", "5 Query begin"}
		if !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		b.exec(b.conn, `commit`)
	}
	trace := b.proxy.Trace()
	if first := trace[0]; !first.First || first.Last || first.Conn != 1 || first.OnConn != 1 {
		t.Fatalf("the first is %+v", first)
	}
	if last := trace[3]; last.First || !last.Last {
		t.Fatalf("the last is %+v", last)
	}
	if points := faults.Points(trace[:4]); len(points) != 3*2+4 {
		t.Fatalf("cut points: %v", points)
	}
}

func TestPostgresLostRequestIsNotExecuted(t *testing.T) {
	b := setup(t, faults.Config{})
	for n := bind; n <= sync; n++ {
		b := b.renew()
		what := fmt.Sprint(n)
		b.proxy.Arm(faults.At(n, faults.RequestLost))
		if err := b.insert(what); err == nil {
			t.Fatalf("message %d: its request was lost, and the client got an answer", n)
		}
		b.finished(b.strike())
		if got := b.ran(what); got != 0 {
			t.Fatalf("message %d: a lost request was executed %d times", n, got)
		}
		b.retry(what)
		if got := b.ran(what); got != 1 {
			t.Fatalf("message %d: after the retry there are %d", n, got)
		}
	}
}

func TestPostgresRequestWhoseReplyIsLostIsExecuted(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(sync, faults.ReplyLost))
	if err := b.insert("a"); err == nil {
		t.Fatal("the reply was lost, and the client got one")
	}
	// The client learns of it only when the server has finished: nothing to wait for.
	if got := b.ran("a"); got != 1 {
		t.Fatalf("executed %d times", got)
	}
	s := b.strike()
	b.finished(s)
	if !slices.Contains(s.Replies(), "CommandComplete INSERT 0 1") || !slices.Contains(s.Replies(), "ReadyForQuery I") {
		t.Fatalf("thrown away: %q", s.Replies())
	}
}

func TestPostgresReplyLostBeforeTheSyncRollsBack(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(execute, faults.ReplyLost))
	if err := b.insert("a"); err == nil {
		t.Fatal("the reply was lost, and the client got one")
	}
	b.finished(b.strike())
	if got := b.ran("a"); got != 0 {
		t.Fatalf("an implicit transaction without its Sync was committed: %d", got)
	}
}

func TestPostgresCommitTakesEffectWithoutItsSync(t *testing.T) {
	b := setup(t, faults.Config{})
	b.exec(b.conn, `begin`)
	b.exec(b.conn, insert, "a")
	b.proxy.Arm(faults.Once(func(m faults.Message) bool {
		return m.Name == "Execute" && m.Detail == "commit"
	}, faults.ReplyLost))
	results := b.conn.PgConn().ExecParams(b.ctx, "commit", nil, nil, nil, nil)
	if _, err := results.Close(); err == nil {
		t.Fatal("the reply was lost, and the client got one")
	}
	b.finished(b.strike())
	if got := b.ran("a"); got != 1 {
		t.Fatalf("committed: %d", got)
	}
}

func TestPostgresDelayedRequestIsExecutedOnce(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(execute, faults.Delayed))
	answer := b.begin("a")
	s := b.strike()
	if got := b.ran("a"); got != 0 {
		t.Fatalf("while it is held there are %d", got)
	}
	s.Release()
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	b.finished(s)
	if err := b.insert("b"); err != nil {
		t.Fatalf("the connection has not gone on: %v", err)
	}
	if got := b.ran("a"); got != 1 {
		t.Fatalf("executed %d times", got)
	}
}

func TestPostgresDelayEndsByItself(t *testing.T) {
	b := setup(t, faults.Config{Delay: time.Millisecond})
	b.proxy.Arm(faults.At(bind, faults.Delayed))
	if err := b.insert("a"); err != nil || b.ran("a") != 1 {
		t.Fatalf("%v, executed %d times", err, b.ran("a"))
	}
	b.finished(b.strike())
}

func TestPostgresZombieIsExecutedAfterTheRetry(t *testing.T) {
	b := setup(t, faults.Config{})
	for n := bind; n <= sync; n++ {
		b := b.renew()
		what := fmt.Sprint(n)
		b.proxy.Arm(faults.At(n, faults.Zombie))
		if err := b.insert(what); err == nil {
			t.Fatalf("message %d: a zombie was answered", n)
		}
		b.retry(what)
		if got := b.ran(what); got != 1 {
			t.Fatalf("message %d: after the retry, before the zombie, there are %d", n, got)
		}
		s := b.strike()
		<-s.Cut()
		s.Release()
		b.finished(s)
		if got := b.ran(what); got != 2 {
			t.Fatalf("message %d: after the zombie there are %d; it held %q, its answers were %q", n, got, s.Held(), s.Replies())
		}
		whole := []string{"Bind", "Describe", "Execute", "Sync", "Terminate"}
		if !slices.Equal(s.Held(), whole[n-1:]) {
			t.Fatalf("message %d: held %q", n, s.Held())
		}
	}
}

func TestPostgresZombieHoldsAWholePipeline(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.At(1, faults.Zombie))
	pipeline := b.conn.PgConn().StartPipeline(b.ctx)
	for _, statement := range []string{`begin`, `insert into ran (what) values ('a')`, `commit`} {
		pipeline.SendQueryParams(statement, nil, nil, nil, nil)
		pipeline.SendPipelineSync()
	}
	if err := pipeline.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := pipeline.Close(); err == nil {
		t.Fatal("a zombie was answered")
	}
	s := b.strike()
	<-s.Cut()
	if got := b.ran("a"); got != 0 {
		t.Fatalf("while it is held there are %d", got)
	}
	s.Release()
	b.finished(s)
	if got := b.ran("a"); got != 1 {
		t.Fatalf("after the zombie there are %d; it held %q", got, s.Held())
	}
}

func TestPostgresZombieOnADeadServerSideSaysSo(t *testing.T) {
	b := setup(t, faults.Config{})
	pid := b.conn.PgConn().PID()
	b.proxy.Arm(faults.At(bind, faults.Zombie))
	if err := b.insert("a"); err == nil {
		t.Fatal("a zombie was answered")
	}
	b.exec(b.direct, `select pg_terminate_backend($1)`, pid)
	s := b.strike()
	if err := s.Wait(b.ctx); !errors.Is(err, faults.ErrServerEnded) {
		t.Fatalf("%v", err)
	}
	if got := b.ran("a"); got != 0 {
		t.Fatalf("there are %d", got)
	}
}

func TestPostgresServerFinishesForAClientThatIsGone(t *testing.T) {
	b := setup(t, faults.Config{})
	blocker := b.connect(b.direct.Config().ConnString())
	defer blocker.Close(b.ctx)
	b.exec(blocker, `begin`)
	b.exec(blocker, `lock table ran in exclusive mode`)

	b.proxy.Arm(faults.At(sync, faults.ClientGone))
	// The Execute waits for the lock, and the client is gone at once: also its cancel request comes to nothing.
	if err := b.insert("a"); err == nil {
		t.Fatal("a client that is gone got an answer")
	}
	<-b.conn.PgConn().CleanupDone()
	s := b.strike()
	<-s.Cut()
	select {
	case <-s.Done():
		t.Fatalf("the server finished although the table is locked: %q", s.Replies())
	default:
	}
	b.exec(blocker, `commit`)
	b.finished(s)
	if got := b.ran("a"); got != 1 {
		t.Fatalf("executed %d times; %q", got, s.Replies())
	}
}

func TestPostgresPartitionTellsNeitherSideUntilItIsHealed(t *testing.T) {
	for name, heal := range map[string]func(bench, *faults.Strike){
		"by the strike": func(_ bench, s *faults.Strike) { s.Release() },
		"by the proxy":  func(b bench, _ *faults.Strike) { b.proxy.Heal() },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, faults.Config{})
			pid := b.conn.PgConn().PID()
			b.proxy.Arm(faults.At(execute, faults.Partition))
			answer := b.begin("a")
			s := b.strike()
			b.retry("b") // another connection goes on
			if b.ran("a") != 0 || b.ran("b") != 1 || b.backends(pid) != 1 {
				t.Fatalf("in the partition: %d executed, %d retried, %d processes", b.ran("a"), b.ran("b"), b.backends(pid))
			}
			select {
			case err := <-answer:
				t.Fatalf("the client heard: %v", err)
			default:
			}
			heal(b, s)
			if err := <-answer; err != nil {
				t.Fatalf("after it: %v", err)
			}
			b.finished(s)
			if got := b.ran("a"); got != 1 {
				t.Fatalf("executed %d times", got)
			}
		})
	}
}

func TestPostgresPartitionKeepsTheServersEndFromTheClient(t *testing.T) {
	b := setup(t, faults.Config{})
	pid := b.conn.PgConn().PID()
	b.proxy.Arm(nil)
	b.proxy.Partition()
	answer := b.begin("a")
	b.exec(b.direct, `select pg_terminate_backend($1)`, pid)
	b.until(pid, 0)
	select {
	case err := <-answer:
		t.Fatalf("the client heard: %v", err)
	default:
	}
	if n := b.proxy.Count(); n != 0 {
		t.Fatalf("%d messages went into the partition", n)
	}
	b.proxy.Heal()
	if err := <-answer; err == nil {
		t.Fatal("a server process that is gone has answered")
	}
}

func TestPostgresPartitionKeepsTheClientsEndFromTheServer(t *testing.T) {
	b := setup(t, faults.Config{})
	pid := b.conn.PgConn().PID()
	b.proxy.Partition()
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_ = b.conn.Close(ctx)
	if b.backends(pid) != 1 {
		t.Fatal("the server heard of the client's end")
	}
	b.proxy.Heal()
	b.until(pid, 0)
}

func TestPostgresAuthenticationCanBeFaultedButIsNotCounted(t *testing.T) {
	b := setup(t, faults.Config{})
	b.proxy.Arm(faults.Once(func(m faults.Message) bool {
		return m.Name == "PasswordMessage" && m.Number == 0
	}, faults.ReplyLost))
	if _, err := pgx.Connect(b.ctx, b.through); err == nil {
		t.Fatal("connected without an answer to the password")
	}
	b.finished(b.strike())
	if n := b.proxy.Count(); n != 0 {
		t.Fatalf("%d messages were counted", n)
	}
	if err := b.insert("a"); err != nil || b.proxy.Count() != 4 {
		t.Fatalf("%v, %d messages", err, b.proxy.Count())
	}
}

func TestPostgresClientThatPrefersTLSGoesOnWithout(t *testing.T) {
	b := setup(t, faults.Config{})
	conn := b.connect(strings.Replace(b.through, "sslmode=disable", "sslmode=prefer", 1))
	defer conn.Close(b.ctx)
	b.exec(conn, insert, "a")
	if _, err := pgx.Connect(b.ctx, strings.Replace(b.through, "sslmode=disable", "sslmode=require", 1)); err == nil {
		t.Fatal("a client that insists on TLS was let through")
	}
}

func TestPostgresCancelOfAPassingConnectionArrives(t *testing.T) {
	b := setup(t, faults.Config{})
	ctx, cancel := context.WithCancel(b.ctx)
	failed := make(chan error, 1)
	pid := b.conn.PgConn().PID()
	go func() {
		_, err := b.conn.Exec(ctx, `select pg_sleep(600)`)
		failed <- err
	}()
	for {
		var n int
		if err := b.direct.QueryRow(b.ctx, `select count(*) from pg_stat_activity where pid = $1 and state = 'active'`, pid).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.until(pid, 0)
}

func TestPostgresCopyCountsAndEnds(t *testing.T) {
	b := setup(t, faults.Config{})
	rows := [][]any{{"a"}, {"b"}}
	copyRows := func() error {
		_, err := b.conn.CopyFrom(b.ctx, pgx.Identifier{"ran"}, []string{"what"}, pgx.CopyFromRows(rows))
		return err
	}
	if err := copyRows(); err != nil {
		t.Fatal(err)
	}
	b.proxy.Arm(faults.Once(func(m faults.Message) bool { return m.Name == "CopyDone" }, faults.ReplyLost))
	if err := copyRows(); err == nil {
		t.Fatal("the reply was lost, and the client got one")
	}
	b.finished(b.strike())
	if got := b.ran("a"); got != 2 {
		t.Fatalf("copied %d times", got)
	}
}
