package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

// The times of these tests: an answer is kept for an hour, and a tombstone for a day.
const (
	retention = time.Hour
	tombstone = 24 * time.Hour
)

func sweep(tb testing.TB, s *sqlite.Store, limit int) int {
	tb.Helper()
	n, err := s.Keys().Sweep(tb.Context(), retention, tombstone, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// end claims a key, saves a step, and ends the claim in a state.
func end(tb testing.TB, s *sqlite.Store, a idempotency.Attempt, state idempotency.State) idempotency.Claim {
	tb.Helper()
	c := win(tb, s, a)
	save(tb, s, c, saved("charge", "1"))
	answer := idempotency.Response{Status: 201, Header: map[string][]string{"A": {"b"}}, Body: []byte("secret"), NotReplayable: true}
	if err := complete(tb, s, c, state, answer); err != nil {
		tb.Fatal(err)
	}
	return c
}

// stepRows counts the steps of all keys.
func stepRows(tb testing.TB, s *sqlite.Store) (n int) {
	tb.Helper()
	if err := s.DB().QueryRowContext(tb.Context(), `SELECT count(*) FROM fifty_steps`).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// states tells the state of each key of scope acme.
func states(tb testing.TB, s *sqlite.Store) string {
	tb.Helper()
	all, err := s.Keys().List(tb.Context(), idempotency.Filter{Scope: "acme", Limit: 1000})
	if err != nil {
		tb.Fatal(err)
	}
	var text []string
	for _, rec := range all {
		text = append(text, fmt.Sprintf("%s %v %d", rec.Request.Key, rec.State, len(rec.Steps)))
	}
	return strings.Join(text, ", ")
}

// swept sweeps records of every state on both sides of the times that count.
func swept(p *probe, sql sqlite.Statements) {
	clock := newHostClock()
	s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
	early := clock.Now()
	end(p.tb, s, attempt("a1", "ancient"), idempotency.Done)
	ahead := attempt("a1", "ahead")
	ahead.Made, ahead.Window = early.Add(time.Minute), tombstone
	end(p.tb, s, ahead, idempotency.Done)
	clock.Add(retention)
	p.check(sweep(p.tb, s, 10) == 2, "the answers are not dropped at their time")
	p.check(states(p.tb, s) == "ahead tombstone 0, ancient tombstone 0", "after an hour: %s", states(p.tb, s))
	found, err := s.Keys().Find(p.tb.Context(), "acme", "ancient")
	rec := found.Response
	p.check(err == nil, "its tombstone: %v", err)
	p.check(rec.Status == 0 && rec.Header == nil && rec.Body == nil && !rec.NotReplayable, "a tombstone keeps %+v", rec)

	clock.Add(tombstone - 2*retention)
	end(p.tb, s, attempt("a1", "done"), idempotency.Done)
	end(p.tb, s, attempt("a1", "free"), idempotency.Free)
	win(p.tb, s, attempt("a1", "held"))
	end(p.tb, s, attempt("a1", "unknown"), idempotency.Unknown)
	end(p.tb, s, steps("a1", "let go"), idempotency.InFlight)
	clock.Add(retention - time.Microsecond)
	namesake := attempt("a1", "done")
	namesake.Request.Scope = "zeta"
	end(p.tb, s, namesake, idempotency.Done)
	end(p.tb, s, attempt("a1", "late"), idempotency.Free)
	before := states(p.tb, s)
	p.check(sweep(p.tb, s, 10) == 0 && states(p.tb, s) == before, "a microsecond too early: %s", states(p.tb, s))
	clock.Add(time.Microsecond)
	n := sweep(p.tb, s, 10)
	p.check(n == 3, "%d were swept", n)
	want := "ahead tombstone 0, done tombstone 0, held in flight 0, late free 1, let go in flight 1, unknown unknown 1"
	p.check(states(p.tb, s) == want, "then: %s", states(p.tb, s))
	p.check(stepRows(p.tb, s) == 4, "%d steps are left", stepRows(p.tb, s))
	found, err = s.Keys().Find(p.tb.Context(), "zeta", "done")
	p.check(err == nil && found.State == idempotency.Done && len(found.Steps) == 1, "its namesake in another scope: %+v, %v", found, err)
	// A tombstone outlives its key's window: there is no moment at which the key is new.
	clock.Add(time.Minute - time.Microsecond)
	p.check(ahead.CheckWindow(clock.Now()) == nil, "the test's key is outside of its window")
	p.check(sweep(p.tb, s, 10) == 0, "a tombstone was removed while its key may still be claimed")
	clock.Add(time.Microsecond)
	p.check(ahead.CheckWindow(clock.Now()) != nil, "a key is accepted at the end of its window")
	p.check(sweep(p.tb, s, 10) == 0, "a tombstone was removed at the end of its window, not behind it")
	clock.Add(time.Microsecond)
	p.check(sweep(p.tb, s, 10) == 1, "a tombstone stays beyond its window")
}

func TestSQLiteASweepTakesEachRecordAtItsTimeAndNoOther(t *testing.T) {
	breaks(t, swept, []fault{
		{"insert", "?9, ?10)", "?9, 0)"},
		{"due", "state = 2 AND ", ""},
		{"due", "changed <= ?1 AND ", ""},
		{"due", "changed <= ?1", "changed < ?1"},
		{"bury", "state = 5, ", ""},
		{"bury", "status = 0, ", ""},
		{"bury", "header = NULL, ", ""},
		{"bury", "body = NULL, ", ""},
		{"bury", ", not_replayable = 0", ""},
		{"bury", "rowid IN (SELECT value FROM json_each(?1))", "state = 2"},
		{"bury", "rowid IN (SELECT value FROM json_each(?1))", "rowid = (SELECT value FROM json_each(?1))"},
		{"due", "SELECT 1 FROM fifty_steps s WHERE s.scope = k.scope", "SELECT 1 FROM fifty_steps s WHERE 0"},
		{"due", "EXISTS (SELECT 1 FROM fifty_steps s WHERE s.scope = k.scope AND s.key = k.key)", "0"},
		{"bury", "state = 5, ", "state = 5, changed = changed + 1, "},
		{"unstep", "scope = ?1 AND ", ""},
		{"unstep", " AND key = ?2", ""},
		{"unstep", "scope = ?1", "scope = 'none'"},
		{"forget", "state = ?1 AND ", ""},
		{"forget", "changed <= ?2 AND ", ""},
		{"forget", "changed <= ?2", "changed < ?2"},
		{"forget", "made < ?3 AND ", ""},
		{"forget", "made < ?3", "made <= ?3"},
	})
}

func TestSQLiteASweepTakesTheOldestFirstAndNoMoreThanItMay(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		clock := newHostClock()
		s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
		for _, state := range []idempotency.State{idempotency.Free, idempotency.Done} {
			claims := map[string]idempotency.Claim{}
			for _, key := range []string{"a", "b", "c"} { // in the order of their rows
				claims[key] = win(p.tb, s, attempt("a1", key+state.String()))
			}
			for _, key := range []string{"b", "c", "a"} { // in the order of time
				clock.Add(time.Second)
				if err := complete(p.tb, s, claims[key], state, idempotency.Response{}); err != nil {
					p.tb.Fatal(err)
				}
			}
		}
		clock.Add(retention)
		p.check(sweep(p.tb, s, 0) == 0 && sweep(p.tb, s, -1) == 0, "a sweep of nothing swept")
		p.check(sweep(p.tb, s, 2) == 2, "not two records")
		p.check(states(p.tb, s) == "adone done 0, afree free 0, bdone done 0, cdone done 0", "after two: %s", states(p.tb, s))
		p.check(sweep(p.tb, s, 2) == 2, "not two records")
		p.check(states(p.tb, s) == "adone done 0, bdone tombstone 0, cdone done 0", "after four: %s", states(p.tb, s))
		p.check(sweep(p.tb, s, 10) == 2 && sweep(p.tb, s, 10) == 0, "not the rest")
	}, []fault{
		{"forget", "ORDER BY changed", "ORDER BY rowid"},
		{"forget", " LIMIT ?4", " LIMIT ?4 + 1"},
		{"due", "ORDER BY changed", "ORDER BY rowid"},
		{"due", " LIMIT ?2", " LIMIT ?2 + 1"},
	})
}

func TestSQLiteASweepOfMuchIsDoneInSmallTransactions(t *testing.T) {
	for name, c := range map[string]struct{ records, body, transactions int }{
		"many":  {450, 10, 4},     // 200, 200, 50, and one that finds nothing
		"large": {10, 1 << 20, 4}, // four of 1 MiB make 4 MiB
		"huge":  {2, 5 << 20, 3},  // each is too large, and done all the same
	} {
		clock := newHostClock()
		commits := 0
		s := open(t, newFile(t), sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, point string) {
			if point == "sweep.commit" {
				commits++
			}
		}))
		fill(t, s, c.records, c.body)
		clock.Add(retention)
		if n := sweep(t, s, 500); n != c.records || commits != c.transactions {
			t.Errorf("%s: %d records in %d transactions", name, n, commits)
		}
	}
}

func TestSQLiteAClaimGetsItsTurnBetweenTwoTransactionsOfASweep(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	var other *sqlite.Store
	claimed := make(chan error, 1)
	batches := 0
	s := open(t, path, sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, point string) {
		switch point {
		case "sweep.commit":
			if batches++; batches == 1 { // it has the writer
				go func() {
					_, err := other.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("a1", "mine")})
					claimed <- err
				}()
			}
		case "sweep.begin":
			if batches == 1 { // between two transactions nothing keeps the claim out
				if err := <-claimed; err != nil {
					t.Error(err)
				}
			}
		}
	}))
	other = open(t, path, sqlite.Config{Now: clock.Now})
	fill(t, s, 250, 10)
	clock.Add(retention)
	if n := sweep(t, s, 250); n != 250 || batches < 2 {
		t.Fatalf("%d records in %d transactions", n, batches)
	}
	find(t, s, "mine")
}

func TestSQLiteASweepThatIsCalledOffTellsWhatItDid(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clock, batches := newHostClock(), 0
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, point string) {
		if point == "sweep.begin" {
			if batches++; batches == 2 {
				cancel()
			}
		}
	}))
	fill(t, s, 250, 10)
	clock.Add(retention)
	if n, err := s.Keys().Sweep(ctx, retention, tombstone, 250); n != 200 || err == nil {
		t.Fatalf("got %d, %v", n, err)
	}
	if n := sweep(t, s, 250); n != 50 {
		t.Fatalf("%d were left", n)
	}
}

func TestSQLiteATimeWithoutEndIsNeverOver(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	end(t, s, attempt("a1", "k"), idempotency.Done)
	clock.Add(100 * 365 * 24 * time.Hour)
	n, err := s.Keys().Sweep(t.Context(), math.MaxInt64, math.MaxInt64, 10)
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

func TestSQLiteASweepGoesByTheIndex(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	for _, name := range []string{"due", "forget"} {
		rows, err := s.DB().QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+sqlite.Shipped().Text(name), 4, 0, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(detail + "\n")
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.String(), "INDEX fifty_keys_due (state=? AND changed<?)") || strings.Contains(plan.String(), "SCAN") {
			t.Errorf("%s: %s", name, plan.String())
		}
	}
}

func TestSQLiteTokensOutliveTheRowsThatASweepRemoves(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		clock := newHostClock()
		s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
		var paused idempotency.Claim
		for range 3 { // tokens 1 to 3
			paused = win(p.tb, s, attempt("a1", "k"))
			p.check(complete(p.tb, s, paused, idempotency.Free, idempotency.Response{}) == nil, "it was not freed")
			clock.Add(time.Second)
			again := attempt("a2", "k")
			paused = win(p.tb, s, again)
			p.check(complete(p.tb, s, paused, idempotency.Free, idempotency.Response{}) == nil, "it was not freed")
		}
		clock.Add(retention)
		p.check(sweep(p.tb, s, 10) == 1, "it was not swept")
		low := win(p.tb, s, attempt("a1", "low"))
		p.check(low.Token > paused.Token, "a new key has token %d, and %d is in somebody's hands", low.Token, paused.Token)
		// A second sweep, of a lower token, leaves the floor where it is.
		if _, err := s.DB().ExecContext(p.tb.Context(), `UPDATE fifty_keys SET token = 1 WHERE key = 'low'`); err != nil {
			p.tb.Fatal(err)
		}
		low.Token = 1
		p.check(complete(p.tb, s, low, idempotency.Free, idempotency.Response{}) == nil, "it was not freed")
		clock.Add(retention)
		p.check(sweep(p.tb, s, 10) == 1, "it was not swept")
		next := win(p.tb, s, attempt("a1", "k"))
		p.check(next.Token > paused.Token, "the key's next token is %d after %d", next.Token, paused.Token)
	}, []fault{
		{"raise", "max(value, ?1)", "?1"},
		{"raise", "= 'keys.token'", "= 'nothing'"},
	})
}

// A transaction that began before a sweep knows the floor and the rows of its own time. It must not claim.
func TestSQLiteATransactionFromBeforeASweepClaimsNothing(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	end(t, s, attempt("a1", "k"), idempotency.Free)
	plain, err := sql.Open("sqlite", path) // which begins deferred
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	tx, err := plain.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var floor int64
	if err := tx.QueryRowContext(t.Context(), `SELECT value FROM fifty_marks WHERE name = 'keys.token'`).Scan(&floor); err != nil {
		t.Fatal(err)
	}
	clock.Add(retention)
	if n := sweep(t, s, 10); n != 1 {
		t.Fatalf("%d were swept", n)
	}
	if _, err = s.Keys().ClaimTx(t.Context(), tx, attempt("a2", "k")); s.Keys().Classify(err) != txn.Retryable {
		t.Fatalf("got %v", err)
	}
}

func TestSQLiteAKeyThatWasForgottenStaysOutsideOfItsWindowWhenTheHostsClockIsSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		sql  sqlite.Statements
		runs bool
	}{
		"shipped":             {sqlite.Shipped(), false},
		"without the advance": {sqlite.Shipped().Edit(t, "advance", "= 'clock'", "= 'nothing'"), true},
	} {
		path, clock := newFile(t), newHostClock()
		s := open(t, path, sqlite.Config{Now: clock.Now}.WithStatements(c.sql))
		a := attempt("a1", "k")
		a.Made, a.Window = clock.Now(), tombstone
		end(t, s, a, idempotency.Done)
		clock.Add(tombstone + time.Second)
		for _, becomes := range []string{"a tombstone", "gone"} {
			if sweep(t, s, 10) != 1 {
				t.Fatalf("it did not become %s", becomes)
			}
		}
		gone(t, s, "k")
		clock.Add(-tombstone)
		restarted := open(t, path, sqlite.Config{Now: clock.Now}.WithStatements(c.sql))
		a.ID = "a2"
		if got := claimAnyway(t, restarted, a); got.Won != c.runs {
			t.Errorf("%s: won %v, %v", name, got.Won, got.Err)
		}
	}
}
