package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/server/sandbox"
)

const problemUnavailable = "urn:fifty:problem:store-unavailable"

// query runs a statement on a Postgres.
func query(tb testing.TB, database, statement string) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), database)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = conn.Close(tb.Context()) }()
	if _, err := conn.Exec(tb.Context(), statement); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// readOnly makes a database read-only for all connections from now on, or ends that.
func readOnly(tb testing.TB, database string, on bool) {
	tb.Helper()
	query(tb, database, fmt.Sprintf(`do $$ begin
	execute format('alter database %%I set default_transaction_read_only = %v', current_database());
	perform pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();
end $$`, on))
}

// TestPostgresThatIsReadOnlyMeansThatNothingIsRun: a database that takes no writes is told as such, at the
// start and at work; no request gets through to the service, and all is well once it takes writes again.
func TestPostgresThatIsReadOnlyMeansThatNothingIsRun(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t).Database(t)
	service := startSandbox(t, sqliteURL(t))
	upstream := newCounter(t, service.url)
	gateway := startProxy(t, upstream.url, database)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	first := c.mustSend(t, gateway.url)

	// The role's own setting goes before the database's, so the way back is open.
	writable := database + "&options=-c%20default_transaction_read_only%3Doff"
	readOnly(t, database, true)
	other := charge{key: "order-2", account: "alice", amount: 700}
	if a := other.mustSend(t, gateway.url); a.status != http.StatusServiceUnavailable || a.problem() != problemUnavailable {
		t.Errorf("a caller got %v, want store-unavailable", a)
	}
	if n := upstream.posts.Load(); n != 1 {
		t.Errorf("the service got %d POSTs, want only that of before", n)
	}
	readOnly(t, writable, false)
	for _, want := range []struct {
		charge
		replayed string
	}{{c, "true"}, {other, ""}, {other, "true"}} {
		if a := want.mustSend(t, gateway.url); a.status != http.StatusCreated || a.header.Get(replayedHeader) != want.replayed {
			t.Errorf("key %s then got %v", want.key, a)
		}
	}
	if a := c.mustSend(t, gateway.url); !sameAnswer(a, first) {
		t.Errorf("the kept answer was %v and is %v", first, a)
	}
	wantCharges(t, service.url, "alice", 2)

	empty := testenv.Postgres(t).Database(t)
	readOnly(t, empty, true)
	p := start(t, append([]string{"serve"}, onFreePorts(empty)...)...)
	if code := p.exitCode(); code != 2 {
		t.Errorf("on a read-only database without tables: exit code %d, want 2", code)
	}
	p.find("connect to the primary")
}

// TestPostgresWithANewerSchemaIsLeftAloneByAnOlderProgram: where the tables say that this program can still
// work with them it does, as in a rolling upgrade; where not, it says that it is too old and does not start.
func TestPostgresWithANewerSchemaIsLeftAloneByAnOlderProgram(t *testing.T) {
	t.Parallel()
	database := testenv.Postgres(t).Database(t)
	startServe(t, database)
	query(t, database, `insert into fifty.migrations (version, name, oldest) values (1001, '1001_adds', 1)`)
	newer := startServe(t, database)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	c.mustSend(t, newer.url).charge(t)

	query(t, database, `insert into fifty.migrations (version, name, oldest) values (1002, '1002_changes', 1002)`)
	p := start(t, append([]string{"serve"}, onFreePorts(database)...)...)
	if code := p.exitCode(); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	p.find("version 1002.*deploy a newer one")
}

// TestPostgresThatIsDownForLongUnderLoadRunsNothingTwice: the database goes away while many requests are at
// work, and stays away for longer than anybody waits for it. Each caller is told the truth, none is run
// without a claim, and once it is back each key has its answer, or an operator sees it.
func TestPostgresThatIsDownForLongUnderLoadRunsNothingTwice(t *testing.T) {
	t.Parallel()
	const before, after = 20, 10 // requests
	postgres := testenv.NewPostgres(t)
	service := startSandbox(t, sqliteURL(t))
	upstream := newCounter(t, service.url)
	gate, open := newGate(t, service.url)
	slow := startGateway(t, gate.url, postgres.URL(), lease)
	load := newLoad(t, startGateway(t, upstream.url, postgres.URL(), lease), startGateway(t, upstream.url, postgres.URL(), lease))

	held := make(chan answer, 1) // at work while the database is away, all the time
	go func() { held <- load.ask(t, load.next(), slow.url) }()
	gate.waitForPost(t)
	for range before {
		upstream.waitForPost(t)
	}
	postgres.Kill()
	open()
	load.waitUntilUnavailable(t) // longer than a gateway waits
	down := upstream.posts.Load()
	load.waitUntilUnavailable(t)
	if n := upstream.posts.Load(); n != down {
		t.Errorf("with the database away, the service got %d POSTs", n-down)
	}
	postgres.Start()
	for reached := upstream.posts.Load(); upstream.posts.Load() < reached+after; {
		upstream.waitForPost(t)
	}
	load.end()
	if a := <-held; a.problem() != problemUnresolved {
		t.Errorf("what was done while the database was away got %v, want unresolved", a)
	}
	load.wantTruth(t, unresolvedKeys(t, postgres.URL()), ledger(t, service.url, "alice"))
}

// load is some callers that send one charge after the other.
type load struct {
	unavailable chan struct{} // gets a value each time that the store was away
	stop        chan struct{}
	group       sync.WaitGroup

	mu      sync.Mutex
	last    int
	answers map[int]answer // by number of the charge
}

func newLoad(t *testing.T, gateways ...*host) *load {
	t.Helper()
	const callers = 6
	l := &load{unavailable: make(chan struct{}, callers*triesMax), stop: make(chan struct{}), answers: map[int]answer{}}
	for i := range callers {
		l.group.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				case <-t.Context().Done():
					return
				default:
					l.ask(t, l.next(), gateways[i%len(gateways)].url)
				}
			}
		})
	}
	t.Cleanup(l.group.Wait) // the test's context has ended by then
	return l
}

func (l *load) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return l.last
}

// end lets each caller come to the end of its charge.
func (l *load) end() {
	close(l.stop)
	l.group.Wait()
}

func (l *load) waitUntilUnavailable(t *testing.T) {
	t.Helper()
	select {
	case <-l.unavailable:
	case <-time.After(waitMax):
		t.Fatalf("no caller was told within %v that the store is away", waitMax)
	}
}

// ask sends a charge until it is answered or held.
func (l *load) ask(t *testing.T, n int, gateway string) answer {
	c := orderOf(n)
	for range triesMax {
		a, err := c.send(t.Context(), gateway)
		switch {
		case err != nil:
			t.Errorf("key %s: %v", c.key, err)
			return a
		case a.problem() == problemUnavailable:
			l.unavailable <- struct{}{}
		case a.problem() != problemInFlight && a.problem() != problemUnknown:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.answers[n] = a
			return a
		}
		if err := pause(t.Context(), askAgain); err != nil {
			return a
		}
	}
	t.Errorf("key %s was not decided in %d tries", c.key, triesMax)
	return answer{}
}

// wantTruth checks that each charge was booked once and its caller has it, or that its caller knows that
// nobody knows and an operator sees it.
func (l *load) wantTruth(t *testing.T, unresolved map[string]keyRecord, booked []sandbox.Charge) {
	t.Helper()
	times := map[int]int{}
	for _, c := range booked {
		times[int(c.Amount)]++
	}
	for n := 1; n <= l.last; n++ {
		c, a := orderOf(n), l.answers[n]
		_, listed := unresolved[c.key]
		switch {
		case a.status == http.StatusCreated && times[n] == 1 && !listed:
		case a.problem() == problemUnresolved && times[n] <= 1 && listed:
		default:
			t.Errorf("key %s was charged %d times, listed is %v, its caller got %v", c.key, times[n], listed, a)
		}
	}
}
