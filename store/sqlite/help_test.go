package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// hostClock is a host's clock that a test sets. It has no monotonic reading.
type hostClock struct {
	mu sync.Mutex
	at time.Time
}

func newHostClock() *hostClock {
	return &hostClock{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

func (c *hostClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Add moves the clock; a negative d sets it back.
func (c *hostClock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// open opens a migrated store on path.
func open(tb testing.TB, path string, cfg sqlite.Config) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), path, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := s.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

func newFile(tb testing.TB) string { return filepath.Join(tb.TempDir(), "fifty.db") }

// request is a valid request for a key.
func request(key string) idempotency.Request {
	return idempotency.Request{Scope: "acme", Key: key, Fingerprint: idempotency.FingerprintOf("POST", "/charges", key)}
}

func attempt(id, key string) idempotency.Attempt {
	return idempotency.Attempt{ID: id, Request: request(key), Owner: "here/1", Lease: 30 * time.Second}
}

func claim(tb testing.TB, s *sqlite.Store, a idempotency.Attempt) idempotency.Claimed {
	tb.Helper()
	answers, err := s.Keys().Claim(tb.Context(), []idempotency.Attempt{a})
	if err != nil {
		tb.Fatal(err)
	}
	if answers[0].Err != nil {
		tb.Fatal(answers[0].Err)
	}
	return answers[0]
}

// win is claim for an attempt that must win.
func win(tb testing.TB, s *sqlite.Store, a idempotency.Attempt) idempotency.Claim {
	tb.Helper()
	got := claim(tb, s, a)
	if !got.Won {
		tb.Fatalf("attempt %s lost to %+v", a.ID, got.Record)
	}
	return claimOf(got.Record)
}

func claimOf(r idempotency.Record) idempotency.Claim {
	return idempotency.Claim{Scope: r.Request.Scope, Key: r.Request.Key, Token: r.Token, Attempt: r.Attempt}
}

func find(tb testing.TB, s *sqlite.Store, key string) idempotency.Record {
	tb.Helper()
	rec, err := s.Keys().Find(tb.Context(), "acme", key)
	if err != nil {
		tb.Fatal(err)
	}
	return rec
}

func renew(tb testing.TB, s *sqlite.Store, c idempotency.Claim) error {
	tb.Helper()
	lost, err := s.Keys().Renew(tb.Context(), []idempotency.Claim{c}, 30*time.Second)
	if err != nil {
		tb.Fatal(err)
	}
	return lost[0]
}

func complete(tb testing.TB, s *sqlite.Store, c idempotency.Claim, state idempotency.State, r idempotency.Response) error {
	tb.Helper()
	lost, err := s.Keys().Complete(tb.Context(), []idempotency.Completion{{Claim: c, State: state, Response: r}})
	if err != nil {
		tb.Fatal(err)
	}
	return lost[0]
}

// steps is an attempt on work that is made of steps.
func steps(id, key string) idempotency.Attempt {
	a := attempt(id, key)
	a.Resume = true
	return a
}

// saved is a step that is done.
func saved(name, result string) idempotency.StepRecord {
	return idempotency.StepRecord{Name: name, Sent: true, Result: []byte(result)}
}

// save saves a step of a claim that must still be its owner's.
func save(tb testing.TB, s *sqlite.Store, c idempotency.Claim, step idempotency.StepRecord) {
	tb.Helper()
	if err := s.Keys().SaveStep(tb.Context(), c, step); err != nil {
		tb.Fatal(err)
	}
}

// superseded says that an error tells an owner that its key is another's.
func superseded(err error) bool {
	lost, ok := errors.AsType[*idempotency.LostError](err)
	return ok && lost.Superseded
}

// sameSteps compares steps and their order.
func sameSteps(a, b []idempotency.StepRecord) bool {
	return slices.EqualFunc(a, b, func(a, b idempotency.StepRecord) bool {
		return a.Name == b.Name && a.Sent == b.Sent && string(a.Result) == string(b.Result)
	})
}

// probe notes the first thing that is wrong.
type probe struct {
	tb      testing.TB
	problem string
}

func (p *probe) check(ok bool, format string, args ...any) {
	if !ok && p.problem == "" {
		p.problem = fmt.Sprintf(format, args...)
	}
}

// fault is a part of a statement, and what a test puts in its place.
type fault struct{ statement, old, replacement string }

// breaks runs a scenario with the SQL that is shipped, in which all must be well, and with each fault, which it
// must notice. A scenario is sequential and has a file of its own, so it sees the same each time.
func breaks(t *testing.T, scenario func(p *probe, sql sqlite.Statements), faults []fault) {
	t.Helper()
	right := &probe{tb: t}
	scenario(right, sqlite.Shipped())
	if right.problem != "" {
		t.Fatalf("with the SQL that is shipped: %s", right.problem)
	}
	for _, f := range faults {
		t.Run(f.statement+" with "+f.replacement+" for "+f.old, func(t *testing.T) {
			p := &probe{tb: t}
			scenario(p, sqlite.Shipped().Edit(t, f.statement, f.old, f.replacement))
			if p.problem == "" {
				t.Error("it went unnoticed")
			}
			t.Log(p.problem)
		})
	}
}

// business makes a table of the caller's own in the file.
func business(tb testing.TB, s *sqlite.Store) {
	tb.Helper()
	if _, err := s.DB().ExecContext(tb.Context(), `CREATE TABLE IF NOT EXISTS effects (name TEXT NOT NULL)`); err != nil {
		tb.Fatal(err)
	}
}

func effect(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (name) VALUES (?)`, name)
	return err
}

func effects(tb testing.TB, s *sqlite.Store, name string) int {
	tb.Helper()
	n, err := countEffects(tb.Context(), s, name)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func countEffects(ctx context.Context, s *sqlite.Store, name string) (n int, err error) {
	err = s.DB().QueryRowContext(ctx, `SELECT count(*) FROM effects WHERE name = ?`, name).Scan(&n)
	return n, err
}
