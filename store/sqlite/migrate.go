package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the tables' history. Its number and text never change once released.
type migration struct {
	version int
	name    string
	text    string
}

// migrations returns all steps in order. A file is named NNNN_name.sql.
func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql") // in lexical order
	if err != nil {
		return nil, err
	}
	all := make([]migration, 0, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		number, title, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("sqlite: migration %s should be number %d", name, i+1)
		}
		all = append(all, migration{version, title, string(text)})
	}
	return all, nil
}

const history = `CREATE TABLE IF NOT EXISTS fifty_migrations (
	version INTEGER NOT NULL PRIMARY KEY,
	name    TEXT    NOT NULL,
	oldest  INTEGER NOT NULL DEFAULT 1, -- the least version of a program that still works with the tables
	applied TEXT    NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT`

// ErrSchemaTooNew says that the tables belong to a newer program, which this one can't work beside.
var ErrSchemaTooNew = errors.New("sqlite: the schema is too new for this program")

// SchemaTooNewError is an ErrSchemaTooNew. Nothing was changed.
type SchemaTooNewError struct {
	Found  int // the version of the tables
	Oldest int // the least version of a program that works with them
	Known  int // the version of this program
}

func (e *SchemaTooNewError) Error() string {
	return fmt.Sprintf("sqlite: the schema has version %d, which needs a program that knows version %d; this one knows %d: deploy a newer one",
		e.Found, e.Oldest, e.Known)
}

// Unwrap returns ErrSchemaTooNew.
func (e *SchemaTooNewError) Unwrap() error { return ErrSchemaTooNew }

// Migrate makes the tables, or brings them to this version, in one transaction. Any number of processes may
// call it at once: one does it, the others wait for it. Tables of a later version are left as they are: an
// older process goes on working with them as long as what came since only adds, which the history says;
// otherwise Migrate returns a *SchemaTooNewError. On an error nothing changed, and it may be called again.
func (s *Store) Migrate(ctx context.Context) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	return s.write(ctx, "migrate", func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, history); err != nil {
			return explain("migrate", err)
		}
		var at, oldest int
		err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM fifty_migrations`).Scan(&at, &oldest)
		if err != nil {
			return explain("migrate", err)
		}
		if oldest > len(all) {
			return &SchemaTooNewError{Found: at, Oldest: oldest, Known: len(all)}
		}
		for _, m := range all[min(at, len(all)):] {
			if _, err := tx.ExecContext(ctx, m.text); err != nil {
				return explain("migrate to "+m.name, err)
			}
			if _, err := tx.ExecContext(ctx, recorded, m.version, m.name); err != nil {
				return explain("migrate to "+m.name, err)
			}
		}
		return nil
	})
}

const recorded = `INSERT INTO fifty_migrations (version, name) VALUES (?1, ?2)`

// WriteMigrations writes the SQL that Migrate would run on an empty file, for those who run it themselves.
// Migrate recognises what it did. No file is opened; an error is w's.
func WriteMigrations(w io.Writer, _ Config) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n\n" + history + ";\n")
	for _, m := range all {
		fmt.Fprintf(&b, "\n-- Version %d: %s\n\n%s\nINSERT INTO fifty_migrations (version, name) VALUES (%d, '%s');\n",
			m.version, m.name, m.text, m.version, m.name)
	}
	b.WriteString("\nCOMMIT;\n")
	_, err = io.WriteString(w, b.String())
	return err
}
