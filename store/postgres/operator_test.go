package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// free is the decision that the work of a key did not happen.
func free(key string) idempotency.Resolution {
	return idempotency.Resolution{Scope: "acme", Key: key, By: "ana", Note: "the bank has nothing"}
}

func answered(key, body string) idempotency.Resolution {
	r := free(key)
	answer := created(body)
	r.Response, r.Note = &answer, "seen at the bank"
	return r
}

func lateDone(won idempotency.Claimed) idempotency.Completion {
	return idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Done, Response: created("late")}
}

func TestPostgresOwnerThatComesBackDuringTheDecisionWinsIfItIsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := b.vanished(t, "k")
	unlock := b.lockRow(t, "k")
	done := later(func() ([]error, error) {
		return b.Keys().Complete(t.Context(), []idempotency.Completion{lateDone(late)})
	})
	b.untilBlocked(t, 1)
	decided := later(func() (struct{}, error) { return struct{}{}, b.Keys().Resolve(t.Context(), free("k")) })
	b.untilBlocked(t, 2)
	unlock()
	if all, err := done(); err != nil || all[0] != nil {
		t.Fatalf("%v, %v", all, err)
	}
	_, err := decided()
	if was, ok := errors.AsType[*idempotency.DecidedError](err); !ok || was.Record.State != idempotency.Done || string(was.Record.Response.Body) != "late" {
		t.Fatalf("decided: %v", err)
	}
	if log, err := b.Keys().Audit(t.Context(), "acme", "k"); err != nil || len(log) != 0 {
		t.Fatalf("%+v, %v", log, err)
	}
}

func TestPostgresOwnerThatComesBackAfterTheDecisionIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := b.vanished(t, "k")
	unlock := b.lockRow(t, "k")
	decided := later(func() (struct{}, error) { return struct{}{}, b.Keys().Resolve(t.Context(), answered("k", "by hand")) })
	b.untilBlocked(t, 1)
	done := later(func() ([]error, error) {
		return b.Keys().Complete(t.Context(), []idempotency.Completion{lateDone(late)})
	})
	b.untilBlocked(t, 2)
	unlock()
	if _, err := decided(); err != nil {
		t.Fatal(err)
	}
	all, err := done()
	if err != nil || !errors.Is(all[0], idempotency.ErrLost) {
		t.Fatalf("%v, %v", all, err)
	}
	dup := claim(t, b.Keys(), attempt("k"))
	if dup.Won || string(dup.Record.Response.Body) != "by hand" || dup.Record.Token != 2 || dup.Record.Attempt != "" {
		t.Fatalf("%+v", dup)
	}
}

// The step is saved after the decision was asked for: a statement that waits for the row does not see it.
func TestPostgresFreedKeyForgetsTheStepThatWasSavedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	steps := func(changes ...change) int {
		b := setup(t)
		late := b.vanished(t, "k")
		unlock := b.lockRow(t, "k")
		saved := later(func() (struct{}, error) {
			return struct{}{}, b.Keys().SaveStep(t.Context(), claimOf(late.Record), idempotency.StepRecord{Name: "charge", Sent: true})
		})
		b.untilBlocked(t, 1)
		s := b.Break(breaking(t, changes))
		decided := later(func() (struct{}, error) { return struct{}{}, s.Keys().Resolve(t.Context(), free("k")) })
		b.untilBlocked(t, 2)
		unlock()
		if _, err := saved(); err != nil {
			t.Fatal(err)
		}
		if _, err := decided(); err != nil {
			t.Fatal(err)
		}
		return len(claim(t, b.Keys(), attempt("k")).Record.Steps)
	}
	if n := steps(); n != 0 {
		t.Errorf("the next owner inherits %d steps", n)
	}
	if n := steps(change{"resolve.lock", "for update of k", ""}); n == 0 {
		t.Error("a decision that does not lock first goes unnoticed")
	}
}

func TestPostgresDecisionAndItsAuditAreOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.vanished(t, "k")
	b.exec(t, `alter table fifty.audit add check (note <> 'no')`)
	refused := answered("k", "by hand")
	refused.Note = "no"
	if err := b.Keys().Resolve(t.Context(), refused); err == nil {
		t.Fatal("decided without an audit")
	}
	if rec, err := b.Keys().Find(t.Context(), "acme", "k"); err != nil || !rec.Expired() || rec.Token != 1 {
		t.Fatalf("%+v, %v", rec, err)
	}
	wire, s := behindRelay(t, b)
	s.SetHook(once("commit", func() { wire.arm(loseReply) }))
	if err := s.Keys().Resolve(t.Context(), answered("k", "by hand")); !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("the lost reply is %v", err)
	}
	if err := s.Keys().Resolve(t.Context(), answered("k", "twice")); !errors.Is(err, idempotency.ErrDecided) {
		t.Fatalf("sent again: %v", err)
	}
	log, err := b.Keys().Audit(t.Context(), "acme", "k")
	want := idempotency.Decision{By: "ana", Note: "seen at the bank", From: idempotency.InFlight, To: idempotency.Done, Token: 2}
	if err != nil || len(log) != 1 || time.Since(log[0].At) > patience {
		t.Fatalf("%+v, %v", log, err)
	}
	if log[0].At = (time.Time{}); log[0] != want {
		t.Fatalf("%+v", log[0])
	}
}

func TestPostgresHostThatStopsAfterTheDecisionHasDecidedNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.vanished(t, "k")
	ctx, cancel := context.WithCancel(t.Context())
	s := postgres.New(newPool(t, b.url), postgres.Config{})
	s.SetHook(once("commit", cancel))
	if err := s.Keys().Resolve(ctx, free("k")); err == nil || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("%v", err)
	}
	if n := one[int](t, b.pool, `select count(*) from fifty.audit`); n != 0 {
		t.Fatalf("%d decisions", n)
	}
	if err := b.Keys().Resolve(t.Context(), free("k")); err != nil { // and nobody is in the way
		t.Fatal(err)
	}
}

func TestPostgresPagesOfAListAreInTheOrderOfBytes(t *testing.T) {
	t.Parallel()
	b := setupOn(t, caseless(t))
	scopes := []string{"acme", "Acme", "acme ", "a", "é", "e\u0301", "日本", "😀", "'", `"\`, "~", "acme/orders"}
	keys := []string{"k", "K", " k", "k ", "%", "_", `\`, "'", `"`, "~", "k-1", "k1", "10", "9"}
	var want [][2]string
	for i, scope := range scopes {
		for j := range 4 {
			key := keys[(3*i+5*j)%len(keys)]
			a := attempt(key)
			a.Request.Scope = scope
			claim(t, b.Keys(), a)
			want = append(want, [2]string{scope, key})
		}
	}
	slices.SortFunc(want, func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) })
	overSQL := postgres.NewDB(newDB(t, b.url), postgres.Config{}).Keys()
	for name, list := range map[string]func(context.Context, idempotency.Filter) ([]idempotency.Record, error){
		"pgx": b.Keys().List, "database/sql": overSQL.List,
	} {
		var got [][2]string
		f := idempotency.Filter{Limit: 5}
		for range len(want) {
			page, err := list(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range page {
				got = append(got, [2]string{rec.Request.Scope, rec.Request.Key})
			}
			if len(page) < f.Limit {
				break
			}
			f.AfterScope, f.AfterKey = got[len(got)-1][0], got[len(got)-1][1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q\nwant %q", name, got, want)
		}
	}
}

func TestPostgresErasedAnswersAreGoneAndTheirKeysStayUsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const records = 25
	for i := range records {
		won := claim(t, b.Keys(), attempt(fmt.Sprint("k", i)))
		saveStep(t, b.Keys(), won, "charge")
		if err := complete(t, b.Keys(), lateDone(won)); err != nil {
			t.Fatal(err)
		}
	}
	streamed := claim(t, b.Keys(), attempt("streamed")) // its answer was not kept, but its step was
	saveStep(t, b.Keys(), streamed, "charge")
	done := lateDone(streamed)
	done.Response = idempotency.Response{Status: 200, NotReplayable: true}
	if err := complete(t, b.Keys(), done); err != nil {
		t.Fatal(err)
	}
	saveStep(t, b.Keys(), b.vanished(t, "open"), "charge")
	other := attempt("k1")
	other.Request.Scope = "acme2"
	if err := complete(t, b.Keys(), lateDone(claim(t, b.Keys(), other))); err != nil {
		t.Fatal(err)
	}

	var counts []int
	for range 5 {
		n, err := b.Keys().Erase(t.Context(), "acme", 10)
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, n)
	}
	if !slices.Equal(counts, []int{10, 10, 6, 0, 0}) {
		t.Errorf("erased %v", counts)
	}
	if n := one[int](t, b.pool, `select count(*) from fifty.steps where key <> 'open'`); n != 0 {
		t.Errorf("%d steps are left", n)
	}
	keys := idempotency.New(b.Keys(), idempotency.Config{})
	_, err := keys.Do(t.Context(), request("k7"), func(context.Context) (idempotency.Response, error) {
		t.Error("it ran again")
		return idempotency.Response{}, nil
	})
	if !errors.Is(err, idempotency.ErrNotReplayable) {
		t.Errorf("%v", err)
	}
	if rec, err := b.Keys().Find(t.Context(), "acme", "k7"); err != nil || rec.Response.Status != 201 || rec.Response.Body != nil || rec.Response.Header != nil {
		t.Errorf("%+v, %v", rec, err)
	}
	if rec, err := b.Keys().Find(t.Context(), "acme2", "k1"); err != nil || string(rec.Response.Body) != "late" {
		t.Errorf("another scope: %+v, %v", rec, err)
	}
	if rec, err := b.Keys().Find(t.Context(), "acme", "open"); err != nil || stepNames(rec) != "charge" {
		t.Errorf("an open key: %+v, %v", rec, err)
	}
}

// An answer that came behind the mark of the last batch is found all the same.
func TestPostgresErasureFindsWhatLiesBeforeItsMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"m", "a"} {
		if err := complete(t, b.Keys(), lateDone(claim(t, b.Keys(), attempt(key)))); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Keys().Erase(t.Context(), "acme", 1); n != 1 || err != nil {
			t.Fatalf("%q: erased %d, %v", key, n, err)
		}
	}
}
