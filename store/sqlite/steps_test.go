package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

func TestSQLiteStepsComeBackAsTheyWereInTheOrderOfTheirFirstSaving(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	c := win(t, s, steps("a1", "k"))
	save(t, s, c, idempotency.StepRecord{Name: "zebra", Sent: true})
	save(t, s, c, saved("ant", "{\"id\":\"ch_1\"}"))
	save(t, s, c, idempotency.StepRecord{Name: "open"})
	save(t, s, c, saved("binary \"name\"", "\x00\xff\xfe'\n"))
	save(t, s, c, saved("zebra", "7"))
	want := []idempotency.StepRecord{
		saved("zebra", "7"), saved("ant", "{\"id\":\"ch_1\"}"), {Name: "open"}, saved("binary \"name\"", "\x00\xff\xfe'\n"),
	}
	clock.Add(31 * time.Second)
	other := open(t, path, sqlite.Config{Now: clock.Now})
	loser := claim(t, other, attempt("a2", "k"))
	next := claim(t, other, steps("a3", "k"))
	again := claim(t, other, steps("a3", "k"))
	listed, err := other.Keys().List(t.Context(), idempotency.Filter{Limit: 10})
	if err != nil || len(listed) != 1 {
		t.Fatal(listed, err)
	}
	if loser.Won || !next.Won || !again.Won {
		t.Fatal("the wrong attempt won", loser.Won, next.Won, again.Won)
	}
	for what, rec := range map[string]idempotency.Record{
		"a duplicate": loser.Record, "the successor": next.Record, "the successor that asks again": again.Record,
		"find": find(t, other, "k"), "list": listed[0],
	} {
		if !sameSteps(rec.Steps, want) {
			t.Errorf("%s: %+v", what, rec.Steps)
		}
	}
}

func TestSQLiteAFreedKeyThatIsClaimedAgainKeepsItsStepsAndItsAge(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	c := win(t, s, steps("a1", "k"))
	save(t, s, c, saved("charge", "1"))
	if err := complete(t, s, c, idempotency.Free, idempotency.Response{}); err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Minute)
	got := claim(t, s, steps("a2", "k"))
	if !got.Won || got.Record.Age != time.Minute || !sameSteps(got.Record.Steps, []idempotency.StepRecord{saved("charge", "1")}) {
		t.Fatalf("got %+v", got)
	}
	if rec := find(t, s, "k"); rec.Age != time.Minute || len(rec.Steps) != 1 {
		t.Fatalf("it reads as %+v", rec)
	}
}

func TestSQLiteAClaimThatIsLetGoIsTakenOverAtOnce(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	s := open(t, path, sqlite.Config{Now: clock.Now})
	c := win(t, s, steps("a1", "k"))
	clock.Add(time.Second)
	for range 2 { // its reply may be lost
		if err := complete(t, s, c, idempotency.InFlight, idempotency.Response{}); err != nil {
			t.Fatal(err)
		}
	}
	// It stays let go, although the host's clock is set back and another process asks.
	clock.Add(-time.Hour)
	other := open(t, path, sqlite.Config{Now: clock.Now})
	if rec := find(t, other, "k"); rec.State != idempotency.InFlight || !rec.Expired() {
		t.Fatalf("it reads as %+v", rec)
	}
	if got := claim(t, other, attempt("a2", "k")); got.Won {
		t.Fatal("work without steps took it over")
	}
	if next := win(t, other, steps("a3", "k")); next.Token != c.Token+1 {
		t.Fatalf("token %d after %d", next.Token, c.Token)
	}
	if err := complete(t, s, c, idempotency.InFlight, idempotency.Response{}); !superseded(err) {
		t.Fatalf("the last owner lets go of its successor's claim: %v", err)
	}
}

func TestSQLiteLettingGoNeverExtendsAClaim(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	c := win(t, s, steps("a1", "k"))
	clock.Add(time.Minute)
	if err := complete(t, s, c, idempotency.InFlight, idempotency.Response{}); err != nil {
		t.Fatal(err)
	}
	if left := find(t, s, "k").ExpiresIn; left != -30*time.Second {
		t.Fatalf("%v are left of a claim that expired 30 s ago", left)
	}
}

// aStepAgainstATakeover lets another process try to take a key over at point, while its owner saves a step.
func aStepAgainstATakeover(t *testing.T, point string) (taken idempotency.Claimed, rec idempotency.Record, stepErr, takeErr error) {
	t.Helper()
	path, clock := newFile(t), newHostClock()
	other := open(t, path, sqlite.Config{Now: clock.Now, BusyTimeout: time.Millisecond})
	s := open(t, path, sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, at string) {
		if at != point {
			return
		}
		var all []idempotency.Claimed
		if all, takeErr = other.Keys().Claim(t.Context(), []idempotency.Attempt{steps("a2", "k")}); takeErr == nil {
			taken = all[0]
		}
	}))
	c := win(t, s, steps("a1", "k"))
	clock.Add(31 * time.Second)
	stepErr = s.Keys().SaveStep(t.Context(), c, saved("charge", "1"))
	return taken, find(t, s, "k"), stepErr, takeErr
}

func TestSQLiteOfAStepAndATakeoverOneComesFirst(t *testing.T) {
	taken, rec, stepErr, takeErr := aStepAgainstATakeover(t, "step.begin")
	if takeErr != nil || !taken.Won || !superseded(stepErr) || len(rec.Steps) != 0 {
		t.Errorf("behind the takeover the step got %v; %+v, %v, %+v", stepErr, taken, takeErr, rec.Steps)
	}
	for _, point := range []string{"step.step", "step.commit"} {
		taken, rec, stepErr, takeErr = aStepAgainstATakeover(t, point)
		if stepErr != nil || taken.Won || len(rec.Steps) != 1 || (sqlite.Txns{}).Classify(takeErr) != txn.Retryable {
			t.Errorf("at %s the step got %v; %+v, %v, %+v", point, stepErr, taken, takeErr, rec.Steps)
		}
	}
}

// stepped saves a step after the row of its key was changed, beside claims that only scope or key tell apart.
func stepped(p *probe, sql sqlite.Statements, change string) {
	s := open(p.tb, newFile(p.tb), sqlite.Config{}.WithStatements(sql))
	owner := win(p.tb, s, steps("a1", "k"))
	stranger := steps("a1", "k")
	stranger.Request.Scope = "zeta"
	win(p.tb, s, stranger)
	win(p.tb, s, steps("a1", "sibling"))
	if change != "" {
		if _, err := s.DB().ExecContext(p.tb.Context(), `UPDATE fifty_keys SET `+change+` WHERE scope = 'acme' AND key = 'k'`); err != nil {
			p.tb.Fatal(err)
		}
	}
	err := s.Keys().SaveStep(p.tb.Context(), owner, saved("charge", "1"))
	if change == "" {
		p.check(err == nil, "the owner's step got %v", err)
		p.check(len(find(p.tb, s, "k").Steps) == 1, "the owner's step is not there")
	} else {
		p.check(superseded(err), "after %q the step got %v", change, err)
		p.check(len(find(p.tb, s, "k").Steps) == 0, "after %q the step was saved", change)
	}
	theirs, err := s.Keys().Find(p.tb.Context(), "zeta", "k")
	p.check(err == nil && len(theirs.Steps) == 0, "a key of another scope has the step: %v", err)
	p.check(len(find(p.tb, s, "sibling").Steps) == 0, "another key has the step")
}

func TestSQLiteAStepIsConditionalOnItsOwner(t *testing.T) {
	for _, c := range []struct{ clause, change string }{
		{"scope = ?1 AND ", ""},
		{"key = ?2 AND ", ""},
		{"token = ?3 AND ", "token = token + 1"},
		{"attempt = ?4 AND ", "attempt = 'another'"},
		{" AND state = 1", "state = 2"},
		{" AND state = 1", "state = 3"},
		{" AND state = 1", "state = 4"},
	} {
		breaks(t, func(p *probe, sql sqlite.Statements) { stepped(p, sql, c.change) }, []fault{{"step", c.clause, ""}})
	}
}

func TestSQLiteAStepOfAnExpiredClaimCountsWhileNobodyTookOver(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	c := win(t, s, steps("a1", "k"))
	clock.Add(time.Hour)
	save(t, s, c, saved("charge", "1"))
	if rec := find(t, s, "k"); len(rec.Steps) != 1 || !rec.Expired() {
		t.Fatalf("it reads as %+v", rec)
	}
}

func TestSQLiteEachBrokenClauseOfTheStepsOfARecordIsNoticed(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		clock := newHostClock()
		s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
		save(p.tb, s, win(p.tb, s, steps("a1", "sibling")), saved("sibling's", "1"))
		stranger := steps("a1", "k")
		stranger.Request.Scope = "zeta"
		save(p.tb, s, win(p.tb, s, stranger), saved("stranger's", "1"))
		c := win(p.tb, s, steps("a1", "k"))
		for _, step := range []idempotency.StepRecord{
			{Name: "b"},
			saved("a", "1"),
			saved("b", "2"), saved("d", "1"),
			{Name: "d", Result: []byte("2")}, // again
			{Name: "c"},
			{Name: "c", Sent: true},
			{Name: "c"},
			{Name: "c", Sent: true},
			{Name: "a"}, // late
		} {
			err := s.Keys().SaveStep(p.tb.Context(), c, step)
			p.check(err == nil, "saving step %+v: %v", step, err)
		}
		want := []idempotency.StepRecord{saved("b", "2"), saved("a", "1"), {Name: "d", Result: []byte("2")}, {Name: "c", Sent: true}}
		p.check(sameSteps(find(p.tb, s, "k").Steps, want), "find: %+v", find(p.tb, s, "k").Steps)
		clock.Add(time.Minute)
		next := claim(p.tb, s, steps("a2", "k"))
		p.check(sameSteps(next.Record.Steps, want), "claim: %+v", next.Record.Steps)
		for _, f := range []idempotency.Filter{{Limit: 1}, {Scope: "acme", Limit: 1}} {
			all, err := s.Keys().List(p.tb.Context(), f)
			p.check(err == nil && len(all) == 1 && sameSteps(all[0].Steps, want), "list: %+v, %v", all, err)
		}
	}, []fault{
		{"step", "ELSE excluded.sent", "ELSE fifty_steps.sent"},
		{"step", "CASE WHEN excluded.result IS NULL AND fifty_steps.result IS NOT NULL THEN fifty_steps.sent ELSE excluded.sent END", "excluded.sent"},
		{"step", "excluded.result IS NULL AND ", ""},
		{"step", " AND fifty_steps.result IS NOT NULL", ""},
		{"step", "coalesce(excluded.result, fifty_steps.result)", "fifty_steps.result"},
		{"step", "coalesce(excluded.result, fifty_steps.result)", "coalesce(fifty_steps.result, excluded.result)"},
		{"step", "coalesce(excluded.result, fifty_steps.result)", "excluded.result"},
		{"find", "ORDER BY s.id", "ORDER BY s.name"},
		{"find", "s.scope = k.scope AND ", ""},
		{"find", " AND s.key = k.key", ""},
		{"look", "ORDER BY s.id", "ORDER BY s.name"},
		{"look", "s.scope = k.scope AND ", ""},
		{"look", " AND s.key = k.key", ""},
		{"list", "ORDER BY s.id", "ORDER BY s.name"},
		{"list", "s.scope = k.scope AND ", ""},
		{"list", " AND s.key = k.key", ""},
		{"listScope", "ORDER BY s.id", "ORDER BY s.name"},
		{"listScope", "s.scope = k.scope AND ", ""},
		{"listScope", " AND s.key = k.key", ""},
	})
}

func TestSQLiteEachBrokenClauseOfLettingGoIsNoticed(t *testing.T) {
	breaks(t, func(p *probe, sql sqlite.Statements) {
		clock := newHostClock()
		s := open(p.tb, newFile(p.tb), sqlite.Config{Now: clock.Now}.WithStatements(sql))
		held, expired := win(p.tb, s, steps("a1", "held")), win(p.tb, s, steps("a1", "expired"))
		done := win(p.tb, s, steps("a1", "done"))
		p.check(complete(p.tb, s, held, idempotency.InFlight, idempotency.Response{}) == nil, "it was not let go")
		p.check(find(p.tb, s, "held").Expired(), "what was let go has not expired")
		clock.Add(time.Minute)
		p.check(complete(p.tb, s, expired, idempotency.InFlight, idempotency.Response{}) == nil, "it was not let go")
		clock.Add(-time.Minute)
		p.check(find(p.tb, s, "expired").ExpiresIn < 0, "letting go extended a claim")
		p.check(complete(p.tb, s, done, idempotency.Done, idempotency.Response{}) == nil, "it was not completed")
		p.check(find(p.tb, s, "done").State == idempotency.Done, "what is done is in flight")
	}, []fault{
		{"complete", "WHEN 1 THEN", "WHEN 9 THEN"},
		{"complete", "min(expires, ?10)", "?10"},
	})
}
