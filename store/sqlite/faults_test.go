package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// Each fault breaks one clause of the SQL that is shipped, and one case of the suite must notice it.
func TestSQLiteEachBrokenClauseIsNoticed(t *testing.T) {
	for _, f := range []struct {
		name, statement, old, replacement string
		noticed                           string
	}{
		{
			"the last insert wins", "insert", "DO NOTHING", "DO UPDATE SET token = token + 1, attempt = excluded.attempt",
			"a duplicate sees the claim in flight and changes nothing",
		},
		{"the insert has another state", "insert", "?3, 1, ?4", "?3, 3, ?4", "a first claim wins and is recorded as it was made"},
		{"a claim looks at any key", "look", " AND key = ?2", "", "another fingerprint gets the record and changes nothing"},
		{"find looks in any scope", "find", "scope = ?1 AND ", "", "a claim of one scope has no say in another"},
		{"find looks at any key", "find", " AND key = ?2", "", "a first claim wins and is recorded as it was made"},
		{"a takeover keeps the token", "take", "token = token + 1", "token = token", "a free key is claimed again by any fingerprint, with a higher token"},
		{"a takeover keeps the fingerprint", "take", "fingerprint = ?3, ", "", "a free key is claimed again by any fingerprint, with a higher token"},
		{"a takeover keeps the attempt", "take", "attempt = ?4, ", "", "a free key is claimed again by any fingerprint, with a higher token"},
		{"a takeover keeps the expiry", "take", "expires = ?7,", "", "an expired claim on resumable work is taken over once, with a higher token"},
		{"renewal in any scope", "renew", "scope = ?1 AND ", "", "a claim of one scope has no say in another"},
		{"renewal of any token", "renew", "token = ?3 AND ", "", "a claim with another token is not the owner's"},
		{"renewal by any attempt", "renew", "attempt = ?4 AND ", "", "a claim of another attempt is not the owner's, even with its token"},
		{"renewal of what has ended", "renew", "state = 1 AND ", "", "a renewal of an ended claim is refused"},
		{"renewal of what has expired", "renew", " AND expires > ?6", "", "a renewal never revives a claim that has expired"},
		{"renewal at the expiry", "renew", "expires > ?6", "expires >= ?6", "a lease ends at the instant that the store's clock says"},
		{"completion in any scope", "complete", "scope = ?1 AND ", "", "a claim of one scope has no say in another"},
		{"completion of any token", "complete", "token = ?3 AND ", "", "a claim with another token is not the owner's"},
		{"completion by any attempt", "complete", "attempt = ?4 AND ", "", "a claim of another attempt is not the owner's, even with its token"},
		{"completion of what is decided", "complete", " AND state IN (1, 3)", "", "an answer that was given is never taken back"},
		{"no completion after unknown", "complete", "IN (1, 3)", "IN (1)", "a result that comes after unknown counts"},
		{"completion only in the lease", "complete", "IN (1, 3)", "IN (1, 3) AND expires > ?10", "a late result counts while nobody took over"},
	} {
		t.Run(f.name, func(t *testing.T) {
			stores, features := newSuite(t, sqlite.Shipped().Edit(t, f.statement, f.old, f.replacement))
			noticed(t, f.noticed, idempotencytest.Catch(t, stores.keys, features, f.noticed))
		})
	}
}

func TestSQLiteEachBrokenClauseOfATransactionIsNoticed(t *testing.T) {
	for _, f := range []struct {
		name, statement, old, replacement string
		noticed                           string
	}{
		{"undo does not undo", "undo", "ROLLBACK TO", "SAVEPOINT again_", "DoTx undoes a refused work and keeps the refusal"},
		{"undo goes back to the start", "undo", "ROLLBACK TO {name}", "ROLLBACK", "DoTx undoes a refused work and keeps the refusal"},
		{"no savepoint stands behind the claim", "savepoint", "SAVEPOINT {name}", "SAVEPOINT elsewhere", "DoTx undoes a refused work and keeps the refusal"},
		{"the answer is not recorded", "complete", "state = ?5", "state = 3", "InTx commits effect and answer together, and shows neither before"},
	} {
		t.Run(f.name, func(t *testing.T) {
			stores, features := newSuite(t, sqlite.Shipped().Edit(t, f.statement, f.old, f.replacement))
			noticed(t, f.noticed, idempotencytest.CatchTx(t, stores.txKeys, features, f.noticed))
		})
	}
}

func noticed(t *testing.T, want string, got []string) {
	t.Helper()
	if !slices.Equal(got, []string{want}) {
		t.Errorf("the case %q should have failed; these did: %q", want, got)
	}
}

// seesItsOwnScope checks that a duplicate is told of the record in its scope.
func seesItsOwnScope(t *testing.T, sql sqlite.Statements) bool {
	t.Helper()
	s := open(t, newFile(t), sqlite.Config{}.WithStatements(sql))
	mine, theirs := attempt("a1", "k"), attempt("b1", "k")
	theirs.Request.Scope = "zeta"
	win(t, s, mine)
	win(t, s, theirs)
	theirs.ID = "b2"
	return claim(t, s, theirs).Record.Attempt == "b1"
}

func TestSQLiteADuplicateIsToldOfTheRecordInItsOwnScope(t *testing.T) {
	if !seesItsOwnScope(t, sqlite.Shipped()) {
		t.Error("it was told of another caller's")
	}
	if seesItsOwnScope(t, sqlite.Shipped().Edit(t, "look", "scope = ?1 AND ", "")) {
		t.Error("a look that ignores the scope went unnoticed")
	}
}

// A takeover writes over the record that was judged, and over no other. In a transaction that holds the
// write lock nobody can change it in between but the transaction itself, and that is what happens here,
// just before the update.
func TestSQLiteATakeoverIsConditionalOnTheRecordThatWasJudged(t *testing.T) {
	const mine = ` WHERE scope = 'acme' AND key = 'k'`
	for _, c := range []struct{ clause, change string }{
		{" AND token = ?9", `UPDATE fifty_keys SET resume = 0, token = token + 1` + mine},
		{" AND attempt = ?10", `UPDATE fifty_keys SET resume = 0, attempt = 'another'` + mine},
		{" AND state = ?11", `UPDATE fifty_keys SET state = 2` + mine},
		{"AND (state <> 1 OR expires <= ?8)", `UPDATE fifty_keys SET expires = expires + 1000000000` + mine},
		{"scope = ?1 AND ", ``},
		{"key = ?2 AND ", ``},
	} {
		if problem := takenOver(t, sqlite.Shipped(), c.change); problem != "" {
			t.Errorf("changed by %q: %s", c.change, problem)
		}
		if takenOver(t, sqlite.Shipped().Edit(t, "take", c.clause, ""), c.change) == "" {
			t.Errorf("a takeover without %q went unnoticed", c.clause)
		}
	}
}

// takenOver lets an attempt take over an expired claim, while change happens just before its update, and
// says what is wrong with the outcome.
func takenOver(t *testing.T, statements sqlite.Statements, change string) string {
	t.Helper()
	clock := newHostClock()
	var tx *sql.Tx
	var changed bool
	cfg := sqlite.Config{Now: clock.Now}.WithStatements(statements)
	s := open(t, newFile(t), cfg.WithHook(func(ctx context.Context, point string) {
		if point != "claimtx.take" || changed {
			return
		}
		changed = true
		if _, err := tx.ExecContext(ctx, change); err != nil {
			t.Error(err)
		}
	}))
	// Three claims of one attempt and one token, which only scope and key tell apart.
	old := attempt("old", "k")
	old.Resume = true
	sibling, stranger := old, old
	sibling.Request.Key, stranger.Request.Scope = "sibling", "zeta"
	for _, a := range []idempotency.Attempt{old, sibling, stranger} {
		win(t, s, a)
	}
	clock.Add(time.Minute)
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	next := old
	next.ID = "next"
	got, err := s.Keys().ClaimTx(t.Context(), tx, next)
	if err != nil {
		return err.Error()
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if !changed {
		t.Fatal("nothing was taken over")
	}
	return inconsistent(t, s, got, change)
}

// inconsistent compares what the attempt was told with what is there.
func inconsistent(t *testing.T, s *sqlite.Store, got idempotency.Claimed, change string) string {
	t.Helper()
	rec := find(t, s, "k")
	switch {
	case got.Won && change != "":
		return "it won a record that it had not judged"
	case !got.Won && change == "":
		return "it did not win"
	case got.Record.Token != rec.Token || got.Record.Attempt != rec.Attempt:
		return fmt.Sprintf("it was told %+v, and %+v is there", got.Record, rec)
	case find(t, s, "sibling").Attempt != "old":
		return "another key was taken over too"
	}
	other, err := s.Keys().Find(t.Context(), "zeta", "k")
	if err != nil {
		t.Fatal(err)
	}
	if other.Attempt != "old" {
		return "a key of another scope was taken over too"
	}
	return ""
}
