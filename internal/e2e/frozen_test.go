package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/fiftyhosts/fifty/internal/testenv"
)

// frozenOwner is a gateway that stands still while the bank's answer to its request waits, and another gateway
// on the same Postgres.
type frozenOwner struct {
	owner, other *host
	database     string
	bank         *bank
	charge       charge
	thaw         func() answer // lets the bank answer and the owner go on; what the owner's caller gets
}

func newFrozenOwner(t *testing.T, fields ...string) *frozenOwner {
	t.Helper()
	f := &frozenOwner{database: testenv.Postgres(t).Database(t), charge: charge{key: "order-1", account: "alice", amount: 1200}}
	upstream, open := newBank(t, scripted(fine, waitAfter))
	f.bank = upstream
	f.owner = startRoute(t, upstream.url, f.database, fields...)
	f.other = startRoute(t, upstream.url, f.database, fields...)
	got := make(chan answer, 1)
	go func() {
		a, err := f.charge.send(t.Context(), f.owner.url)
		if err != nil {
			t.Errorf("the caller of the owner got %v", err)
		}
		got <- a
	}()
	upstream.waitForRequest(t)
	thaw := f.owner.freeze()
	f.thaw = func() answer {
		open()
		thaw()
		return <-got
	}
	return f
}

// insist asks the other gateway until the owner's lease is over.
func (f *frozenOwner) insist(t *testing.T) answer {
	t.Helper()
	a, err := f.charge.insist(t.Context(), f.other.url)
	if err != nil {
		t.Errorf("a retry got %v", err)
	}
	return a
}

// wantAll checks that every arrival, on both gateways, gets the given answer from now on.
func (f *frozenOwner) wantAll(t *testing.T, want answer) {
	t.Helper()
	for _, gateway := range []*host{f.other, f.owner} {
		a := f.charge.mustSend(t, gateway.url)
		if !sameAnswer(a, want) || a.header.Get(replayedHeader) != "true" {
			t.Errorf("a later arrival got %v, want %v again", a, want)
		}
	}
}

var holds = []string{"unknown: hold", fmt.Sprintf("lease: %v", lease)}

// TestOwnerOnPostgresFrozenPastItsLeaseIsHeardWhenNobodyDecided: the truth is not thrown away (H5).
func TestOwnerOnPostgresFrozenPastItsLeaseIsHeardWhenNobodyDecided(t *testing.T) {
	t.Parallel()
	f := newFrozenOwner(t, holds...)
	if a := f.insist(t); a.problem() != problemUnresolved {
		t.Errorf("a retry past the lease got %v, want unresolved", a)
	}
	late := f.thaw()
	if got := late.bankAnswer(t); got.Charge != f.bank.chargeOf(f.charge.key) {
		t.Errorf("the owner's caller got %+v", got)
	}
	f.wantAll(t, late)
	f.bank.wantBooked(t, 1)
	if left := unresolvedKeys(t, f.database); len(left) > 0 {
		t.Errorf("unresolved is %v", left)
	}
}

// TestOwnerOnPostgresFrozenPastItsLeaseIsRefusedAfterAnOperatorDecided: the decision stands, for its own
// caller too.
func TestOwnerOnPostgresFrozenPastItsLeaseIsRefusedAfterAnOperatorDecided(t *testing.T) {
	t.Parallel()
	f := newFrozenOwner(t, holds...)
	f.insist(t)
	const decided = `{"id":"ch_1","decided":"by a person"}`
	unresolvedKey(t, f.database, f.charge.key).resolve(t, f.database, http.StatusCreated, decided)
	before := f.charge.mustSend(t, f.other.url)
	if before.status != http.StatusCreated || string(before.body) != decided {
		t.Errorf("after the decision an arrival got %v", before)
	}
	if late := f.thaw(); !sameAnswer(late, before) || late.header.Get(replayedHeader) != "true" {
		t.Errorf("the owner's caller got %v, want what was decided", late)
	}
	f.owner.find(`idempotency\.superseded`)
	f.wantAll(t, before)
}

// TestOwnerOnPostgresFrozenPastItsLeaseIsRefusedAfterATakeover: the successor's answer stands, and the service
// that tells repeats by their key booked once.
func TestOwnerOnPostgresFrozenPastItsLeaseIsRefusedAfterATakeover(t *testing.T) {
	t.Parallel()
	f := newFrozenOwner(t, retries...)
	successors := f.insist(t)
	if got := successors.bankAnswer(t); got.Request != 2 {
		t.Errorf("the successor's caller got %+v, want the answer to the second request", got)
	}
	if late := f.thaw(); !sameAnswer(late, successors) || late.header.Get(replayedHeader) != "true" {
		t.Errorf("the owner's caller got %v, want the successor's answer", late)
	}
	f.owner.find(`idempotency\.superseded`)
	f.wantAll(t, successors)
	f.bank.wantBooked(t, 1)
	if n := f.bank.requestsOf(f.charge.key); n != 2 {
		t.Errorf("the bank got %d requests under the key, want 2", n)
	}
}

func TestKilledOwnersRequestOnSQLiteIsFinishedByTheNextArrival(t *testing.T) {
	t.Parallel()
	testTakeoverOfAKilledOwner(t, sqliteURL(t))
}

func TestKilledOwnersRequestOnPostgresIsFinishedByTheNextArrival(t *testing.T) {
	t.Parallel()
	testTakeoverOfAKilledOwner(t, testenv.Postgres(t).Database(t))
}

// testTakeoverOfAKilledOwner ends a gateway by kill -9 while a service that tells repeats by their key works.
// Past the lease the next arrival asks the service again under the same key, and gets what was booked.
func testTakeoverOfAKilledOwner(t *testing.T, database string) {
	upstream, _ := newBank(t, scripted(fine, waitAfter))
	owner := startRoute(t, upstream.url, database, retries...)
	other := startRoute(t, upstream.url, database, retries...)
	c := charge{key: "order-1", account: "alice", amount: 1200}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a, err := c.send(t.Context(), owner.url); err == nil {
			t.Errorf("the caller of a killed gateway got %v", a)
		}
	}()
	upstream.waitForRequest(t)
	if a := c.mustSend(t, other.url); a.problem() != problemInFlight {
		t.Errorf("a duplicate while the owner works got %v, want in-flight", a)
	}
	owner.kill()
	<-ended

	first, err := c.insist(t.Context(), other.url)
	if err != nil {
		t.Fatal(err)
	}
	if got := first.bankAnswer(t); got.Charge != upstream.chargeOf(c.key) || got.Request != 2 || first.header.Get(replayedHeader) != "" {
		t.Errorf("the next arrival got %v, want the charge that the first one booked", first)
	}
	for _, gateway := range []*host{startRoute(t, upstream.url, database, retries...), other} {
		if a := c.mustSend(t, gateway.url); !sameAnswer(a, first) || a.header.Get(replayedHeader) != "true" {
			t.Errorf("a later arrival got %v, want %v again", a, first)
		}
	}
	upstream.wantBooked(t, 1)
	if n := upstream.requestsOf(c.key); n != 2 {
		t.Errorf("the bank got %d requests under the key, want 2", n)
	}
}
