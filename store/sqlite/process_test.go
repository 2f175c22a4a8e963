//go:build unix

package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

func TestSQLiteOfTwoProcessesThatClaimTheSameKeysOneWinsEach(t *testing.T) {
	path := newFile(t)
	hosts := []*host{start(t, "claim", path), start(t, "claim", path)}
	for _, h := range hosts {
		h.says("ready")
	}
	for _, h := range hosts {
		h.goOn()
	}
	winners := map[string]int{}
	for _, h := range hosts {
		for line := h.line(); line != "done"; line = h.line() {
			key, ok := strings.CutPrefix(line, "won ")
			if !ok {
				t.Fatal(line)
			}
			winners[key]++
		}
	}
	if len(winners) != raceKeys {
		t.Errorf("%d of %d keys have a winner", len(winners), raceKeys)
	}
	for key, n := range winners {
		if n != 1 {
			t.Errorf("key %s has %d winners", key, n)
		}
	}
}

func TestSQLiteManyProcessesMayOpenAndMigrateANewFileAtOnce(t *testing.T) {
	path := newFile(t)
	var hosts []*host
	for range 6 {
		h := start(t, "migrate", path)
		h.says("ready")
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		h.goOn()
	}
	for _, h := range hosts {
		h.says("done")
	}
	s := open(t, path, sqlite.Config{})
	if n, top := versions(t, s.DB()); n != top {
		t.Fatalf("%d migrations were applied up to version %d", n, top)
	}
}

func TestSQLiteTheClaimOfAProcessThatWasKilledSurvivesAndExpires(t *testing.T) {
	path := newFile(t)
	h := start(t, "hold", path)
	h.says("claimed")
	h.kill()

	clock := &hostClock{at: time.Now()}
	s := open(t, path, sqlite.Config{Now: clock.Now})
	if rec := find(t, s, "k"); rec.Attempt != "dead" || rec.State != idempotency.InFlight || rec.Expired() {
		t.Fatalf("the claim reads as %+v", rec)
	}
	clock.Add(31 * time.Second)
	if rec := find(t, s, "k"); !rec.Expired() {
		t.Fatalf("its lease has run out, and the claim reads as %+v", rec)
	}
	if got := claim(t, s, attempt("a2", "k")); got.Won {
		t.Fatal("the work of the dead process may have happened, and another won its key")
	}
}

func TestSQLiteATransactionOfAProcessThatWasKilledLeavesNothing(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.Config{})
	business(t, s)
	h := start(t, "hold in a transaction", path)
	h.says("working")
	h.kill()
	gone(t, s, "k")
	if n := effects(t, s, "e"); n != 0 {
		t.Fatalf("%d effects of a transaction that never ended", n)
	}
	usable(t, s, "k")
}
