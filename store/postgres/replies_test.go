package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// once calls fn at the first round trip whose name contains point.
func once(point string, fn func()) func(context.Context, string) {
	var first sync.Once
	return func(_ context.Context, at string) {
		if strings.Contains(at, point) {
			first.Do(fn)
		}
	}
}

// behindRelay is a second store on b's database whose messages can be lost. It has a connection on which
// all statements are prepared, so that the next message is the statement itself.
func behindRelay(t *testing.T, b bundle) (relay, *postgres.Store[pgx.Tx]) {
	t.Helper()
	r, through := newRelay(t, b.url)
	s := postgres.New(newPool(t, through), postgres.Config{})
	warm := claim(t, s.Keys(), attempt("warm"))
	done := idempotency.Completion{Claim: claimOf(warm.Record), State: idempotency.Done}
	if err := complete(t, s.Keys(), done); err != nil {
		t.Fatal(err)
	}
	_, err := s.Keys().InTx(t.Context(), attempt("warm as well"), func(context.Context, pgx.Tx) (idempotency.Response, error) {
		return idempotency.Response{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, s
}

func TestPostgresClaimWhoseReplyWasLostIsWonByAskingAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wire, s := behindRelay(t, b)
	s.SetHook(once("claim.insert", func() { wire.arm(loseReply) }))

	a := attempt("k")
	_, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{a})
	if !errors.Is(err, fifty.ErrUnknownOutcome) || s.Keys().Classify(err) != txn.Unknown {
		t.Fatalf("the lost reply is %v, class %v", err, s.Keys().Classify(err))
	}
	if other := claim(t, b.Keys(), attempt("k")); other.Won {
		t.Fatal("another attempt won a key that was claimed")
	}
	if again := claim(t, s.Keys(), a); !again.Won || again.Record.Token != 1 {
		t.Fatalf("asked again: %+v", again)
	}
}

func TestPostgresCompletionWhoseReplyWasLostCountsWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wire, s := behindRelay(t, b)
	s.SetHook(once("complete", func() { wire.arm(loseReply) }))
	won := claim(t, s.Keys(), attempt("k"))
	done := idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Done, Response: created("1")}

	if _, err := s.Keys().Complete(t.Context(), []idempotency.Completion{done}); !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("the lost reply is %v", err)
	}
	if err := complete(t, s.Keys(), done); err != nil {
		t.Fatalf("sent again: %v", err)
	}
}

func TestPostgresCallThatFoundNoServerIsNotUnknown(t *testing.T) {
	t.Parallel()
	wire, through := newRelay(t, testenv.Postgres(t).URL())
	wire.close()
	s := postgres.New(newPool(t, through), postgres.Config{})
	_, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("k")})
	if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) || s.Keys().Classify(err) != txn.Retryable {
		t.Fatalf("%v, class %v", err, s.Keys().Classify(err))
	}
}

// charge is work with an effect that the database counts.
func charge(runs *int) func(context.Context, pgx.Tx) (idempotency.Response, error) {
	return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		*runs++
		_, err := tx.Exec(ctx, `insert into effects (name) values ($1)`, "charge")
		return created("1"), err
	}
}

func withEffects(t *testing.T, b bundle) bundle {
	t.Helper()
	b.exec(t, effectsTable)
	return b
}

func TestPostgresCommitWhoseReplyWasLostIsUnknownAndAskingAgainGivesItsAnswer(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	wire, s := behindRelay(t, b)
	s.SetHook(once("commit", func() { wire.arm(loseReply) }))

	a, runs := attempt("k"), 0
	_, err := s.Keys().InTx(t.Context(), a, charge(&runs))
	if !errors.Is(err, fifty.ErrUnknownOutcome) || s.Keys().Classify(err) != txn.Unknown {
		t.Fatalf("the lost reply is %v, class %v", err, s.Keys().Classify(err))
	}
	again, err := s.Keys().InTx(t.Context(), a, charge(&runs))
	if err != nil || again.Won || again.Record.State != idempotency.Done || again.Record.Attempt != a.ID || string(again.Record.Response.Body) != "1" {
		t.Fatalf("asked again: %+v, %v", again, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 1 { // it may have begun, but not its statement
		t.Fatalf("%d effects after %d runs", n, runs)
	}
}

func TestPostgresCallerOfInTxNeverNoticesALostCommitReply(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	wire, s := behindRelay(t, b)
	s.SetHook(once("commit", func() { wire.arm(loseReply) }))
	keys, runs := idempotency.NewTx(s.Keys(), idempotency.Config{}), 0
	res, err := keys.InTx(t.Context(), request("k"), charge(&runs))
	if err != nil || res.Replayed || string(res.Body) != "1" {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

func TestPostgresCommitThatIsStillUnderwayIsUnknownUntilItIsDecided(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	wire, s := behindRelay(t, b)
	s.SetHook(once("commit", func() { wire.arm(holdTheAsk) }))
	keys, runs := idempotency.NewTx(s.Keys(), idempotency.Config{}), 0

	if _, err := keys.InTx(t.Context(), request("k"), charge(&runs)); !errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Fatalf("with its COMMIT on the way: %v", err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 {
		t.Fatal("the held COMMIT has arrived already")
	}
	wire.release()
	until(t, b.pool, `select count(*) > 0 from fifty.keys where key = 'k'`)
	res, err := keys.InTx(t.Context(), request("k"), charge(&runs))
	if err != nil || !res.Replayed || string(res.Body) != "1" {
		t.Fatalf("after it: %+v, %v", res, err)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 1 || runs != 1 {
		t.Fatalf("%d effects after %d runs", n, runs)
	}
}

func TestPostgresConnectionLostBeforeCommitIsNotUnknown(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	wire, s := behindRelay(t, b)
	err := s.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		wire.arm(loseReply)
		_, err := tx.Exec(ctx, `insert into effects (name) values ('lost')`)
		return err
	})
	if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) || s.Txns().Classify(err) != txn.Retryable {
		t.Fatalf("%v, class %v", err, s.Txns().Classify(err))
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 {
		t.Fatalf("%d effects", n)
	}
}

func TestPostgresCallThatWasCancelledHalfwayIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	blocker, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer blocker.Rollback(context.Background()) //nolint:errcheck // it only holds a lock
	if _, err := blocker.Exec(ctx, `lock table fifty.keys in exclusive mode`); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := b.Keys().Claim(ctx, []idempotency.Attempt{attempt("k")})
		failed <- err
	}()
	until(t, b.pool, `select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
	cancel()
	if err := <-failed; !errors.Is(err, fifty.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled while the server was at it: %v", err)
	}
	if _, err := b.Keys().Claim(ctx, []idempotency.Attempt{attempt("k")}); errors.Is(err, fifty.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled before it was sent: %v", err)
	}
}
