package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/server/sandbox"
)

func TestHoldRouteOnSQLiteNeverRepeatsAnEffectAndListsWhatAnOperatorMustDecide(t *testing.T) {
	t.Parallel()
	testHoldRoute(t, sqliteURL(t), 1)
}

func TestTwoHoldRoutesOnPostgresNeverRepeatAnEffectAndListWhatAnOperatorMustDecide(t *testing.T) {
	t.Parallel()
	testHoldRoute(t, testenv.Postgres(t).Database(t), 2)
}

// testHoldRoute puts a service that can't tell a repeat behind a wire that loses requests and replies. What
// got no answer is held, whoever asks again; an operator sees it all, and decides each key by the ledger.
func testHoldRoute(t *testing.T, database string, hosts int) {
	const each = 3
	service := startSandbox(t, database)
	wireFaults := []wireFault{loseRequest, dropReply, cutReply, hangUp}
	const booked = faultKeys - each // all but those whose request was lost
	wire := newRelay(t, service.url, shuffled(3, pass, append(slices.Repeat(wireFaults, each), slices.Repeat([]wireFault{pass}, faultKeys-4*each)...)))
	var gateways []string
	for range hosts {
		gateways = append(gateways, startRoute(t, wire.url, database, "unknown: hold").url)
	}

	answers := sendEachTwice(t, gateways)
	held := map[string]bool{}
	for key, a := range answers {
		if a.problem() == problemUnknown {
			held[key] = true
		} else {
			a.charge(t)
		}
	}
	eventually(t, "every request that was delivered is booked", func() bool { return len(ledger(t, service.url, "alice")) == booked })
	open := unresolvedKeys(t, database)
	if len(open) != 4*each || len(held) != 4*each {
		t.Errorf("%d keys are listed as unresolved, and %d callers were told so; want %d", len(open), len(held), 4*each)
	}
	for key := range held {
		if _, listed := open[key]; !listed {
			t.Errorf("key %s is held and not listed", key)
		}
	}

	decideByLedger(t, database, open, ledger(t, service.url, "alice"))
	if left := unresolvedKeys(t, database); len(left) > 0 {
		t.Errorf("after the decisions, %v are unresolved", left)
	}
	for n := 1; n <= faultKeys; n++ {
		c := orderOf(n)
		a := c.mustSend(t, gateways[n%hosts])
		if got := a.charge(t); got.Amount != int64(n) {
			t.Errorf("key %s got %v", c.key, a)
		}
		again := c.mustSend(t, gateways[(n+1)%hosts])
		if !sameAnswer(a, again) || again.header.Get(replayedHeader) != "true" {
			t.Errorf("key %s got %v, then %v", c.key, a, again)
		}
	}
	wantOneChargeOfEachAmount(t, ledger(t, service.url, "alice"))
}

// orderOf is the n-th of the charges; its amount names it in the ledger.
func orderOf(n int) charge {
	return charge{key: fmt.Sprintf("order-%d", n), account: "alice", amount: n}
}

// sendEachTwice sends each charge and returns what its first caller was told; a second one, on another
// gateway, must be told the same, or that the key is held.
func sendEachTwice(t *testing.T, gateways []string) map[string]answer {
	var mu sync.Mutex
	answers := map[string]answer{}
	var group sync.WaitGroup
	for n := 1; n <= faultKeys; n++ {
		group.Go(func() {
			c := orderOf(n)
			first, err := c.send(t.Context(), gateways[n%len(gateways)])
			if err != nil {
				t.Errorf("key %s: %v", c.key, err)
				return
			}
			again, err := c.send(t.Context(), gateways[(n+1)%len(gateways)])
			switch {
			case err != nil:
				t.Errorf("key %s: %v", c.key, err)
			case first.status == http.StatusCreated && sameAnswer(first, again):
			case first.problem() == problemUnknown && again.problem() == problemUnresolved:
			default:
				t.Errorf("key %s got %v, then %v", c.key, first, again)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[c.key] = first
		})
	}
	group.Wait()
	return answers
}

// decideByLedger resolves the keys whose charge was booked, and releases the others.
func decideByLedger(t *testing.T, database string, open map[string]keyRecord, booked []sandbox.Charge) {
	t.Helper()
	byKey := map[string]sandbox.Charge{}
	for _, c := range booked {
		byKey[orderOf(int(c.Amount)).key] = c
	}
	for key, rec := range open {
		c, happened := byKey[key]
		if !happened {
			rec.release(t, database)
			continue
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		rec.resolve(t, database, http.StatusCreated, string(text))
		if shown := rec.show(t, database); shown.State != "done" || len(shown.Decisions) != 1 || shown.Decisions[0].By != "carol" {
			t.Errorf("a decided key is shown as %+v", shown)
		}
	}
}

func wantOneChargeOfEachAmount(t *testing.T, booked []sandbox.Charge) {
	t.Helper()
	times := map[int64]int{}
	for _, c := range booked {
		times[c.Amount]++
	}
	for n := int64(1); n <= faultKeys; n++ {
		if times[n] != 1 {
			t.Errorf("amount %d was charged %d times, want once", n, times[n])
		}
	}
	if len(booked) != faultKeys {
		t.Errorf("%d charges are booked, want %d", len(booked), faultKeys)
	}
}
