package sqlite_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// previous is a process of version 0001 on a file of this version: its statements, as they were. The times
// are those that it would take from its own clock.
type previous struct {
	t   *testing.T
	db  *sql.DB
	now time.Time
}

func (p previous) exec(text string, args ...any) int64 {
	p.t.Helper()
	r, err := p.db.ExecContext(p.t.Context(), text, args...)
	if err != nil {
		p.t.Fatalf("the version before can't go on: %v", err)
	}
	n, err := r.RowsAffected()
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// claim inserts, as Claim and InTx do, with the token that follows the floor.
func (p previous) claim(attempt, key string) (token int64, won bool) {
	p.t.Helper()
	var clock int64
	err := p.db.QueryRowContext(p.t.Context(), `SELECT
		(SELECT value FROM fifty_marks WHERE name = 'clock'),
		(SELECT value FROM fifty_marks WHERE name = 'keys.token')`).Scan(&clock, &token)
	if err != nil {
		p.t.Fatal(err)
	}
	token++
	n := p.exec(`INSERT INTO fifty_keys
		(scope, key, fingerprint, state, token, attempt, owner, resume, expires, created, changed)
		VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
		ON CONFLICT (scope, key) DO NOTHING`,
		"acme", key, []byte(request(key).Fingerprint), token, attempt, "old/1", false,
		p.now.Add(30*time.Second).UnixMicro(), p.now.UnixMicro())
	return token, n == 1
}

// look reads a record, as every call does that did not win.
func (p previous) look(key string) (state idempotency.State, token int64, attempt string, body []byte) {
	p.t.Helper()
	var print, header []byte
	var owner string
	var expires int64
	var status int
	var resume, notReplayable bool
	err := p.db.QueryRowContext(p.t.Context(), `SELECT
		fingerprint, state, token, attempt, owner, resume, expires, status, header, body, not_replayable
		FROM fifty_keys WHERE scope = ?1 AND key = ?2`, "acme", key).
		Scan(&print, &state, &token, &attempt, &owner, &resume, &expires, &status, &header, &body, &notReplayable)
	if err != nil {
		p.t.Fatalf("the version before can't go on: %v", err)
	}
	return state, token, attempt, body
}

func (p previous) take(attempt, key string, token int64, from string, state idempotency.State) bool {
	p.t.Helper()
	return p.exec(`UPDATE fifty_keys SET
		fingerprint = ?3, state = 1, token = token + 1, attempt = ?4, owner = ?5, resume = ?6, expires = ?7,
		status = 0, header = NULL, body = NULL, not_replayable = 0, changed = ?8
		WHERE scope = ?1 AND key = ?2 AND token = ?9 AND attempt = ?10 AND state = ?11
		AND (state <> 1 OR expires <= ?8)`,
		"acme", key, []byte(request(key).Fingerprint), attempt, "old/1", false,
		p.now.Add(30*time.Second).UnixMicro(), p.now.UnixMicro(), token, from, state) == 1
}

func (p previous) renew(attempt, key string, token int64) bool {
	p.t.Helper()
	return p.exec(`UPDATE fifty_keys SET expires = ?5, changed = ?6
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state = 1 AND expires > ?6`,
		"acme", key, token, attempt, p.now.Add(30*time.Second).UnixMicro(), p.now.UnixMicro()) == 1
}

func (p previous) complete(attempt, key string, token int64, state idempotency.State, body string) bool {
	p.t.Helper()
	return p.exec(`UPDATE fifty_keys SET
		state = ?5, status = ?6, header = ?7, body = ?8, not_replayable = ?9, changed = ?10
		WHERE scope = ?1 AND key = ?2 AND token = ?3 AND attempt = ?4 AND state IN (1, 3)`,
		"acme", key, token, attempt, state, 201, nil, []byte(body), false, p.now.UnixMicro()) == 1
}

// newPrevious opens a file as the version before did, and lets this version migrate it and go on beside it.
func newPrevious(t *testing.T) (previous, *sqlite.Store, *hostClock) {
	t.Helper()
	path, clock := newFile(t), newHostClock()
	var text strings.Builder
	if err := sqlite.WriteMigrations(&text, sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	first, _, found := strings.Cut(text.String(), "\n-- Version 2:")
	if !found {
		t.Fatal("there is no version 2")
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), `PRAGMA journal_mode = WAL`); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), first+"\nCOMMIT;"); err != nil {
		t.Fatal(err)
	}
	old := previous{t, db, clock.Now()}
	if _, won := old.claim("o1", "before"); !won {
		t.Fatal("it did not win a new key")
	}
	return old, open(t, path, sqlite.Config{Now: clock.Now}), clock
}

func TestSQLiteAProcessOfThePreviousVersionGoesOnWorking(t *testing.T) {
	old, s, _ := newPrevious(t)
	// What it had claimed before the migration it ends after it, and this version replays it.
	if !old.renew("o1", "before", 1) || !old.complete("o1", "before", 1, idempotency.Done, "old") {
		t.Error("it can't end its claim")
	}
	if got := claim(t, s, attempt("a1", "before")); got.Won || string(got.Record.Response.Body) != "old" {
		t.Errorf("its answer reads as %+v", got.Record)
	}
	// And the other way round.
	c := win(t, s, attempt("a1", "new"))
	if _, won := old.claim("o1", "new"); won {
		t.Error("it won a key that is this version's")
	}
	if err := complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201, Body: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if state, _, _, body := old.look("new"); state != idempotency.Done || string(body) != "new" {
		t.Errorf("it reads %v, %q", state, body)
	}
	// It claims what was freed, and this version finds its own superseded.
	c = win(t, s, steps("a1", "freed"))
	if err := complete(t, s, c, idempotency.Free, idempotency.Response{}); err != nil {
		t.Fatal(err)
	}
	state, token, from, _ := old.look("freed")
	if !old.take("o2", "freed", token, from, state) {
		t.Error("it can't claim a free key")
	}
	if err := s.Keys().SaveStep(t.Context(), c, saved("late", "1")); !superseded(err) {
		t.Errorf("a step of the owner before got %v", err)
	}
}

func TestSQLiteWhatThePreviousVersionWroteIsSweptAndDecided(t *testing.T) {
	old, s, clock := newPrevious(t)
	if _, won := old.claim("o1", "unknown"); !won || !old.complete("o1", "unknown", 1, idempotency.Unknown, "") {
		t.Fatal("it can't leave a key unknown")
	}
	if _, won := old.claim("o1", "free"); !won || !old.complete("o1", "free", 1, idempotency.Free, "") {
		t.Fatal("it can't free a key")
	}
	if !old.complete("o1", "before", 1, idempotency.Done, "old") {
		t.Fatal("it can't complete")
	}
	if err := s.Keys().Resolve(t.Context(), decision("unknown", 1, &idempotency.Response{Status: 204})); err != nil {
		t.Fatal(err)
	}
	if old.complete("o1", "unknown", 1, idempotency.Done, "late") {
		t.Error("it completed a key that an operator has decided")
	}
	clock.Add(retention)
	old.now = clock.Now()
	if n := sweep(t, s, 10); n != 3 {
		t.Fatalf("%d were swept", n)
	}
	if state, _, _, _ := old.look("before"); state != idempotency.Tombstone {
		t.Errorf("it reads %v", state)
	}
	// The free key is gone, with token 1: it inserts above the floor.
	if token, won := old.claim("o2", "free"); !won || token != 2 {
		t.Errorf("it claimed with token %d, %v", token, won)
	}
	// So does this version, above the token that an operator left.
	clock.Add(tombstone)
	if n := sweep(t, s, 10); n != 2 {
		t.Fatalf("%d were swept", n)
	}
	if c := win(t, s, attempt("a1", "unknown")); c.Token != 3 {
		t.Errorf("token %d", c.Token)
	}
}

// A time-ordered key that the version before has claimed has no time in its row. Whoever takes it sets it.
func TestSQLiteTakingAFreeKeySetsItsTime(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		clock := newHostClock()
		s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
		end(p.tb, s, attempt("o1", "k"), idempotency.Free)
		a := attempt("a1", "k")
		a.Made, a.Window = clock.Now().Add(time.Minute), tombstone
		end(p.tb, s, a, idempotency.Done)
		clock.Add(tombstone + time.Second)
		p.check(sweep(p.tb, s, 10) == 1, "it was not buried")
		p.check(sweep(p.tb, s, 10) == 0, "its tombstone was removed while it may still be claimed")
	}, []fault{{"take", ", made = ?12", ""}})
}

func TestSQLiteOnAFileOfThePreviousVersionItSaysToMigrate(t *testing.T) {
	path := newFile(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var text strings.Builder
	if err := sqlite.WriteMigrations(&text, sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(text.String(), "\n-- Version 2:")
	if _, err := s.DB().ExecContext(t.Context(), first+"\nCOMMIT;"); err != nil {
		t.Fatal(err)
	}
	keys, ctx := s.Keys(), t.Context()
	_, claimErr := keys.Claim(ctx, []idempotency.Attempt{attempt("a1", "k")})
	_, findErr := keys.Find(ctx, "acme", "k")
	_, sweepErr := keys.Sweep(ctx, retention, tombstone, 10)
	_, listErr := keys.List(ctx, idempotency.Filter{Limit: 10})
	_, eraseErr := keys.Erase(ctx, "acme", 10)
	_, auditErr := keys.Audit(ctx, "acme", "k")
	for what, err := range map[string]error{
		"claim": claimErr, "find": findErr, "sweep": sweepErr, "list": listErr, "erase": eraseErr, "audit": auditErr,
		"step":    keys.SaveStep(ctx, idempotency.Claim{}, saved("charge", "1")),
		"resolve": keys.Resolve(ctx, decision("k", 0, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "call Migrate first") || errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	win(t, s, attempt("a1", "k"))
}

func TestSQLiteAFileThatCanNotBeWrittenIsSaidToBeSo(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	first := open(t, path, sqlite.Config{Now: clock.Now})
	answered(t, first, "done", idempotency.Done)
	held := win(t, first, steps("a1", "held"))
	end(t, first, attempt("a1", "unknown"), idempotency.Unknown)
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{Now: clock.Now}.WithPragma("query_only(1)"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys, ctx := s.Keys(), t.Context()
	_, sweepErr := keys.Sweep(ctx, 0, tombstone, 10)
	_, eraseErr := keys.Erase(ctx, "acme", 10)
	for what, err := range map[string]error{
		"sweep": sweepErr, "erase": eraseErr,
		"step":    keys.SaveStep(ctx, held, saved("charge", "1")),
		"resolve": keys.Resolve(ctx, decision("unknown", 0, nil)),
	} {
		if err == nil || !strings.Contains(err.Error(), "can't be written") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, err := keys.List(ctx, idempotency.Filter{Limit: 10}); err != nil || len(all) != 3 {
		t.Errorf("what needs no writing: %d records, %v", len(all), err)
	}
}
