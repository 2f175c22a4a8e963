package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

const (
	faultKeys    = 20 // keys of a test with faults on the service's side
	faultCallers = 4  // callers of one key, at the same moment
)

// retries are the fields of a route to a service that tells a repeat by its key.
var retries = []string{"unknown: retry", "upstream_window: 24h", fmt.Sprintf("lease: %v", lease)}

func TestRetryRouteOnSQLiteGivesEachKeyOneEffectThoughTheServiceAndItsWireFail(t *testing.T) {
	t.Parallel()
	testRetryRoute(t, sqliteURL(t), 1)
}

func TestTwoRetryRoutesOnPostgresGiveEachKeyOneEffectThoughTheServiceAndItsWireFail(t *testing.T) {
	t.Parallel()
	testRetryRoute(t, testenv.Postgres(t).Database(t), 2)
}

// testRetryRoute puts a bank behind a wire that loses requests and replies, both of which fail before and
// after the effect. Every caller persists; in the end each key is booked once, and all its callers have the
// one answer.
func testRetryRoute(t *testing.T, database string, hosts int) {
	const each = 4
	wireFaults := []wireFault{loseRequest, dropReply, cutReply, hangUp}
	bankFaults := []bankFault{failBefore, failAfter, dropAfter}
	// Fewer of both pass than there are keys, so each list is played to its end.
	upstream, _ := newBank(t, shuffled(1, fine, append(slices.Repeat(bankFaults, each), slices.Repeat([]bankFault{fine}, 7)...)))
	wire := newRelay(t, upstream.url, shuffled(2, pass, append(slices.Repeat(wireFaults, each), slices.Repeat([]wireFault{pass}, faultKeys-1)...)))
	var gateways []string
	for range hosts {
		gateways = append(gateways, startRoute(t, wire.url, database, retries...).url)
	}

	var group sync.WaitGroup
	for n := 1; n <= faultKeys; n++ {
		group.Go(func() {
			c := charge{key: fmt.Sprintf("order-%d", n), account: "alice", amount: n}
			if err := persistAtOnce(t.Context(), c, gateways); err != nil {
				t.Errorf("key %s: %v", c.key, err)
			}
		})
	}
	group.Wait()

	upstream.wantBooked(t, faultKeys)
	for _, f := range wireFaults {
		if n := wire.counts()[f]; n != each {
			t.Errorf("the wire did %q %d times, want %d", f, n, each)
		}
	}
	for _, f := range bankFaults {
		if n := upstream.counts()[f]; n != each {
			t.Errorf("the bank did %q %d times, want %d", f, n, each)
		}
	}
}

// persistAtOnce lets faultCallers callers of one charge persist, each from another gateway on. All must get
// the same charge, and one of them the original.
func persistAtOnce(ctx context.Context, c charge, gateways []string) error {
	answers, errs := make([]answer, faultCallers), make([]error, faultCallers)
	var group sync.WaitGroup
	for i := range faultCallers {
		from := i % len(gateways)
		group.Go(func() {
			answers[i], errs[i] = c.persist(ctx, slices.Concat(gateways[from:], gateways[:from])...)
		})
	}
	group.Wait()
	originals := 0
	for i, a := range answers {
		switch {
		case errs[i] != nil:
			return errs[i]
		case a.status != http.StatusCreated || !sameAnswer(a, answers[0]):
			return fmt.Errorf("caller 0 got %v, caller %d got %v", answers[0], i, a)
		case a.header.Get(replayedHeader) == "":
			originals++
		}
	}
	if originals != 1 {
		return fmt.Errorf("%d answers were not marked as replays, want 1", originals)
	}
	return nil
}

// counts says how often each fault happened.
func (b *bank) counts() map[bankFault]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.did)
}

// TestRetryRoutePastTheServicesWindowIsHeld: a service remembers a key for some time only. What is sent again
// within it is told as a repeat; past it nothing is sent any more, and an operator decides (H8).
func TestRetryRoutePastTheServicesWindowIsHeld(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	upstream, _ := newBank(t, scripted(dropAfter)) // never answers
	gateway := startRoute(t, upstream.url, database, "unknown: retry", "upstream_window: 1s")
	c := charge{key: "order-1", account: "alice", amount: 1200}
	a, err := c.persist(t.Context(), gateway.url)
	if err != nil || a.problem() != problemUnresolved {
		t.Fatalf("past the window the caller got %v, %v; want unresolved", a, err)
	}
	asked := upstream.requestsOf(c.key)
	if a := c.mustSend(t, gateway.url); a.problem() != problemUnresolved {
		t.Errorf("a later arrival got %v, want unresolved", a)
	}
	if n := upstream.requestsOf(c.key); n != asked {
		t.Errorf("the bank got %d requests past its window", n-asked)
	}
	upstream.wantBooked(t, 1)
	unresolvedKey(t, database, c.key).resolve(t, database, http.StatusCreated, `{"id":"ch_1"}`)
	if a := c.mustSend(t, gateway.url); a.status != http.StatusCreated || string(a.body) != `{"id":"ch_1"}` {
		t.Errorf("after the decision an arrival got %v", a)
	}
}
