package sqlite_test

import (
	"math"
	"os"
	"testing"

	"github.com/fiftyhosts/fifty/store/sqlite"
)

// A sweep must leave the file to others for four times as long as it took itself whenever some have written or want
// to, in this process or another, and must not wait for those who only read.
func TestSQLiteASweepGivesWayToWhoeverWrites(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	other := open(t, path, sqlite.Config{Now: clock.Now}) // to this Store it is as one of another process
	fill(t, s, 20, 10)
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER)`); err != nil {
		t.Fatal(err)
	}
	clock.Add(retention)
	run := s.Keys().Sweeping(retention, tombstone)
	for _, step := range []struct {
		before string
		do     func()
		gap    float64
	}{
		{"the first transaction, when nothing is known", func() {}, 4},
		{"nothing", func() {}, 0.25},
		{"a claim", func() { win(t, s, attempt("a1", "mine")) }, 4},
		{"nothing again", func() {}, 0.25},
		{"a claim in another process", func() { win(t, other, attempt("a1", "theirs")) }, 4},
		{"a look", func() { find(t, s, "mine"); find(t, other, "theirs") }, 0.25},
		{"a business write", func() {
			if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO orders VALUES (1)`); err != nil {
				t.Fatal(err)
			}
		}, 4},
		{"another sweep of this Store, which gives way too", func() { sweep(t, s, 2) }, 0.25},
	} {
		step.do()
		if n, err := run.Next(t.Context(), 2); n != 2 || err != nil {
			t.Fatalf("after %s it swept %d, %v", step.before, n, err)
		}
		if got := run.Gap(); math.Abs(got-step.gap) > 0.01 {
			t.Errorf("after %s the gap is %v of what the transaction took, want %v", step.before, got, step.gap)
		}
	}
}

// What a sweep has written must not be left in the log for the next claim to carry into the file.
func TestSQLiteASweepCarriesWhatItWroteIntoTheFile(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now}.WithPragma("wal_autocheckpoint(0)"))
	fill(t, s, 450, 10)
	clock.Add(retention)
	if n := sweep(t, s, 500); n != 450 {
		t.Fatalf("%d were swept", n)
	}
	whole, err := os.ReadFile(path) // and not the log beside it
	if err != nil {
		t.Fatal(err)
	}
	copied := newFile(t)
	if err := os.WriteFile(copied, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	var buried int
	err = open(t, copied, sqlite.Config{}).DB().QueryRowContext(t.Context(), `SELECT count(*) FROM fifty_keys WHERE state = 5`).Scan(&buried)
	if err != nil || buried < 400 {
		t.Errorf("the file has %d tombstones, %v", buried, err)
	}
}
