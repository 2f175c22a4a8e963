package sqlite_test

import (
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/store/sqlite"
)

func versions(t *testing.T, db *sql.DB) (n, top int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT count(*), max(version) FROM fifty_migrations`).Scan(&n, &top)
	if err != nil {
		t.Fatal(err)
	}
	return n, top
}

func TestSQLiteManyMayOpenAndMigrateANewFileAtOnce(t *testing.T) {
	path := newFile(t)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range 12 {
		all.Go(func() {
			<-begin
			s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 2 { // and again
				if err := s.Migrate(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(begin)
	all.Wait()
	s := open(t, path, sqlite.Config{})
	if n, top := versions(t, s.DB()); n != top {
		t.Fatalf("%d migrations were applied up to version %d", n, top)
	}
	win(t, s, attempt("a1", "k"))
}

func TestSQLiteMigrationsThatWereRunByHandAreRecognised(t *testing.T) {
	var text strings.Builder
	if err := sqlite.WriteMigrations(&text, sqlite.Config{}); err != nil {
		t.Fatal(err)
	}
	path := newFile(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), text.String()); err != nil {
		t.Fatalf("%v in:\n%s", err, text.String())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, sqlite.Config{})
	if n, top := versions(t, s.DB()); n != top {
		t.Fatalf("%d migrations were applied up to version %d", n, top)
	}
	win(t, s, attempt("a1", "k"))
}

func TestSQLiteAnOlderProcessLeavesALaterVersionAlone(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.Config{})
	_, err := s.DB().ExecContext(t.Context(), `
		ALTER TABLE fifty_keys ADD COLUMN later TEXT;
		INSERT INTO fifty_migrations (version, name) VALUES (1000, 'later')`)
	if err != nil {
		t.Fatal(err)
	}
	old := open(t, path, sqlite.Config{})
	if _, top := versions(t, old.DB()); top != 1000 {
		t.Fatalf("it is at version %d now", top)
	}
	win(t, old, attempt("a1", "k"))
}

func TestSQLiteTablesThatNeedALaterProgramAreRefused(t *testing.T) {
	path := newFile(t)
	s := open(t, path, sqlite.Config{})
	_, known := versions(t, s.DB())
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO fifty_migrations (version, name, oldest) VALUES (1000, 'changes', 999)`); err != nil {
		t.Fatal(err)
	}
	err := s.Migrate(t.Context())
	tooNew, ok := errors.AsType[*sqlite.SchemaTooNewError](err)
	if !ok || !errors.Is(err, sqlite.ErrSchemaTooNew) || *tooNew != (sqlite.SchemaTooNewError{Found: 1000, Oldest: 999, Known: known}) {
		t.Fatal(err)
	}
}

func TestSQLiteAMigrationThatFailsChangesNothing(t *testing.T) {
	path := newFile(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE fifty_secrets (mine TEXT)`); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err == nil {
		t.Fatal("it migrated over a table that was there")
	}
	var tables int
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM sqlite_schema WHERE type = 'table'`).Scan(&tables); err != nil {
		t.Fatal(err)
	}
	if tables != 1 {
		t.Fatalf("%d tables are left of a migration that failed", tables-1)
	}
}
