//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"strconv"
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

// stopsInItsThirdStep holds a process just before the COMMIT of its third step.
func stopsInItsThirdStep(ready func(text string) error) func(ctx context.Context, point string) {
	n := 0
	return func(_ context.Context, point string) {
		if point != "step.commit" {
			return
		}
		if n++; n == 3 {
			_ = ready("saving the third")
		}
	}
}

func hostSteps(ctx context.Context, s *sqlite.Store) error {
	all, err := s.Keys().Claim(ctx, []idempotency.Attempt{steps("dead", "k")})
	if err != nil {
		return err
	}
	for _, name := range []string{"reserve", "charge", "mail"} {
		if err := s.Keys().SaveStep(ctx, claimOf(all[0].Record), saved(name, "1")); err != nil {
			return err
		}
	}
	return nil
}

func TestSQLiteStepsOfAProcessThatWasKilledAreThereForItsSuccessor(t *testing.T) {
	path := newFile(t)
	h := start(t, "steps", path)
	h.says("saving the third")
	h.kill()

	clock := &hostClock{at: time.Now()}
	s := open(t, path, sqlite.Config{Now: clock.Now})
	old := find(t, s, "k")
	if got := claim(t, s, steps("a2", "k")); got.Won {
		t.Fatal("it was taken over within its lease")
	}
	clock.Add(31 * time.Second)
	next := claim(t, s, steps("a2", "k"))
	want := []idempotency.StepRecord{saved("reserve", "1"), saved("charge", "1")}
	if !next.Won || next.Record.Token != old.Token+1 || !sameSteps(next.Record.Steps, want) {
		t.Fatalf("the successor has %+v", next)
	}
	save(t, s, claimOf(next.Record), saved("mail", "2"))
	// What the dead one still had on its way arrives now.
	if err := s.Keys().SaveStep(t.Context(), claimOf(old), saved("mail", "1")); !superseded(err) {
		t.Fatalf("the late step got %v", err)
	}
	if rec := find(t, s, "k"); !sameSteps(rec.Steps, append(want, saved("mail", "2"))) {
		t.Fatalf("the steps are %+v", rec.Steps)
	}
}

// hostSweeps sweeps until nothing is left, and says how many records it swept.
func hostSweeps(ctx context.Context, s *sqlite.Store) error {
	total := 0
	for {
		n, err := s.Keys().Sweep(ctx, time.Minute, time.Hour, 7)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		total += n
	}
	fmt.Println(total)
	return nil
}

func TestSQLiteTwoProcessesThatSweepAtOnceCountNoRecordTwice(t *testing.T) {
	path, clock := newFile(t), &hostClock{at: time.Now().Add(-10 * time.Minute)}
	s := open(t, path, sqlite.Config{Now: clock.Now})
	const done, free = 150, 50
	fill(t, s, done, 10)
	for i := range free {
		c := win(t, s, attempt("a1", fmt.Sprint("free-", i)))
		if err := complete(t, s, c, idempotency.Free, idempotency.Response{}); err != nil {
			t.Fatal(err)
		}
	}
	hosts := []*host{start(t, "sweep", path), start(t, "sweep", path)}
	for _, h := range hosts {
		h.says("ready")
	}
	for _, h := range hosts {
		h.goOn()
	}
	total := 0
	for _, h := range hosts {
		n, err := strconv.Atoi(h.line())
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != done+free {
		t.Errorf("%d records were swept, of %d", total, done+free)
	}
	left, err := s.Keys().List(t.Context(), idempotency.Filter{Limit: 1000})
	if err != nil || len(left) != done {
		t.Fatalf("%d tombstones are left, %v", len(left), err)
	}
	for _, rec := range left {
		if rec.State != idempotency.Tombstone {
			t.Fatalf("%+v is left", rec)
		}
	}
}
