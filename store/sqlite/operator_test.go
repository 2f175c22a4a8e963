package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

func decision(key string, token int64, r *idempotency.Response) idempotency.Resolution {
	return idempotency.Resolution{Scope: "acme", Key: key, Token: token, Response: r, By: "ann", Note: "asked the bank"}
}

func decided(err error) bool {
	var d *idempotency.DecidedError
	return errors.As(err, &d) && errors.Is(err, idempotency.ErrDecided)
}

func keysOf(all []idempotency.Record) (keys []string) {
	for _, rec := range all {
		keys = append(keys, rec.Request.Scope+"/"+rec.Request.Key)
	}
	return keys
}

func TestSQLiteAListIsReadPageByPageInTheOrderOfBytes(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	want := []string{"A/z", "a/0", "a/0B", "a/0a", "a/0aa", "a/0b", "a b/a", "aa/0a", "b/a", "é/1", "é/é"}
	for _, i := range []int{5, 0, 9, 3, 1, 7, 10, 2, 8, 4, 6} {
		a := attempt("a1", "")
		a.Request.Scope, a.Request.Key, _ = strings.Cut(want[i], "/")
		win(t, s, a)
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for f := (idempotency.Filter{Limit: limit}); ; {
			page, err := s.Keys().List(t.Context(), f)
			if err != nil || len(page) > limit {
				t.Fatal(len(page), err)
			}
			if len(page) == 0 {
				break
			}
			got = append(got, keysOf(page)...)
			last := page[len(page)-1].Request
			f.AfterScope, f.AfterKey = last.Scope, last.Key
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages of %d: %q", limit, got)
		}
	}
	for _, c := range []struct {
		f    idempotency.Filter
		want int
	}{
		{idempotency.Filter{Scope: "a"}, 5},
		{idempotency.Filter{Scope: "a", AfterScope: "A", AfterKey: "z"}, 5},
		{idempotency.Filter{Scope: "a", AfterScope: "a", AfterKey: "0a"}, 2},
		{idempotency.Filter{Scope: "a", AfterScope: "b", AfterKey: "0"}, 0},
		{idempotency.Filter{Scope: "none"}, 0},
		{idempotency.Filter{AfterScope: "b"}, 3},
	} {
		c.f.Limit = 100
		if got, err := s.Keys().List(t.Context(), c.f); err != nil || len(got) != c.want {
			t.Errorf("%+v: %q, %v", c.f, keysOf(got), err)
		}
	}
}

// listing lists records of every state and age.
func listing(p *probe, sql sqlite.Statements) {
	clock := newHostClock()
	s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
	win(p.tb, s, attempt("a1", "vanished"))
	end(p.tb, s, attempt("a1", "unknown"), idempotency.Unknown)
	end(p.tb, s, attempt("a1", "done"), idempotency.Done)
	end(p.tb, s, attempt("a1", "free"), idempotency.Free)
	other := attempt("a1", "unknown")
	other.Request.Scope = "zeta"
	end(p.tb, s, other, idempotency.Unknown)
	clock.Add(30 * time.Second)
	win(p.tb, s, attempt("a1", "held"))
	end(p.tb, s, attempt("a1", "young"), idempotency.Unknown)
	for name, c := range map[string]struct {
		f    idempotency.Filter
		want string
	}{
		"all":        {idempotency.Filter{}, "acme/done acme/free acme/held acme/unknown acme/vanished acme/young zeta/unknown"},
		"unresolved": {idempotency.Filter{Unresolved: true}, "acme/unknown acme/vanished acme/young zeta/unknown"},
		"old":        {idempotency.Filter{OlderThan: 30 * time.Second}, "acme/done acme/free acme/unknown acme/vanished zeta/unknown"},
		"older":      {idempotency.Filter{OlderThan: 30*time.Second + 1}, ""},
		"page":       {idempotency.Filter{AfterScope: "acme", AfterKey: "held", Limit: 2}, "acme/unknown acme/vanished"},
		"second":     {idempotency.Filter{AfterScope: "acme", AfterKey: "young"}, "zeta/unknown"},
		"scope":      {idempotency.Filter{Scope: "acme"}, "acme/done acme/free acme/held acme/unknown acme/vanished acme/young"},
		"its open":   {idempotency.Filter{Scope: "acme", Unresolved: true}, "acme/unknown acme/vanished acme/young"},
		"its old":    {idempotency.Filter{Scope: "acme", Unresolved: true, OlderThan: time.Second}, "acme/unknown acme/vanished"},
		"in scope":   {idempotency.Filter{Scope: "acme", AfterScope: "acme", AfterKey: "held", Limit: 2}, "acme/unknown acme/vanished"},
	} {
		if c.f.Limit == 0 {
			c.f.Limit = 100
		}
		all, err := s.Keys().List(p.tb.Context(), c.f)
		p.check(err == nil && strings.Join(keysOf(all), " ") == c.want, "%s: %q, %v", name, keysOf(all), err)
		for _, rec := range all {
			same, err := s.Keys().Find(p.tb.Context(), rec.Request.Scope, rec.Request.Key)
			p.check(err == nil && fmt.Sprint(same) == fmt.Sprint(rec), "%s: %+v is listed as %+v", name, same, rec)
		}
	}
	none, err := s.Keys().List(p.tb.Context(), idempotency.Filter{})
	p.check(err == nil && len(none) == 0, "a page of nothing has %d", len(none))
}

func TestSQLiteAListHoldsWhatTheFilterSelects(t *testing.T) {
	var faults []fault
	for _, name := range []string{"list", "listScope"} {
		faults = append(faults, []fault{
			{name, "?3 = 0 OR ", ""},
			{name, "state = 3 OR ", ""},
			{name, "state = 1 AND ", ""},
			{name, " AND expires <= max(?4, (SELECT value FROM fifty_marks WHERE name = 'clock'))", ""},
			{name, "- created, 0) >= ?5", "- created, 0) >= 0"},
			{name, "ORDER BY scope, key", "ORDER BY scope DESC, key DESC"},
			{name, "LIMIT ?6", "LIMIT ?6 + 1"},
		}...)
	}
	breaks(t, listing, append(faults, []fault{
		{"list", "(scope, key) > (?1, ?2)", "(scope, key) >= (?1, ?2)"},
		{"list", "(scope, key) > (?1, ?2)", "key > ?2"},
		{"list", "(scope, key) > (?1, ?2)", "scope >= ?1 AND key > ?2"},
		{"listScope", "scope = ?1 AND ", ""},
		{"listScope", " AND key > ?2", ""},
		{"listScope", "key > ?2", "key >= ?2"},
	}...))
}

func TestSQLiteWhatAListShowedExpiredStaysSoWhenTheHostsClockIsSetBack(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	c := win(t, s, attempt("a1", "k"))
	clock.Add(time.Minute)
	all, err := s.Keys().List(t.Context(), idempotency.Filter{Unresolved: true, Limit: 10})
	if err != nil || len(all) != 1 || !all[0].Expired() {
		t.Fatal(all, err)
	}
	clock.Add(-time.Hour)
	other := open(t, path, sqlite.Config{Now: clock.Now})
	if err := renew(t, other, c); err == nil {
		t.Error("its owner renewed it")
	}
	if err := other.Keys().Resolve(t.Context(), decision("k", c.Token, nil)); err != nil {
		t.Errorf("what was shown as unresolved can't be resolved: %v", err)
	}
}

func TestSQLiteAnOwnerThatRenewsBehindTheListsBackIsNotListedAsVanished(t *testing.T) {
	path, right, slow := newFile(t), newHostClock(), newHostClock()
	other := open(t, path, sqlite.Config{Now: slow.Now})
	var c idempotency.Claim
	s := open(t, path, sqlite.Config{Now: right.Now}.WithHook(func(_ context.Context, point string) {
		if point == "list.begin" { // it has seen the claim expired, and nobody knows yet
			if err := renew(t, other, c); err != nil {
				t.Error(err)
			}
		}
	}))
	c = win(t, other, attempt("a1", "k"))
	slow.Add(20 * time.Second)
	right.Add(31 * time.Second)
	all, err := s.Keys().List(t.Context(), idempotency.Filter{Limit: 10})
	if err != nil || len(all) != 1 || all[0].Expired() {
		t.Fatalf("%+v, %v", all, err)
	}
}

// deciding resolves records of every kind.
func deciding(p *probe, sql sqlite.Statements) {
	clock := newHostClock()
	s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
	keys, ctx := s.Keys(), p.tb.Context()
	owners := map[string]idempotency.Claim{}
	for _, key := range []string{"vanished", "vanished too", "resumable"} {
		a := attempt("a1", key)
		a.Resume = key == "resumable"
		owners[key] = win(p.tb, s, a)
		save(p.tb, s, owners[key], saved("charge", "1"))
	}
	clock.Add(29 * time.Second)
	owners["held"] = win(p.tb, s, attempt("a1", "held"))
	namesake := attempt("a1", "unknown")
	namesake.Request.Scope = "zeta"
	end(p.tb, s, namesake, idempotency.Unknown)
	for _, key := range []string{"unknown", "unknown too"} {
		owners[key] = end(p.tb, s, attempt("a1", key), idempotency.Unknown)
	}
	end(p.tb, s, attempt("a1", "done"), idempotency.Done)
	end(p.tb, s, attempt("a1", "free"), idempotency.Free)
	clock.Add(time.Second) // some have vanished just now

	for _, key := range []string{"held", "done", "free"} {
		p.check(decided(keys.Resolve(ctx, decision(key, 0, nil))), "%s was resolved", key)
	}
	p.check(decided(keys.Resolve(ctx, decision("unknown", 2, nil))), "it was resolved under another token")
	p.check(decided(keys.Resolve(ctx, decision("vanished", 2, nil))), "it was resolved under another token")
	p.check(errors.Is(keys.Resolve(ctx, decision("none", 0, nil)), idempotency.ErrNotFound), "a key without a record")
	answer := idempotency.Response{Status: 202, Header: map[string][]string{"C": {"d"}}, Body: []byte("by hand"), NotReplayable: true}
	for _, c := range []struct {
		key    string
		token  int64
		answer *idempotency.Response
	}{{"unknown", 1, &answer}, {"vanished", 0, &answer}, {"vanished too", 1, nil}, {"resumable", 0, nil}} {
		before, err := keys.Find(ctx, "acme", c.key)
		p.check(err == nil, "%v", err)
		err = keys.Resolve(ctx, decision(c.key, c.token, c.answer))
		p.check(err == nil, "%s: %v", c.key, err)
		rec, err := keys.Find(ctx, "acme", c.key)
		p.check(err == nil && rec.Token == 2 && rec.Attempt == "", "%s: token %d, attempt %q, %v", c.key, rec.Token, rec.Attempt, err)
		want, state, steps := idempotency.Response{}, idempotency.Free, 0
		if c.answer != nil {
			want, state, steps = answer, idempotency.Done, 1
		}
		p.check(rec.State == state && fmt.Sprint(rec.Response) == fmt.Sprint(want), "%s: %+v", c.key, rec)
		p.check(len(rec.Steps) == steps, "%s: %d steps", c.key, len(rec.Steps))
		audit, err := keys.Audit(ctx, "acme", c.key)
		entry := idempotency.Decision{At: clock.Now(), By: "ann", Note: "asked the bank", From: before.State, To: state, Token: 2}
		p.check(err == nil && len(audit) == 1 && audit[0] == entry, "%s: audit %+v, %v", c.key, audit, err)
		// The owner comes back late, and once more the operator.
		p.check(superseded(complete(p.tb, s, owners[c.key], idempotency.Done, idempotency.Response{Status: 500})), "%s: the late owner completed", c.key)
		p.check(superseded(keys.SaveStep(ctx, owners[c.key], saved("late", "1"))), "%s: the late owner saved a step", c.key)
		p.check(decided(keys.Resolve(ctx, decision(c.key, 0, nil))), "%s was resolved twice", c.key)
	}
	for _, rec := range []idempotency.Record{find(p.tb, s, "unknown too"), find(p.tb, s, "held")} {
		p.check(rec.Token == 1 && rec.Attempt == "a1", "another was resolved: %+v", rec)
		audit, err := keys.Audit(ctx, "acme", rec.Request.Key)
		p.check(err == nil && len(audit) == 0, "a decision that never was: %+v, %v", audit, err)
	}
	theirs, err := keys.Find(ctx, "zeta", "unknown")
	audit, auditErr := keys.Audit(ctx, "zeta", "unknown")
	p.check(err == nil && theirs.Token == 1, "a key of another scope was resolved: %+v, %v", theirs, err)
	p.check(auditErr == nil && len(audit) == 0, "and has a decision: %+v, %v", audit, auditErr)
	// Until its sweep a decision counts from now.
	clock.Add(retention - time.Second)
	p.check(sweep(p.tb, s, 100) == 2, "not what ended a second before the decisions")
	clock.Add(time.Second)
	p.check(sweep(p.tb, s, 100) == 4, "not what was decided")
}

func TestSQLiteAnOperatorDecidesWhatIsUnresolvedAndNothingElse(t *testing.T) {
	breaks(t, deciding, []fault{
		{"decide", "scope = ?1 AND ", ""},
		{"decide", "key = ?2 AND ", ""},
		{"decide", "?3 = 0 OR ", ""},
		{"decide", " AND (?3 = 0 OR token = ?3)", ""},
		{"decide", "state = 3 OR ", ""},
		{"decide", "state = 1 AND ", ""},
		{"decide", " AND expires <= ?4", ""},
		{"decide", "expires <= ?4", "expires < ?4"},
		{"decide", "token = token + 1, ", ""},
		{"decide", "attempt = '', ", ""},
		{"decide", "status = ?6, ", ""},
		{"decide", "header = ?7, ", ""},
		{"decide", "body = ?8, ", ""},
		{"decide", "not_replayable = ?9", "not_replayable = 0"},
		{"decide", "changed = ?4", "changed = changed"},
		{"audit", "?1, ?2, ?3", "'zeta', ?2, ?3"},
		{"audited", "scope = ?1 AND ", ""},
		{"audited", " AND key = ?2", ""},
	})
}

func TestSQLiteAKeyThatWasDecidedMoreThanOnceHasItsDecisionsInOrder(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	for i, by := range []string{"zoe", "ann", "bob"} {
		end(t, s, attempt(fmt.Sprint("a", i), "k"), idempotency.Unknown)
		r := decision("k", 0, nil)
		r.By = by
		if err := s.Keys().Resolve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		clock.Add(time.Second)
	}
	clock.Add(retention)
	sweep(t, s, 10)
	gone(t, s, "k")
	audit, err := s.Keys().Audit(t.Context(), "acme", "k") // it outlives the key
	if err != nil || len(audit) != 3 {
		t.Fatal(audit, err)
	}
	for i, by := range []string{"zoe", "ann", "bob"} {
		if audit[i].By != by || audit[i].Token != int64(2*i+2) {
			t.Errorf("decision %d is %+v", i, audit[i])
		}
	}
}

func TestSQLiteOfADecisionAndALateOwnerOneComesFirst(t *testing.T) {
	for _, point := range []string{"resolve.begin", "complete.begin"} {
		path := newFile(t)
		other := open(t, path, sqlite.Config{})
		var c idempotency.Claim
		var lateErr, resolveErr error
		ran := false
		s := open(t, path, sqlite.Config{}.WithHook(func(_ context.Context, at string) {
			if at != point || ran || c.Key == "" {
				return
			}
			ran = true
			if point == "resolve.begin" {
				lateErr = complete(t, other, c, idempotency.Done, idempotency.Response{Status: 201})
			} else {
				resolveErr = other.Keys().Resolve(t.Context(), decision("k", 0, nil))
			}
		}))
		c = end(t, other, attempt("a1", "k"), idempotency.Unknown)
		if point == "resolve.begin" {
			resolveErr = s.Keys().Resolve(t.Context(), decision("k", 0, nil))
			if lateErr != nil || !decided(resolveErr) || find(t, s, "k").Response.Status != 201 {
				t.Errorf("the owner came first: %v, %v", lateErr, resolveErr)
			}
			continue
		}
		lateErr = complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201})
		if resolveErr != nil || !superseded(lateErr) || find(t, s, "k").State != idempotency.Free {
			t.Errorf("the operator came first: %v, %v", lateErr, resolveErr)
		}
	}
}

func TestSQLiteADecisionIsNotMadeWithoutItsAudit(t *testing.T) {
	path := newFile(t)
	first := open(t, path, sqlite.Config{})
	end(t, first, attempt("a1", "k"), idempotency.Unknown)
	s := full(t, path)
	crowded(t, s, `BEFORE INSERT ON fifty_audit`)
	err := s.Keys().Resolve(t.Context(), decision("k", 0, nil))
	if err == nil || !strings.Contains(err.Error(), "no space is left") {
		t.Fatalf("got %v", err)
	}
	if rec := find(t, first, "k"); rec.State != idempotency.Unknown || rec.Token != 1 || len(rec.Steps) != 1 {
		t.Fatalf("it is half decided: %+v", rec)
	}
	uncrowded(t, s)
	if err := s.Keys().Resolve(t.Context(), decision("k", 0, nil)); err != nil {
		t.Fatal(err)
	}
	if audit, err := s.Keys().Audit(t.Context(), "acme", "k"); err != nil || len(audit) != 1 {
		t.Fatal(audit, err)
	}
}
