package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

func TestSQLiteOpenSaysWhatIsWrongWithThePath(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, says string
		is         error
	}{
		"empty":             {"", "name a file", fifty.ErrInvalid},
		"memory":            {":memory:", "store/memory", fifty.ErrInvalid},
		"a URI":             {"file:x.db?mode=memory", "path alone", fifty.ErrInvalid},
		"a zero byte":       {"a\x00b", "zero byte", fifty.ErrInvalid},
		"a folder":          {folder, "it is a folder", nil},
		"a missing folder":  {filepath.Join(folder, "none", "x.db"), "make it first", fs.ErrNotExist},
		"a file as folder":  {filepath.Join(text, "x.db"), "not a directory", nil},
		"not a database":    {text, "not an SQLite database", nil},
		"too long a name":   {filepath.Join(folder, strings.Repeat("x", 300)), "name too long", nil},
		"a dangling folder": {filepath.Join(folder, "..", "none-such", "x.db"), "make it first", fs.ErrNotExist},
	} {
		s, err := sqlite.Open(t.Context(), c.path, sqlite.Config{})
		if err == nil {
			t.Errorf("%s: opened: %v", name, s.Close())
			continue
		}
		if !strings.Contains(err.Error(), c.says) || (c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadFile(text); err != nil || len(left) != 2000 {
		t.Errorf("the file that is no database was changed: %d bytes, %v", len(left), err)
	}
}

func TestSQLiteOddNamesAreFileNames(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a b.db", "what?mode=ro", "50%25#1.db", "é&x=1;y", "-x", "a:b"} {
		path := filepath.Join(folder, name)
		s := open(t, path, sqlite.Config{})
		win(t, s, attempt("a1", "k"))
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%q: mode %v; it holds answers and secrets", name, info.Mode())
		}
	}
}

func TestSQLiteARelativePathIsThatOfOpen(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	t.Chdir(first)
	s := open(t, "fifty.db", sqlite.Config{})
	win(t, s, attempt("a1", "k"))
	t.Chdir(second)
	find(t, s, "k") // on a connection that is opened now
	if _, err := os.Stat(filepath.Join(second, "fifty.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("another file was opened")
	}
}

func TestSQLiteConfigIsChecked(t *testing.T) {
	for _, cfg := range []sqlite.Config{{BusyTimeout: -1}, {BusyTimeout: time.Microsecond}, {Readers: -1}} {
		if _, err := sqlite.Open(t.Context(), newFile(t), cfg); !errors.Is(err, fifty.ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestSQLiteWithoutTablesItSaysToMigrate(t *testing.T) {
	s, err := sqlite.Open(t.Context(), newFile(t), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, claimErr := s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("a1", "k")})
	_, findErr := s.Keys().Find(t.Context(), "acme", "k")
	_, secretErr := s.Secret(t.Context(), "x")
	for _, err := range []error{claimErr, findErr, secretErr} {
		if err == nil || !strings.Contains(err.Error(), "call Migrate first") {
			t.Errorf("got %v", err)
		}
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	win(t, s, attempt("a1", "k")) // the same store goes on
}

func TestSQLiteAfterCloseCallsFail(t *testing.T) {
	s := open(t, newFile(t), sqlite.Config{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{attempt("a1", "k")}); err == nil {
		t.Error("a claim on a closed store")
	}
	if _, err := s.Keys().Find(t.Context(), "acme", "k"); err == nil || errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("find on a closed store: %v", err)
	}
}

// full opens path so that the file may grow by a few pages and no more.
func full(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s := open(t, path, sqlite.Config{})
	business(t, s)
	var pages int
	if err := s.DB().QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	return open(t, path, sqlite.Config{}.WithPragma(fmt.Sprintf("max_page_count(%d)", pages+4)))
}

func TestSQLiteAFullFileLeavesNothingHalfDone(t *testing.T) {
	s := full(t, newFile(t))
	large := idempotency.Response{Status: 201, Body: make([]byte, 64<<10)}
	c := win(t, s, attempt("a1", "k"))

	_, err := s.Keys().Complete(t.Context(), []idempotency.Completion{{Claim: c, State: idempotency.Done, Response: large}})
	if err == nil || !strings.Contains(err.Error(), "no space is left") || s.Keys().Classify(err) != txn.Permanent {
		t.Fatalf("an answer too large for the file: %v", err)
	}
	if rec := find(t, s, "k"); rec.State != idempotency.InFlight {
		t.Fatalf("the record is half done: %+v", rec)
	}

	_, err = s.Keys().InTx(t.Context(), attempt("a1", "tx"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		return large, effect(ctx, tx, "e")
	})
	if err == nil || !strings.Contains(err.Error(), "no space is left") {
		t.Fatalf("the same in a transaction: %v", err)
	}
	gone(t, s, "tx")
	if n := effects(t, s, "e"); n != 0 {
		t.Fatalf("%d effects without an answer", n)
	}
	// What fits still goes in.
	if err := complete(t, s, c, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
		t.Fatal(err)
	}
}

func TestSQLiteAFunctionThatForgivesAFullFileCommitsNothing(t *testing.T) {
	s := full(t, newFile(t))
	_, err := s.Keys().InTx(t.Context(), attempt("a1", "k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		if err := effect(ctx, tx, "small"); err != nil {
			return idempotency.Response{}, err
		}
		if err := effect(ctx, tx, strings.Repeat("x", 64<<10)); err == nil {
			t.Error("the large effect fitted")
		}
		_ = effect(ctx, tx, "small")
		return idempotency.Response{Status: 201}, nil
	})
	if err == nil {
		t.Fatal("it committed")
	}
	gone(t, s, "k")
	if n := effects(t, s, "small"); n != 0 {
		t.Fatalf("%d effects without a key", n)
	}
	usable(t, s, "k")
}

func TestSQLiteAFullFileLeavesNoSweepAndNoStepHalfDone(t *testing.T) {
	path, clock := newFile(t), newHostClock()
	first := open(t, path, sqlite.Config{Now: clock.Now})
	end(t, first, attempt("a1", "free"), idempotency.Free)
	end(t, first, attempt("a1", "done"), idempotency.Done)
	held := win(t, first, steps("a1", "held"))
	save(t, first, held, saved("first", "1"))
	s := full(t, path)
	large := idempotency.StepRecord{Name: "first", Sent: true, Result: make([]byte, 64<<10)}
	if err := s.Keys().SaveStep(t.Context(), held, large); err == nil || !strings.Contains(err.Error(), "no space is left") {
		t.Fatalf("a step too large for the file: %v", err)
	}
	if rec := find(t, first, "held"); !sameSteps(rec.Steps, []idempotency.StepRecord{saved("first", "1")}) {
		t.Fatalf("the step is half saved: %+v", rec.Steps)
	}
	// The disk fills in the middle of the sweep, when the row is gone and the floor is being raised.
	crowded(t, s, `AFTER UPDATE ON fifty_marks WHEN new.name = 'keys.token'`)
	if n, err := s.Keys().Sweep(t.Context(), 0, tombstone, 10); n != 0 || err == nil || !strings.Contains(err.Error(), "no space is left") {
		t.Fatalf("a sweep on a full disk: %d, %v", n, err)
	}
	if got := states(t, first); got != "done done 1, free free 1, held in flight 1" {
		t.Fatalf("half swept: %s", got)
	}
	uncrowded(t, s)
	if n, err := s.Keys().Sweep(t.Context(), 0, tombstone, 10); n != 2 || err != nil {
		t.Fatal(n, err)
	}
}

// crowded makes the file fill up in the middle of a transaction that does what event says.
func crowded(t *testing.T, s *sqlite.Store, event string) {
	t.Helper()
	_, err := s.DB().ExecContext(t.Context(), `CREATE TRIGGER crowd `+event+`
		BEGIN INSERT INTO effects (name) VALUES (zeroblob(65536)); END`)
	if err != nil {
		t.Fatal(err)
	}
}

func uncrowded(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), `DROP TRIGGER crowd`); err != nil {
		t.Fatal(err)
	}
}
