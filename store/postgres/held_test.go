package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

var errRollBack = errors.New("the caller changed its mind")

// mustNotRun is work whose statement must not be run. It may begin, and hides what its statement says.
func mustNotRun(t *testing.T) func(context.Context, pgx.Tx) (idempotency.Response, error) {
	return func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		if _, err := tx.Exec(ctx, `select $1::int`, 1); !errors.Is(err, idempotency.ErrUnclaimed) {
			t.Errorf("the function's statement got %v", err)
		}
		return created("a duplicate's"), nil
	}
}

// wantInFlight asks for key in all three ways. None may wait for the transaction that holds it: the caller
// is inside of that transaction, so a wait would last until the deadline.
func wantInFlight(ctx context.Context, t *testing.T, k postgres.Keys[pgx.Tx], txns postgres.Txns[pgx.Tx], key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	check := func(how string, got idempotency.Claimed, err error) {
		t.Helper()
		if err != nil || got.Won || got.Record.State != idempotency.InFlight || got.Record.Expired() {
			t.Errorf("%s: %+v, %v; want in flight", how, got, err)
		}
	}
	all, err := k.Claim(ctx, []idempotency.Attempt{attempt(key)})
	if err != nil {
		t.Errorf("Claim: %v", err)
	} else {
		check("Claim", all[0], nil)
	}
	got, err := k.InTx(ctx, attempt(key), mustNotRun(t))
	check("InTx", got, err)
	err = txns.Transact(ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		got, err := k.ClaimTx(ctx, tx, attempt(key))
		check("ClaimTx", got, err)
		return errRollBack
	})
	if err != errRollBack {
		t.Errorf("Transact: %v", err)
	}
}

func TestPostgresTransactionThatHoldsAKeyMakesNobodyWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	free := claim(t, b.Keys(), attempt("free"))
	if err := complete(t, b.Keys(), idempotency.Completion{Claim: claimOf(free.Record), State: idempotency.Free}); err != nil {
		t.Fatal(err)
	}
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		for _, key := range []string{"new", "free"} {
			if got, err := b.Keys().ClaimTx(ctx, tx, attempt(key)); err != nil || !got.Won {
				t.Fatalf("%q: %+v, %v", key, got, err)
			}
			wantInFlight(ctx, t, b.Keys(), b.Txns(), key)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Keys().InTx(t.Context(), attempt("in tx"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		_, err := tx.Exec(ctx, `select $1::int`, 1) // until then it has not begun
		wantInFlight(ctx, t, b.Keys(), b.Txns(), "in tx")
		return created("1"), err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresFrozenBackendThatHoldsAKeyMakesNobodyWait(t *testing.T) {
	t.Parallel()
	b := setupOn(t, testenv.NewPostgres(t).Database(t))
	_, err := b.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		var pid int
		if err := tx.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
			return idempotency.Response{}, err
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return idempotency.Response{}, err
		}
		wantInFlight(ctx, t, b.Keys(), b.Txns(), "k")
		return created("1"), syscall.Kill(pid, syscall.SIGCONT)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresHostThatStopsInATransactionLosesItsKeyAfterIdleMax(t *testing.T) {
	t.Parallel()
	b := withEffects(t, setup(t))
	frozen := postgres.New(b.pool, postgres.Config{IdleMax: 50 * time.Millisecond})
	var rescued idempotency.Claimed
	_, err := frozen.Keys().InTx(t.Context(), attempt("k"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		// On a busy machine this may come too late already.
		_, _ = tx.Exec(ctx, `insert into effects (name) values ('of the frozen host')`)
		// The host says nothing more until another has the key.
		until(t, b.pool, `select count(*) = 0 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
		rescued = claim(t, b.Keys(), attempt("k"))
		return created("late"), nil
	})
	if err == nil || !rescued.Won {
		t.Fatalf("the frozen host: %v; the other: %+v", err, rescued)
	}
	if n := one[int](t, b.pool, `select count(*) from effects`); n != 0 {
		t.Fatalf("%d effects of the frozen host", n)
	}
	if rec, err := b.Keys().Find(t.Context(), "acme", "k"); err != nil || rec.Attempt != rescued.Record.Attempt {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestPostgresLimitsOfATransactionEndWithIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool := newPool(t, b.url)
	s := postgres.New(pool, postgres.Config{IdleMax: 12345 * time.Millisecond})
	conn := func(sql string) string { return one[string](t, pool, sql) }
	before := conn(`show idle_in_transaction_session_timeout`)
	err := s.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		var idle, network string
		err := tx.QueryRow(ctx, `select current_setting('idle_in_transaction_session_timeout'), current_setting('tcp_user_timeout')`).Scan(&idle, &network)
		if idle != "12345ms" || network != "12345" {
			t.Errorf("within: %s, %s", idle, network)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pool.Stat().TotalConns() != 1 {
		t.Fatal("the test no longer looks at the same connection")
	}
	if after := conn(`show idle_in_transaction_session_timeout`); after != before {
		t.Errorf("after: %s, before: %s", after, before)
	}
}

// A row that a neighbour only locks must not let a late renewal through: see renewSQL.
func TestPostgresRenewalThatWaitsPastTheExpiryRevivesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := renewedLate(t, b, b.Store); err != nil {
		t.Error(err)
	}
	broken := b.Break(breaking(t, []change{{"renew", "    for update\n", ""}}))
	if err := renewedLate(t, b, broken); err == nil {
		t.Error("a renewal that does not lock the row first goes unnoticed")
	}
}

func renewedLate(t *testing.T, b bundle, s *postgres.Store[pgx.Tx]) error {
	t.Helper()
	// The renewal must be asked for before the expiry. On a busy machine that takes a longer lease.
	for lease := 100 * time.Millisecond; lease < patience; lease *= 2 {
		if inTime, err := renewsBehindALock(t, b, s, lease); inTime {
			return err
		}
	}
	t.Fatal("no renewal reached the server before the expiry of its claim")
	return nil
}

// renewsBehindALock says whether the renewal was asked for in time, and what was wrong with its answer.
func renewsBehindALock(t *testing.T, b bundle, s *postgres.Store[pgx.Tx], lease time.Duration) (inTime bool, wrong error) {
	t.Helper()
	a := attempt(rand.Text())
	a.Lease = lease
	won := claim(t, s.Keys(), a)
	neighbour, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer neighbour.Rollback(context.Background()) //nolint:errcheck // it only holds a lock
	if _, err := neighbour.Exec(t.Context(), `select from fifty.keys where key = $1 for update`, a.Request.Key); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		all, err := s.Keys().Renew(t.Context(), []idempotency.Claim{claimOf(won.Record)}, time.Hour)
		if err == nil {
			err = all[0]
		}
		answer <- err
	}()
	until(t, b.pool, `select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
	const expired = `select expires <= clock_timestamp() from fifty.keys where key = $1`
	inTime = !one[bool](t, b.pool, expired, a.Request.Key)
	until(t, b.pool, expired, a.Request.Key)
	if err := neighbour.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = <-answer
	if lost, ok := errors.AsType[*idempotency.LostError](err); !ok || lost.Superseded {
		wrong = fmt.Errorf("renewed late: %v", err)
	} else if !one[bool](t, b.pool, expired, a.Request.Key) {
		wrong = errors.New("the claim lives again")
	}
	return inTime, wrong
}

// In a transaction that began before the expiry, now() never gets there.
func TestPostgresExpiryIsSeenInAnOldTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, next := attempt("k"), attempt("k")
	first.Lease, first.Resume, next.Resume = time.Millisecond, true, true
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select now()`); err != nil {
			return err
		}
		claim(t, b.Keys(), first)
		until(t, b.pool, `select expires <= clock_timestamp() from fifty.keys where key = 'k'`)
		taken, err := b.Keys().ClaimTx(ctx, tx, next)
		if err != nil || !taken.Won || taken.Record.Token != 2 {
			t.Errorf("%+v, %v", taken, err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresServersClockAloneDecidesAnExpiry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	won := claim(t, b.Keys(), attempt("k")) // for an hour of this host's clock, too
	b.exec(t, `update fifty.keys set expires = clock_timestamp()`)
	rec, err := b.Keys().Find(t.Context(), "acme", "k")
	if err != nil || !rec.Expired() {
		t.Fatalf("%+v, %v", rec, err)
	}
	lost, err := b.Keys().Renew(t.Context(), []idempotency.Claim{claimOf(won.Record)}, time.Hour)
	if err != nil || !errors.Is(lost[0], idempotency.ErrLost) {
		t.Fatalf("%v, %v", lost, err)
	}
	b.exec(t, `update fifty.keys set expires = clock_timestamp() + interval '100 years'`)
	if rec, err = b.Keys().Find(t.Context(), "acme", "k"); err != nil || rec.ExpiresIn < 99*365*24*time.Hour {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestPostgresServerThatIsKilledKeepsTheClaimAndTakesItsCompletion(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	b := setupOn(t, server.Database(t))
	won := claim(t, b.Keys(), attempt("k"))
	done := idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Done, Response: created("1")}

	server.Kill()
	if _, err := b.Keys().Complete(t.Context(), []idempotency.Completion{done}); err == nil {
		t.Fatal("completed without a server")
	}
	server.Start()
	// A connection from before the crash may still be in the pool: the first try can find it dead.
	var lost []error
	for range 10 {
		var err error
		if lost, err = b.Keys().Complete(t.Context(), []idempotency.Completion{done}); err == nil {
			break
		} else if !errors.Is(err, fifty.ErrUnknownOutcome) && b.Keys().Classify(err) != txn.Retryable {
			t.Fatal(err)
		}
	}
	if len(lost) != 1 || lost[0] != nil {
		t.Fatalf("completed after the restart: %v", lost)
	}
	if dup := claim(t, b.Keys(), attempt("k")); dup.Won || string(dup.Record.Response.Body) != "1" || dup.Record.Token != won.Record.Token {
		t.Fatalf("a duplicate after the restart: %+v", dup)
	}
}
