package e2e

import (
	"net/http"
	"sync"
	"testing"
)

// Two processes on one file with clocks hours apart are one host whose clock jumps (H20). Safety is promised
// there, not liveness: a lease may end early, so that a duplicate is told "unresolved" while the owner works.

// TestSQLiteClocksFourHoursApartNeverBringAClaimBack: once a process has seen the claim as over, no process takes
// it for alive again, whatever its clock and also after a restart. The owner is heard, for nobody decided.
func TestSQLiteClocksFourHoursApartNeverBringAClaimBack(t *testing.T) {
	t.Parallel()
	for _, skew := range clocks { // of the owner
		database := sqliteURL(t)
		upstream, open := newBank(t, scripted(fine, waitAfter))
		c := charge{key: "order-1", account: "alice", amount: 1200}
		owner := startSkewedRoute(t, skew, upstream.url, database, holds...)
		ahead := startSkewedRoute(t, skew+hoursApart, upstream.url, database, holds...)
		got := make(chan answer, 1)
		go func() {
			a, err := c.send(t.Context(), owner.url)
			if err != nil {
				t.Errorf("the owner's caller got %v", err)
			}
			got <- a
		}()
		upstream.waitForRequest(t)

		if a := c.mustSend(t, ahead.url); a.problem() != problemUnresolved {
			t.Errorf("owner at %v: four hours ahead, a duplicate got %v, want unresolved", skew, a)
		}
		behind := startSkewedRoute(t, skew-hoursApart, upstream.url, database, holds...)
		for what, gateway := range map[string]*host{"owner": owner, "host ahead": ahead, "host behind": behind} {
			if a := c.mustSend(t, gateway.url); a.problem() != problemUnresolved {
				t.Errorf("owner at %v: the %s then said %v, want unresolved still", skew, what, a)
			}
		}

		open()
		first := <-got
		first.bankAnswer(t)
		for what, gateway := range map[string]*host{"owner": owner, "host ahead": ahead, "host behind": behind} {
			if a := c.mustSend(t, gateway.url); !sameAnswer(a, first) || a.header.Get(replayedHeader) != "true" {
				t.Errorf("owner at %v: in the end the %s said %v, want %v again", skew, what, a, first)
			}
		}
		upstream.wantBooked(t, 1)
		if n := upstream.requestsOf(c.key); n != 1 {
			t.Errorf("owner at %v: the bank was asked %d times, want once", skew, n)
		}
	}
}

// TestSQLiteClocksFourHoursApartUnderDuplicatesNeverChargeTwice: callers of each key ask both processes at once.
// Some may be told "unresolved", too early; nobody is told of a second charge, and in the end all have the one.
func TestSQLiteClocksFourHoursApartUnderDuplicatesNeverChargeTwice(t *testing.T) {
	t.Parallel()
	database := sqliteURL(t)
	service := startSandbox(t, sqliteURL(t))
	gateways := []*host{
		startSkewedRoute(t, 0, service.url, database, holds...),
		startSkewedRoute(t, hoursApart, service.url, database, holds...),
	}
	for n := 1; n <= faultKeys; n++ {
		c := orderOf(n)
		var group sync.WaitGroup
		for i := range sendsPerKey {
			group.Go(func() {
				a, err := c.insist(t.Context(), gateways[i%len(gateways)].url)
				if err != nil || a.status != http.StatusCreated && a.problem() != problemUnresolved {
					t.Errorf("key %d: a caller got %v, %v", n, a, err)
				}
			})
		}
		group.Wait()
		// All have their answers, so also the owner is done.
		var first answer
		for i, g := range gateways {
			a := c.mustSend(t, g.url)
			if i == 0 {
				first = a
			}
			if a.charge(t).Amount != int64(n) || !sameAnswer(a, first) || a.header.Get(replayedHeader) != "true" {
				t.Errorf("key %d: in the end a gateway says %v, and the first said %v", n, a, first)
			}
		}
	}
	wantOneChargeOfEachAmount(t, ledger(t, service.url, "alice"))
}
