package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

type txFunc = func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error)

// writes makes an effect called name and answers.
func writes(name string) txFunc {
	return func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		return idempotency.Response{Status: 201}, effect(ctx, tx, name)
	}
}

// usable fails the test unless key can be claimed, worked and answered in a transaction now.
func usable(t *testing.T, s *sqlite.Store, key string) {
	t.Helper()
	got, err := s.Keys().InTx(t.Context(), attempt("usable", key), writes("usable"))
	if err != nil || !got.Won {
		t.Fatalf("key %s can't be worked: %+v, %v", key, got, err)
	}
}

// gone fails the test if there is a record of key.
func gone(t *testing.T, s *sqlite.Store, key string) {
	t.Helper()
	if rec, err := s.Keys().Find(t.Context(), "acme", key); !errors.Is(err, idempotency.ErrNotFound) {
		t.Fatalf("a record is there: %+v, %v", rec, err)
	}
}

func TestSQLiteInTxCommitsTheEffectWithItsAnswer(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	got, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), writes("e"))
	if err != nil || !got.Won || got.Record.State != idempotency.Done || got.Record.Response.Status != 201 {
		t.Fatalf("got %+v, %v", got, err)
	}
	again, err := s.Keys().InTx(t.Context(), attempt("a2", "k"), writes("e"))
	if err != nil || again.Won || again.Record.State != idempotency.Done || again.Record.Response.Status != 201 {
		t.Fatalf("the duplicate got %+v, %v", again, err)
	}
	if n := effects(t, s, "e"); n != 1 {
		t.Fatalf("%d effects", n)
	}
}

func TestSQLiteADuplicateOfATransactionUnderWayIsToldAtOnce(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	_, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		// From a context that knows nothing of the transaction. If it waited for the writer, it would never end.
		dup, err := s.Keys().InTx(t.Context(), attempt("a2", "k"), writes("dup"))
		if err != nil || dup.Won || dup.Record.State != idempotency.InFlight || dup.Record.Expired() {
			t.Errorf("the duplicate got %+v, %v", dup, err)
		}
		all, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("a3", "k"), attempt("a1", "k")})
		if err != nil || len(all) != 2 {
			t.Fatal(all, err)
		}
		for _, dup := range all {
			if dup.Won || dup.Record.State != idempotency.InFlight || dup.Record.Expired() {
				t.Errorf("a claim got %+v", dup)
			}
		}
		return idempotency.Response{Status: 201}, nil
	})
	if err != nil || effects(t, s, "dup") != 0 {
		t.Fatal(err, effects(t, s, "dup"))
	}
}

func TestSQLiteADuplicateInAnotherStoreWaitsForTheWriterAndIsThenRetryable(t *testing.T) {
	path := newFile(t)
	s, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{BusyTimeout: time.Millisecond})
	business(t, s)
	_, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		_, err := other.Keys().InTx(t.Context(), attempt("a2", "k"), writes("dup"))
		if other.Keys().Classify(err) != txn.Retryable {
			t.Errorf("the duplicate got %v", err)
		}
		return idempotency.Response{Status: 201}, effect(ctx, tx, "e")
	})
	if err != nil {
		t.Fatal(err)
	}
	after, err := other.Keys().InTx(t.Context(), attempt("a2", "k"), writes("dup"))
	if err != nil || after.Won || after.Record.State != idempotency.Done {
		t.Fatalf("after the commit the duplicate got %+v, %v", after, err)
	}
}

func TestSQLiteAPanicRollsBackAndLeavesTheWriterFree(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("the panic did not go on: %v", v)
			}
		}()
		_, _ = s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			if err := effect(ctx, tx, "e"); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
			_ = effect(ctx, tx, "e")
			runtime.Goexit()
			return idempotency.Response{}, nil
		})
	}()
	<-left
	gone(t, s, "k")
	if n := effects(t, s, "e"); n != 0 {
		t.Fatalf("%d effects of rolled back transactions", n)
	}
	usable(t, s, "k")
}

func TestSQLiteTheEndOfTheContextFreesTheWriterEvenIfTheFunctionRunsOn(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Keys().InTx(ctx, attempt("a1", "k"), func(_ context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if err := effect(t.Context(), tx, "e"); err != nil {
			t.Error(err)
		}
		cancel()
		usable(t, s, "other") // while this one has not returned
		if err := effect(t.Context(), tx, "late"); err == nil {
			t.Error("a statement in a transaction that is over")
		}
		return idempotency.Response{Status: 201}, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	gone(t, s, "k")
	if effects(t, s, "e")+effects(t, s, "late") != 0 {
		t.Fatal("effects of a transaction that was rolled back")
	}
	usable(t, s, "k")
}

func TestSQLiteNoCommitIsSentOnceTheContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := newFile(t)
	s := open(t, path, sqlite.Config{}.WithHook(func(_ context.Context, point string) {
		if point == "intx.commit" {
			cancel()
		}
	}))
	business(t, s)
	_, err := s.Keys().InTx(ctx, attempt("a1", "k"), writes("e"))
	if !errors.Is(err, context.Canceled) || s.Keys().Classify(err) != txn.Permanent {
		t.Fatalf("got %v, %v", err, s.Keys().Classify(err))
	}
	gone(t, s, "k")
	if n := effects(t, s, "e"); n != 0 {
		t.Fatalf("%d effects", n)
	}
}

func TestSQLiteACallThatWouldWaitForItselfIsRefused(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	c := win(t, s, attempt("a0", "held"))
	var kept context.Context
	_, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		kept = ctx
		_, claimErr := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a2", "x")})
		_, renewErr := s.Keys().Renew(ctx, []idempotency.Claim{c}, time.Second)
		_, completeErr := s.Keys().Complete(ctx, nil)
		_, inTxErr := s.Keys().InTx(ctx, attempt("a2", "x"), writes("e"))
		_, secretErr := s.Secret(ctx, "x")
		txnErr := s.Txns().Transact(ctx, txn.Options{}, nil)
		_, beginErr := s.DB().BeginTx(ctx, nil)
		stepErr := s.Keys().SaveStep(ctx, c, saved("charge", "1"))
		_, sweepErr := s.Keys().Sweep(ctx, time.Hour, time.Hour, 1)
		resolveErr := s.Keys().Resolve(ctx, idempotency.Resolution{Scope: "acme", Key: "held"})
		for _, err := range []error{
			claimErr, renewErr, completeErr, inTxErr, secretErr, txnErr, beginErr, s.Migrate(ctx),
			stepErr, sweepErr, resolveErr,
		} {
			if !errors.Is(err, sqlite.ErrNested) {
				t.Errorf("got %v", err)
			}
		}
		if _, err := s.Keys().Find(ctx, "acme", "held"); err != nil { // reads wait for nobody
			t.Error(err)
		}
		return idempotency.Response{Status: 201}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keys().Claim(kept, []idempotency.Attempt{attempt("a2", "x")}); err != nil {
		t.Fatalf("after the transaction its context is like any other: %v", err)
	}
}

func TestSQLiteClaimInADeferredTransactionThatWasOvertakenIsRetryable(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.Config{})
	business(t, s)
	plain, err := sql.Open("sqlite", path) // a caller's own, which begins deferred
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	tx, err := plain.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM effects`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	usable(t, s, "k") // another commits, and the snapshot is no longer the newest
	_, err = s.Keys().ClaimTx(t.Context(), tx, attempt("a1", "k"))
	if s.Keys().Classify(err) != txn.Retryable {
		t.Fatalf("got %v", err)
	}
}

// overtaken lets another commit in the middle of ClaimTx in a transaction that began deferred, if it can,
// and returns both errors.
func overtaken(t *testing.T, statements sqlite.Statements) (claimErr, otherErr error) {
	t.Helper()
	path := newFile(t)
	other := open(t, path, sqlite.Config{BusyTimeout: time.Millisecond})
	s := open(t, path, sqlite.Config{}.WithStatements(statements).WithHook(func(_ context.Context, point string) {
		if point == "claimtx.insert" {
			_, otherErr = other.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("b1", "other")})
		}
	}))
	plain, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	tx, err := plain.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, claimErr = s.Keys().ClaimTx(t.Context(), tx, attempt("a1", "k"))
	return claimErr, otherErr
}

func TestSQLiteClaimTxTakesTheWriteLockBeforeItReads(t *testing.T) {
	claimErr, otherErr := overtaken(t, sqlite.Shipped())
	if claimErr != nil || (sqlite.Txns{}).Classify(otherErr) != txn.Retryable {
		t.Errorf("the claim got %v, and the other %v", claimErr, otherErr)
	}
	reads := sqlite.Shipped().Edit(t, "lock", "DELETE FROM", "SELECT 1 FROM")
	claimErr, otherErr = overtaken(t, reads)
	if (sqlite.Txns{}).Classify(claimErr) != txn.Retryable || otherErr != nil {
		t.Errorf("without the lock the claim got %v, and the other %v", claimErr, otherErr)
	}
}

func TestSQLiteClaimTxInATransactionOfYoursKeepsWhatCameBeforeIt(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	keys, ctx := s.Keys(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(effect(ctx, tx, "before"))
	outer, err := keys.ClaimTx(ctx, tx, attempt("a1", "outer"))
	must(err)
	must(effect(ctx, tx, "outer"))
	inner, err := keys.ClaimTx(ctx, tx, attempt("a1", "inner"))
	must(err)
	must(effect(ctx, tx, "inner"))
	// The inner claim is undone and freed, the outer one is answered.
	must(keys.CompleteTx(ctx, tx, idempotency.Completion{Claim: claimOf(inner.Record), State: idempotency.Free, Undo: true}))
	must(keys.CompleteTx(ctx, tx, idempotency.Completion{
		Claim: claimOf(outer.Record), State: idempotency.Done, Response: idempotency.Response{Status: 201},
	}))
	must(tx.Commit())
	if effects(t, s, "before") != 1 || effects(t, s, "outer") != 1 || effects(t, s, "inner") != 0 {
		t.Fatal("the wrong part was undone")
	}
	if find(t, s, "outer").State != idempotency.Done || find(t, s, "inner").State != idempotency.Free {
		t.Fatal("the keys are not what was completed")
	}
}

func TestSQLiteAReadOnlyTransactionCanNotWrite(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	err := s.Txns().Transact(t.Context(), txn.Options{ReadOnly: true}, func(ctx context.Context, tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM effects`).Scan(&n); err != nil {
			return err
		}
		usable(t, s, "k") // it holds no lock that a writer needs
		return effect(ctx, tx, "e")
	})
	if err == nil || effects(t, s, "e") != 0 {
		t.Fatal("it wrote", err)
	}
	tx, err := s.DB().BeginTx(t.Context(), nil) // the connection is as it was
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := effect(t.Context(), tx, "e"); err != nil {
		t.Fatal(err)
	}
}
