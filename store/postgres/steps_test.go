package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// resumable is an attempt that may take over what another left, and that may be taken over.
func resumable(key string) idempotency.Attempt {
	a := attempt(key)
	a.Resume = true
	return a
}

// vanished is a claim of an owner that is not heard of any more: it has expired.
func (b bundle) vanished(tb testing.TB, key string) idempotency.Claimed {
	tb.Helper()
	won := claim(tb, b.Keys(), resumable(key))
	b.exec(tb, `update fifty.keys set expires = clock_timestamp() where key = $1`, key)
	return won
}

func TestPostgresStepsOutliveTheServerAndTheirOwner(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	b := setupOn(t, server.Database(t))
	won := b.vanished(t, "k")
	saveStep(t, b.Keys(), won, "reserve")
	saveStep(t, b.Keys(), won, "charge")
	server.Kill()
	server.Start()
	s := postgres.New(newPool(t, b.url), postgres.Config{})
	next := claim(t, s.Keys(), resumable("k"))
	if !next.Won || next.Record.Token != 2 || stepNames(next.Record) != "reserve charge" || string(next.Record.Steps[1].Result) != `"done"` {
		t.Fatalf("%+v", next)
	}
	saveStep(t, s.Keys(), next, "ship")
	saveStep(t, s.Keys(), next, "reserve")
	if rec, err := s.Keys().Find(t.Context(), "acme", "k"); err != nil || stepNames(rec) != "reserve charge ship" {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestPostgresStepsComeBackByteForByteOverBothDrivers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	overSQL := postgres.NewDB(newDB(t, b.url), postgres.Config{})
	long := make([]byte, 200<<10)
	for i := range long {
		long[i] = byte(i * 7)
	}
	want := []idempotency.StepRecord{
		{Name: `"quoted", [1]`, Sent: true, Result: long},
		{Name: "b sent"},
		{Name: "a", Sent: true, Result: []byte("{\"é\": \"\\u0000\x00\"}")},
	}
	won := claim(t, b.Keys(), resumable("k"))
	for i, step := range want {
		save := b.Keys().SaveStep
		if i == 1 {
			save = overSQL.Keys().SaveStep
		}
		if err := save(t.Context(), claimOf(won.Record), step); err != nil {
			t.Fatal(err)
		}
	}
	for _, find := range []func(context.Context, string, string) (idempotency.Record, error){b.Keys().Find, overSQL.Keys().Find} {
		rec, err := find(t.Context(), "acme", "k")
		if err != nil || len(rec.Steps) != len(want) {
			t.Fatalf("%+v, %v", rec.Steps, err)
		}
		for i, got := range rec.Steps {
			if got.Name != want[i].Name || got.Sent != want[i].Sent || string(got.Result) != string(want[i].Result) {
				t.Errorf("step %d is %q", i, got.Name)
			}
		}
	}
}

// The takeover's statement began before the step was saved, and waits for the row.
func TestPostgresTakeoverHasTheStepThatItsOwnerSavedAtTheLastMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := b.vanished(t, "k")
	unlock := b.lockRow(t, "k")
	saved := later(func() (struct{}, error) {
		return struct{}{}, b.Keys().SaveStep(t.Context(), claimOf(late.Record), idempotency.StepRecord{Name: "charge", Sent: true})
	})
	b.untilBlocked(t, 1)
	taken := later(func() ([]idempotency.Claimed, error) {
		return b.Keys().Claim(t.Context(), []idempotency.Attempt{resumable("k")})
	})
	b.untilBlocked(t, 2)
	unlock()
	if _, err := saved(); err != nil {
		t.Fatal(err)
	}
	all, err := taken()
	if err != nil || !all[0].Won || stepNames(all[0].Record) != "charge" {
		t.Fatalf("%+v, %v", all, err)
	}
}

func TestPostgresOwnerThatIsTakenOverWhileItSavesAStepSavesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	late := b.vanished(t, "k")
	unlock := b.lockRow(t, "k")
	taken := later(func() ([]idempotency.Claimed, error) {
		return b.Keys().Claim(t.Context(), []idempotency.Attempt{resumable("k")})
	})
	b.untilBlocked(t, 1)
	saved := later(func() (struct{}, error) {
		return struct{}{}, b.Keys().SaveStep(t.Context(), claimOf(late.Record), idempotency.StepRecord{Name: "charge", Sent: true})
	})
	b.untilBlocked(t, 2)
	unlock()
	all, err := taken()
	if err != nil || !all[0].Won || len(all[0].Record.Steps) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	_, err = saved()
	if lost, ok := errors.AsType[*idempotency.LostError](err); !ok || !lost.Superseded {
		t.Fatalf("saved: %v", err)
	}
	if n := one[int](t, b.pool, `select count(*) from fifty.steps`); n != 0 {
		t.Fatalf("%d steps", n)
	}
}

// A transaction at repeatable read can't see a step that was saved after its first statement, so it must not
// take the key over either.
func TestPostgresOlderTransactionDoesNotTakeOverWithoutTheStep(t *testing.T) {
	t.Parallel()
	takesOver := func(changes ...change) bool {
		b := setup(t)
		late := b.vanished(t, "k")
		s := b.Break(breaking(t, changes))
		err := s.Txns().Transact(t.Context(), txn.Options{Isolation: txn.RepeatableRead}, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `select count(*) from fifty.keys`); err != nil {
				return err
			}
			saveStep(t, s.Keys(), late, "charge")
			won, err := s.Keys().ClaimTx(ctx, tx, resumable("k"))
			if err == nil && stepNames(won.Record) == "charge" {
				t.Error("it sees the step: look for another way to hide it")
			}
			return err
		})
		if err != nil && s.Txns().Classify(err) != txn.Retryable {
			t.Fatal(err)
		}
		return err == nil
	}
	if takesOver() {
		t.Error("it took over without the step")
	}
	onlyLocked := []change{
		{"step.save", "update \"fifty\".keys\n    set token = token\n", "select scope, key from \"fifty\".keys\n"},
		{"step.save", "returning scope, key", "for update"},
	}
	if !takesOver(onlyLocked...) {
		t.Error("a step that only locks its key's row goes unnoticed")
	}
}

func TestPostgresStepWhoseReplyWasLostIsSavedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wire, s := behindRelay(t, b)
	won := claim(t, s.Keys(), resumable("k"))
	saveStep(t, s.Keys(), won, "warm")
	s.SetHook(once("step.save", func() { wire.arm(loseReply) }))
	step := idempotency.StepRecord{Name: "charge", Sent: true}
	if err := s.Keys().SaveStep(t.Context(), claimOf(won.Record), step); !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("the lost reply is %v", err)
	}
	if err := s.Keys().SaveStep(t.Context(), claimOf(won.Record), step); err != nil {
		t.Fatalf("sent again: %v", err)
	}
	if rec, err := b.Keys().Find(t.Context(), "acme", "k"); err != nil || stepNames(rec) != "warm charge" {
		t.Fatalf("%+v, %v", rec, err)
	}
}

// The takeover is there, but what it inherits could not be read.
func TestPostgresTakeoverWhoseStepsCouldNotBeReadIsUnknownAndWonByAskingAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	saveStep(t, b.Keys(), b.vanished(t, "k"), "charge")
	wire, s := behindRelay(t, b)
	claim(t, s.Keys(), attempt("warm")) // prepares the look
	a, looks := resumable("k"), 0
	s.SetHook(func(_ context.Context, point string) {
		if point == "claim.look" {
			if looks++; looks == 2 { // behind the takeover
				wire.arm(loseReply)
			}
		}
	})
	_, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{a})
	if !errors.Is(err, fifty.ErrUnknownOutcome) || s.Keys().Classify(err) != txn.Unknown {
		t.Fatalf("%v after %d looks", err, looks)
	}
	if again := claim(t, s.Keys(), a); !again.Won || again.Record.Token != 2 || stepNames(again.Record) != "charge" {
		t.Fatalf("asked again: %+v", again)
	}
}

func TestPostgresAgeIsCountedFromTheFirstClaim(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.vanished(t, "k")
	b.age(t, "k", "1 hour")
	taken := claim(t, b.Keys(), resumable("k"))
	if err := complete(t, b.Keys(), idempotency.Completion{Claim: claimOf(taken.Record), State: idempotency.Free}); err != nil {
		t.Fatal(err)
	}
	again := claim(t, b.Keys(), attempt("k"))
	for _, got := range []idempotency.Claimed{taken, again} {
		if !got.Won || got.Record.Age < time.Hour || got.Record.Age > time.Hour+patience {
			t.Errorf("%+v", got)
		}
	}
}
