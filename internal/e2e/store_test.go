package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/internal/testenv"
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

// TestPostgresThatIsDownForLongUnderLoadRunsNothingTwice: the database goes away while many requests are at
// work, and stays away for longer than anybody waits for it. Each caller is told the truth, none is run
// without a claim, and once it is back each key has its answer, or an operator sees it.
func TestPostgresThatIsDownForLongUnderLoadRunsNothingTwice(t *testing.T) {
	t.Parallel()
	const keys, before = 60, 20
	postgres := testenv.NewPostgres(t)
	service := startSandbox(t, sqliteURL(t))
	upstream := newCounter(t, service.url)
	var gateways []string
	for range 2 {
		gateways = append(gateways, startGateway(t, upstream.url, postgres.URL(), lease).url)
	}

	unavailable := make(chan struct{}, triesMax)
	turns := make(chan int, keys)
	for n := 1; n <= keys; n++ {
		turns <- n
	}
	close(turns)
	answers := make([]answer, keys+1)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for n := range turns {
				answers[n] = askUntilDecided(t, orderOf(n), gateways, unavailable)
			}
		})
	}
	t.Cleanup(group.Wait)
	for range before {
		upstream.waitForPost(t)
	}
	postgres.Kill()
	<-unavailable // longer than a gateway waits
	down := upstream.posts.Load()
	<-unavailable
	if n := upstream.posts.Load(); n != down {
		t.Errorf("with the database away, the service got %d POSTs", n-down)
	}
	postgres.Start()
	group.Wait()

	unresolved := unresolvedKeys(t, postgres.URL())
	times := map[int64]int{}
	for _, c := range ledger(t, service.url, "alice") {
		times[c.Amount]++
	}
	for n := 1; n <= keys; n++ {
		c, a := orderOf(n), answers[n]
		_, listed := unresolved[c.key]
		switch {
		case times[int64(n)] > 1:
			t.Errorf("key %s was charged %d times", c.key, times[int64(n)])
		case a.status == http.StatusCreated && times[int64(n)] == 1 && !listed:
		case a.problem() == problemUnresolved && listed:
		default:
			t.Errorf("key %s was charged %d times, listed is %v, its caller got %v", c.key, times[int64(n)], listed, a)
		}
	}
}

// askUntilDecided sends a charge until it is answered or held, and notes each time that the store was away.
func askUntilDecided(t *testing.T, c charge, gateways []string, unavailable chan<- struct{}) answer {
	var a answer
	for try := range triesMax {
		var err error
		a, err = c.send(t.Context(), gateways[try%len(gateways)])
		switch {
		case err != nil:
			t.Errorf("key %s: %v", c.key, err)
			return a
		case a.problem() == problemUnavailable:
			unavailable <- struct{}{}
		case a.problem() != problemInFlight && a.problem() != problemUnknown:
			return a
		}
		if err := pause(t.Context(), askAgain); err != nil {
			return a
		}
	}
	t.Errorf("key %s was not decided in %d tries: %v", c.key, triesMax, a)
	return a
}
