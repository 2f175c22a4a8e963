package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

func TestSQLiteAClockSetBackRevivesNothing(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	c := win(t, s, attempt("a1", "k"))
	clock.Add(31 * time.Second)
	if !find(t, s, "k").Expired() {
		t.Fatal("the claim has not expired")
	}
	clock.Add(-4 * time.Hour)
	for what, store := range map[string]*sqlite.Store{
		"the same store":  s,
		"one opened anew": open(t, path, sqlite.Config{Now: clock.Now}),
	} {
		if rec := find(t, store, "k"); !rec.Expired() {
			t.Errorf("%s: the claim lives again, for %v", what, rec.ExpiresIn)
		}
		if got := claim(t, store, attempt("a2", "k")); got.Won || !got.Record.Expired() {
			t.Errorf("%s: a claim on the key got %+v", what, got)
		}
		if lost, ok := errors.AsType[*idempotency.LostError](renew(t, store, c)); !ok || lost.Superseded {
			t.Errorf("%s: the renewal got %v", what, lost)
		}
	}
}

func TestSQLiteATimeThatIsNotWrittenDownIsNoticed(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	forgets := sqlite.Shipped().Edit(t, "advance", "= 'clock'", "= 'nothing'")
	win(t, open(t, path, sqlite.Config{Now: clock.Now}.WithStatements(forgets)), attempt("a1", "k"))
	clock.Add(31 * time.Second)
	if !find(t, open(t, path, sqlite.Config{Now: clock.Now}.WithStatements(forgets)), "k").Expired() {
		t.Fatal("the claim has not expired")
	}
	clock.Add(-4 * time.Hour)
	if find(t, open(t, path, sqlite.Config{Now: clock.Now}), "k").Expired() {
		t.Fatal("it stayed expired with nothing written down, so the tests above prove nothing")
	}
}

func TestSQLiteAClockSetBackExtendsNoClaim(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	win(t, s, attempt("a1", "k"))
	clock.Add(20 * time.Second)
	win(t, s, attempt("a1", "other")) // the time is written down with each claim
	clock.Add(-4 * time.Hour)
	for what, store := range map[string]*sqlite.Store{
		"the same store":  s,
		"one opened anew": open(t, path, sqlite.Config{Now: clock.Now}),
	} {
		if left := find(t, store, "k").ExpiresIn; left > 10*time.Second {
			t.Errorf("%s: %v are left of 10 s", what, left)
		}
	}
	// And time goes on from there: the lease runs out although the host's clock is hours behind.
	clock.Add(11 * time.Second)
	if left := find(t, s, "k").ExpiresIn; left > 0 {
		t.Errorf("11 s later %v are left", left)
	}
}

func TestSQLiteARenewalCountsFromTheFilesTimeNotTheHosts(t *testing.T) {
	path, ahead, behind := newFile(t), newHostClock(), newHostClock()
	a, b := open(t, path, sqlite.Config{Now: ahead.Now}), open(t, path, sqlite.Config{Now: behind.Now})
	ahead.Add(time.Hour)
	c := win(t, a, attempt("a1", "k"))
	if err := renew(t, b, c); err != nil { // through a process whose host is an hour behind
		t.Fatal(err)
	}
	if left := find(t, a, "k").ExpiresIn; left != 30*time.Second {
		t.Fatalf("%v are left after a renewal by 30 s", left)
	}
}

func TestSQLiteAClockThatJumpedAheadRunsNothingTwice(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	early := win(t, s, attempt("a1", "k"))
	clock.Add(4 * time.Hour)
	// The claim expires early, so its key is unresolved: nobody else gets it, and its owner can still complete.
	if got := claim(t, s, attempt("a2", "k")); got.Won || !got.Record.Expired() {
		t.Fatalf("a duplicate got %+v", got)
	}
	clock.Add(-4 * time.Hour)
	late := win(t, s, attempt("a1", "new")) // claims go on, and hold
	if rec := find(t, s, "new"); rec.ExpiresIn != 30*time.Second {
		t.Fatalf("a new claim holds for %v", rec.ExpiresIn)
	}
	for _, c := range []idempotency.Claim{early, late} {
		if err := complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSQLiteWhatOneProcessSawExpiredIsExpiredForAll(t *testing.T) {
	path, right, slow := newFile(t), newHostClock(), newHostClock()
	s, other := open(t, path, sqlite.Config{Now: right.Now}), open(t, path, sqlite.Config{Now: slow.Now})
	c := win(t, other, attempt("a1", "k"))
	right.Add(time.Minute)
	if !find(t, s, "k").Expired() {
		t.Fatal("the claim has not expired")
	}
	// The owner's own clock still says that it has its claim.
	if lost, ok := errors.AsType[*idempotency.LostError](renew(t, other, c)); !ok {
		t.Fatalf("the renewal got %v", lost)
	}
}

func TestSQLiteSeeingAnExpiredClaimAgainWritesNothing(t *testing.T) {
	clock := newHostClock()
	var writes atomic.Int32
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, point string) {
		if strings.HasSuffix(point, ".advance") {
			writes.Add(1)
		}
	}))
	win(t, s, attempt("a1", "k"))
	clock.Add(time.Minute)
	writes.Store(0)
	for range 3 {
		clock.Add(time.Second)
		claim(t, s, attempt("a2", "k"))
		find(t, s, "k")
	}
	if n := writes.Load(); n != 1 {
		t.Errorf("the time was written %d times, and once is enough", n)
	}
}
