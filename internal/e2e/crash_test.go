package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

// lease is that of the gateways in these tests: long enough that a busy machine renews it in time.
const lease = 4 * time.Second

func TestOwnerKilledAtWorkOnSQLiteNeverChargesAgain(t *testing.T) {
	t.Parallel()
	testOwnerKilledAtWork(t, sqliteURL(t))
}

func TestOwnerKilledAtWorkOnPostgresNeverChargesAgain(t *testing.T) {
	t.Parallel()
	testOwnerKilledAtWork(t, testenv.Postgres(t).Database(t))
}

// testOwnerKilledAtWork ends a gateway by kill -9 while the service behind it works. Nobody can tell
// whether that work was done, so every retry, on any host, is told just that.
func testOwnerKilledAtWork(t *testing.T, database string) {
	service := startSandbox(t, database)
	upstream, _ := newGate(t, service.url) // so the owner never learns what became of the charge
	owner := startGateway(t, upstream.url, database, lease)
	other := startGateway(t, upstream.url, database, lease)

	c := charge{key: "order-1", account: "alice", amount: 1200, fault: "slow=1s"}
	ended := make(chan error, 1)
	go func() {
		a, err := c.send(t.Context(), owner.url)
		if err == nil {
			t.Errorf("the caller of a killed gateway got %v", a)
		}
		ended <- err
	}()
	upstream.waitForPost(t)
	if a := c.mustSend(t, other.url); a.status != http.StatusConflict || a.problem() != problemInFlight {
		t.Errorf("a duplicate on the other host, while the owner works, got %v, want in-flight", a)
	}
	owner.kill()
	<-ended
	eventually(t, "the charge that was under way is booked", func() bool { return len(ledger(t, service.url, "alice")) == 1 })

	restarted := startGateway(t, upstream.url, database, lease)
	for _, gateway := range []*host{other, restarted, other} {
		a, err := c.insist(t.Context(), gateway.url) // in flight until the lease is over
		if err != nil || a.status != http.StatusConflict || a.problem() != problemUnresolved {
			t.Errorf("a retry got %v, %v; want unresolved", a, err)
		}
	}
	wantCharges(t, service.url, "alice", 1)
	if n := upstream.posts.Load(); n != 1 {
		t.Errorf("the service got %d POSTs, want 1", n)
	}
}

// TestGatewayThatIsToldToEndFinishesItsWork: SIGTERM while the service works. The caller gets its answer,
// and the gateway ends with exit code 0.
func TestGatewayThatIsToldToEndFinishesItsWork(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	service := startSandbox(t, "memory:")
	upstream, open := newGate(t, service.url)
	gateway := startProxy(t, upstream.url, database)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	got := make(chan answer, 1)
	go func() {
		a, err := c.send(t.Context(), gateway.url)
		if err != nil {
			t.Errorf("the caller got %v", err)
		}
		got <- a
	}()
	upstream.waitForPost(t)
	gateway.signal(syscall.SIGTERM)
	gateway.find("draining")
	open()
	first := <-got
	first.charge(t)
	if code := gateway.exitCode(); code != 0 {
		t.Errorf("the gateway ended with %d, want 0", code)
	}
	again := c.mustSend(t, startProxy(t, upstream.url, database).url)
	if !sameAnswer(first, again) || again.header.Get(replayedHeader) != "true" {
		t.Errorf("the first answer was %v, after a restart %v", first, again)
	}
	wantCharges(t, service.url, "alice", 1)
}

// TestServiceThatFailsAtWorkIsNotAskedAgain: the service behind the gateway takes the request and gives no
// answer. The caller is told that nobody knows, and no retry reaches the service.
func TestServiceThatFailsAtWorkIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault   string
		code    int // of the service's process; 0 means that it lives
		charges int
	}{
		{"drop", 0, 1},
		{"crash-before", 137, 0},
		{"crash-after", 137, 1},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			database := sqliteURL(t)
			service := startSandbox(t, database)
			upstream := newCounter(t, service.url)
			gateway := startProxy(t, upstream.url, database)
			c := charge{key: "order-1", account: "alice", amount: 1200, fault: tt.fault}
			if a := c.mustSend(t, gateway.url); a.status != http.StatusServiceUnavailable || a.problem() != problemUnknown {
				t.Errorf("the caller got %v, want unknown", a)
			}
			if tt.code != 0 {
				if code := service.exitCode(); code != tt.code {
					t.Errorf("the service ended with %d, want %d", code, tt.code)
				}
			}
			c.fault = ""
			for range 3 {
				if a := c.mustSend(t, gateway.url); a.status != http.StatusConflict || a.problem() != problemUnresolved {
					t.Errorf("a retry got %v, want unresolved", a)
				}
			}
			if n := upstream.posts.Load(); n != 1 {
				t.Errorf("the service got %d POSTs, want 1", n)
			}
			wantCharges(t, startSandbox(t, database).url, "alice", tt.charges)
		})
	}
}

// TestServiceThatIsDownIsAskedOnceItIsBack: a service that can't be dialled has got nothing, so the key
// stays free and the retry runs.
func TestServiceThatIsDownIsAskedOnceItIsBack(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	service := newReservedPort(t)
	gateway := startProxy(t, service.url, database)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	for range 2 {
		a := c.mustSend(t, gateway.url)
		if a.status != http.StatusBadGateway || a.problem() != "urn:fifty:problem:upstream-unreachable" || a.header.Get("Retry-After") == "" {
			t.Errorf("a caller got %v, want upstream-unreachable", a)
		}
	}
	service.serve()
	first := c.mustSend(t, gateway.url)
	first.charge(t)
	again := c.mustSend(t, gateway.url)
	if !sameAnswer(first, again) || again.header.Get(replayedHeader) != "true" {
		t.Errorf("the first answer was %v, the second %v", first, again)
	}
	wantCharges(t, service.url, "alice", 1)
}

// TestPostgresKilledAtWorkLosesNoAnswer: the database of the keys dies while the service works, and comes
// back. The answer is withheld until it is recorded (H9): after a restart of some seconds the caller gets it.
// After a longer one it is told that nobody knows, and so is every retry.
func TestPostgresKilledAtWorkLosesNoAnswer(t *testing.T) {
	t.Parallel()
	postgres := testenv.NewPostgres(t)
	service := startSandbox(t, sqliteURL(t))
	upstream, open := newGate(t, service.url)
	gateway := startGateway(t, upstream.url, postgres.URL(), lease)

	c := charge{key: "order-1", account: "alice", amount: 1200}
	got := make(chan answer, 1)
	go func() {
		a, err := c.send(t.Context(), gateway.url)
		if err != nil {
			t.Errorf("the caller got %v", err)
		}
		got <- a
	}()
	upstream.waitForPost(t)
	postgres.Kill()
	down := time.Now()
	open()
	eventually(t, "the charge is booked", func() bool { return len(ledger(t, service.url, "alice")) == 1 })
	postgres.Start()
	bridged := time.Since(down) < 5*time.Second // half of what a gateway tries for: a busy machine may need more
	first := <-got
	again, err := c.insist(t.Context(), gateway.url)
	switch {
	case err != nil:
		t.Errorf("the retry got %v", err)
	case first.problem() == problemUnknown && !bridged:
		if again.problem() != problemUnresolved {
			t.Errorf("the caller was told unknown, the retry got %v", again)
		}
	default:
		first.charge(t)
		if !sameAnswer(first, again) || again.header.Get(replayedHeader) != "true" {
			t.Errorf("the first answer was %v, the retry got %v", first, again)
		}
	}
	wantCharges(t, service.url, "alice", 1)
	if n := upstream.posts.Load(); n != 1 {
		t.Errorf("the service got %d POSTs, want 1", n)
	}
}

// TestPostgresThatIsDownMeansThatNothingIsRun: without the store no request is let through unprotected.
func TestPostgresThatIsDownMeansThatNothingIsRun(t *testing.T) {
	t.Parallel()
	postgres := testenv.NewPostgres(t)
	service := startSandbox(t, sqliteURL(t))
	gateway := startProxy(t, service.url, postgres.URL())
	postgres.Kill()
	c := charge{key: "order-1", account: "alice", amount: 1200}
	a := c.mustSend(t, gateway.url)
	if a.status != http.StatusServiceUnavailable || a.problem() != "urn:fifty:problem:store-unavailable" || a.header.Get("Retry-After") == "" {
		t.Errorf("a caller got %v, want store-unavailable", a)
	}
	wantCharges(t, service.url, "alice", 0)
	postgres.Start()
	eventually(t, "the same request with the same key is charged", func() bool {
		return c.mustSend(t, gateway.url).status == http.StatusCreated
	})
	wantCharges(t, service.url, "alice", 1)
}
