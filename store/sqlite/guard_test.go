package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	modernc "modernc.org/sqlite"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

// cancelled is what the SQL function cancel_context calls.
var cancelled atomic.Pointer[context.CancelFunc]

func init() {
	modernc.MustRegisterScalarFunction("cancel_context", 0,
		func(*modernc.FunctionContext, []driver.Value) (driver.Value, error) {
			(*cancelled.Load())()
			return int64(0), nil
		})
}

// interrupt makes a statement of tx end by its context in the middle of its writes. SQLite answers that by
// rolling back the whole transaction.
func interrupt(ctx context.Context, t *testing.T, tx *sql.Tx) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cancelled.Store(&cancel)
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (name)
		WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n)
		SELECT CASE WHEN i = 100 THEN cancel_context() ELSE 'endless' END FROM n`)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the endless statement ended with %v", err)
	}
}

func TestSQLiteNothingRunsOnInATransactionThatSQLiteHasRolledBack(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	got, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		prepared, err := tx.PrepareContext(ctx, `INSERT INTO effects (name) VALUES ('prepared')`)
		if err != nil {
			return idempotency.Response{}, err
		}
		if err := effect(ctx, tx, "first"); err != nil {
			return idempotency.Response{}, err
		}
		// The function sets a time-out of its own, forgives it, and goes on.
		interrupt(ctx, t, tx)
		_, execErr := prepared.ExecContext(ctx)
		_, queryErr := prepared.QueryContext(ctx)
		_, prepareErr := tx.PrepareContext(ctx, `SELECT 1`)
		var one int
		for what, err := range map[string]error{
			"exec":             effect(ctx, tx, "second"),
			"query":            tx.QueryRowContext(ctx, `SELECT 1`).Scan(&one),
			"prepared exec":    execErr,
			"prepared query":   queryErr,
			"prepare":          prepareErr,
			"savepoint":        s.Txns().Savepoint(ctx, tx, func(context.Context) error { return nil }),
			"the store's own":  lastError(s.Keys().ClaimTx(ctx, tx, attempt("a2", "x"))),
			"the store's own2": s.Keys().CompleteTx(ctx, tx, idempotency.Completion{State: idempotency.Free}),
		} {
			if !errors.Is(err, sqlite.ErrUndone) {
				t.Errorf("%s after the rollback: %v", what, err)
			}
		}
		return idempotency.Response{Status: 201}, nil
	})
	if !errors.Is(err, sqlite.ErrUndone) || got.Won || s.Keys().Classify(err) == txn.Unknown {
		t.Fatalf("got %+v, %v", got, err)
	}
	gone(t, s, "k")
	for _, name := range []string{"first", "second", "prepared", "endless"} {
		if n := effects(t, s, name); n != 0 {
			t.Errorf("%d effects %q of a transaction that was rolled back", n, name)
		}
	}
	usable(t, s, "k")
}

func lastError[T any](_ T, err error) error { return err }

func TestSQLiteACommitAfterARollbackBySQLiteFails(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	business(t, s)
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := effect(t.Context(), tx, "e"); err != nil {
		t.Fatal(err)
	}
	interrupt(t.Context(), t, tx)
	if err := tx.Commit(); !errors.Is(err, sqlite.ErrUndone) {
		t.Fatalf("the commit of nothing: %v", err)
	}
	if n := effects(t, s, "e"); n != 0 {
		t.Fatalf("%d effects", n)
	}
	usable(t, s, "k")
}

// endsBetween is a context that ends when its end is asked for a second time, which is when a statement has begun.
type endsBetween struct {
	context.Context
	asked  atomic.Int64
	closed chan struct{}
}

func (c *endsBetween) Done() <-chan struct{} {
	if c.asked.Add(1) == 1 {
		return make(chan struct{})
	}
	return c.closed
}

func (c *endsBetween) Err() error {
	if c.asked.Load() < 2 {
		return nil
	}
	return context.Canceled
}

func TestSQLiteBeginThatIsNotWantedAnyMoreLeavesTheWriter(t *testing.T) {
	t.Parallel()
	s := open(t, newFile(t), sqlite.Config{})
	closed := make(chan struct{})
	close(closed)
	conn, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	unwanted := -1 // the first one ends before it begins, when it is prepared
	for i := 0; i < 1_000_000 && unwanted < 20; i++ {
		err := conn.Raw(func(c any) error {
			tx, err := c.(driver.ConnBeginTx).BeginTx(&endsBetween{Context: t.Context(), closed: closed}, driver.TxOptions{})
			if err != nil {
				unwanted++
				tx, err = c.(driver.ConnBeginTx).BeginTx(t.Context(), driver.TxOptions{})
			}
			if err != nil {
				return err
			}
			return tx.Rollback()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if unwanted < 1 {
		t.Error("no context ended after its transaction had begun: this tested nothing")
	}
}

func TestSQLiteCommitThatIsRefusedRollsBack(t *testing.T) {
	t.Parallel()
	s := open(t, newFile(t), sqlite.Config{})
	ctx, db := t.Context(), s.DB()
	for _, ddl := range []string{
		`CREATE TABLE parents (id INTEGER PRIMARY KEY)`,
		`CREATE TABLE children (parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`,
	} {
		if _, err := db.ExecContext(ctx, ddl); err != nil {
			t.Fatal(err)
		}
	}
	err := s.Txns().Transact(ctx, txn.Options{}, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO children VALUES (7)`)
		return err
	})
	if err == nil {
		t.Error("an orphan was committed")
	}
	var children int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM children`).Scan(&children); err != nil || children != 0 {
		t.Errorf("%d children, %v", children, err)
	}
	if _, err := s.Keys().Claim(ctx, []idempotency.Attempt{attempt("a1", "k")}); err != nil {
		t.Errorf("the writer is stuck: %v", err)
	}
}
