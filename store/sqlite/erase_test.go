package sqlite_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// answered ends a claim with an answer that can be replayed.
func answered(tb testing.TB, s *sqlite.Store, key string, state idempotency.State) {
	tb.Helper()
	c := win(tb, s, steps("a1", key))
	save(tb, s, c, saved("charge", "secret"))
	answer := idempotency.Response{Status: 201, Header: map[string][]string{"A": {"secret"}}, Body: []byte("secret")}
	if err := complete(tb, s, c, state, answer); err != nil {
		tb.Fatal(err)
	}
}

// erased erases a scope, while change happens to one of its records between the look and the erasure.
func erased(p *probe, sql sqlite.Statements, change string) {
	var s *sqlite.Store
	s = open(p.tb, newFile(p.tb), sqlite.Config{}.WithStatements(sql).WithHook(func(ctx context.Context, point string) {
		if point == "erase.begin" && change != "" {
			_, err := s.DB().ExecContext(ctx, `UPDATE fifty_keys SET `+change+` WHERE scope = 'acme' AND key = 'done'`)
			if err != nil {
				p.tb.Error(err)
			}
		}
	}))
	for key, state := range map[string]idempotency.State{
		"done": idempotency.Done, "free": idempotency.Free, "unknown": idempotency.Unknown, "held": idempotency.InFlight,
	} {
		answered(p.tb, s, key, state)
	}
	plain := win(p.tb, s, attempt("a1", "plain"))
	p.check(complete(p.tb, s, plain, idempotency.Done, idempotency.Response{Status: 201}) == nil, "it was not completed")
	end(p.tb, s, attempt("a1", "large"), idempotency.Done) // its answer was not kept, but a step was
	namesake := attempt("a1", "done")
	namesake.Request.Scope = "zeta"
	end(p.tb, s, namesake, idempotency.Done)
	n, err := s.Keys().Erase(p.tb.Context(), "acme", 10)
	want := 3
	if change != "" {
		want = 2
	}
	p.check(err == nil && n == want, "%d were erased, %v", n, err)
	rec := find(p.tb, s, "done")
	if change == "" {
		p.check(rec.State == idempotency.Done && rec.Response.Status == 201 && rec.Response.NotReplayable, "it is %+v", rec)
		p.check(rec.Response.Header == nil && rec.Response.Body == nil && len(rec.Steps) == 0, "it keeps %+v", rec)
	} else {
		p.check(!rec.Response.NotReplayable && string(rec.Response.Body) == "secret" && len(rec.Steps) == 1, "after %q it is %+v", change, rec)
	}
	large := find(p.tb, s, "large")
	p.check(large.Response.NotReplayable && len(large.Steps) == 0, "the one that was too large keeps %+v", large)
	for _, key := range []string{"free", "unknown", "held"} {
		p.check(len(find(p.tb, s, key).Steps) == 1, "%s lost its steps", key)
		p.check(!find(p.tb, s, key).Response.NotReplayable, "%s was erased", key)
	}
	theirs, err := s.Keys().Find(p.tb.Context(), "zeta", "done")
	p.check(err == nil && theirs.Response.Body != nil && len(theirs.Steps) == 1, "another scope's is %+v, %v", theirs, err)
	if change == "" {
		n, err = s.Keys().Erase(p.tb.Context(), "acme", 10)
		p.check(err == nil && n == 0, "%d were erased again, %v", n, err)
	}
}

func TestSQLiteAnErasureTakesTheAnswersOfAScopeAndNothingElse(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) { erased(p, sql, "") }, []fault{
		{"erasable", "scope = ?1 AND ", "scope = 'zeta' AND "},
		{"erasable", "not_replayable = 0\n\tOR ", ""},
		{"erase", "scope = ?1 AND ", ""},
		{"erase", "not_replayable = 0\n\tOR ", ""},
		{"erase", "header = NULL, ", ""},
		{"erase", "body = NULL, ", ""},
		{"erase", ", not_replayable = 1", ""},
	})
	breaks(t, func(p *probe, sql sqlite.Statements) { erased(p, sql, "state = 1") }, []fault{
		{"erase", "state = 2 AND ", ""},
	})
}

func TestSQLiteAnErasureLeavesTheKeysBehindItsLimit(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		s := open(p.tb, newFile(p.tb), sqlite.Config{}.WithStatements(sql))
		for _, key := range []string{"a", "b", "c"} {
			answered(p.tb, s, key, idempotency.Done)
		}
		n, err := s.Keys().Erase(p.tb.Context(), "acme", 1)
		p.check(err == nil && n == 1, "%d were erased, %v", n, err)
		left := 0
		for _, key := range []string{"a", "b", "c"} {
			if rec := find(p.tb, s, key); !rec.Response.NotReplayable && len(rec.Steps) == 1 {
				left++
			}
		}
		p.check(left == 2, "%d have an answer still", left)
	}, []fault{
		{"erase", "key = ?2 AND ", ""},
		{"erasable", "LIMIT ?3", "LIMIT ?3 + 1"},
	})
}

func TestSQLiteTwoErasuresAtOnceCountNoRecordTwice(t *testing.T) {
	path := newFile(t)
	other := open(t, path, sqlite.Config{})
	theirs := 0
	s := open(t, path, sqlite.Config{}.WithHook(func(ctx context.Context, point string) {
		if point == "erase.begin" { // it has looked, and the other is quicker
			n, err := other.Keys().Erase(ctx, "acme", 1000)
			if err != nil {
				t.Error(err)
			}
			theirs += n
		}
	}))
	for i := range 3 {
		answered(t, s, fmt.Sprint("k", i), idempotency.Done)
	}
	n, err := s.Keys().Erase(t.Context(), "acme", 1000)
	if err != nil || n != 0 || theirs != 3 {
		t.Fatalf("%d and %d were erased, %v", n, theirs, err)
	}
}

func TestSQLiteAnErasureGoesOnToTheLimitInSmallTransactions(t *testing.T) {
	commits := 0
	s := open(t, newFile(t), sqlite.Config{}.WithHook(func(_ context.Context, point string) {
		if point == "erase.commit" {
			commits++
		}
	}))
	fill(t, s, 450, 10)
	if n, err := s.Keys().Erase(t.Context(), "acme", 410); n != 410 || err != nil || commits != 3 {
		t.Fatalf("%d in %d transactions, %v", n, commits, err)
	}
	if n, err := s.Keys().Erase(t.Context(), "acme", 210); n != 40 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := s.Keys().Erase(t.Context(), "acme", 0); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}
