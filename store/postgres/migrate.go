package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/fiftyhosts/fifty/txn"
)

// ErrSchemaTooNew says that the tables belong to a newer program, which this one can't work beside.
var ErrSchemaTooNew = errors.New("postgres: the schema is too new for this program")

// SchemaTooNewError is an ErrSchemaTooNew. Nothing was changed.
type SchemaTooNewError struct {
	Found  int // the version of the tables
	Oldest int // the least version of a program that works with them
	Known  int // the version of this program
}

func (e *SchemaTooNewError) Error() string {
	return fmt.Sprintf("postgres: the schema has version %d, which needs a program that knows version %d; this one knows %d: deploy a newer one",
		e.Found, e.Oldest, e.Known)
}

// Unwrap returns ErrSchemaTooNew.
func (e *SchemaTooNewError) Unwrap() error { return ErrSchemaTooNew }

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the tables. Its first line, "-- oldest: N", names the oldest version whose
// programs still work once it is applied: 1 for as long as it only adds. So fifty hosts can be upgraded one
// after the other, and a migration that does not only add says so in one place.
type migration struct {
	version int
	name    string
	oldest  int
	text    string
}

// migrations are in order of version, which counts from 1 without a gap.
var migrations = sync.OnceValue(func() []migration {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		panic(err)
	}
	all := make([]migration, len(names))
	for i, name := range names {
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all[i], err = parseMigration(name, string(text))
		if err == nil && all[i].version != i+1 {
			err = fmt.Errorf("is version %d; %d is the next", all[i].version, i+1)
		}
		if err != nil {
			panic(fmt.Sprintf("postgres: migration %s: %v", name, err))
		}
	}
	return all
})

func parseMigration(path, text string) (migration, error) {
	m := migration{name: strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".sql"), text: text}
	number, _, _ := strings.Cut(m.name, "_")
	oldest, _, _ := strings.Cut(strings.TrimPrefix(text, "-- oldest: "), "\n")
	var err error
	if m.version, err = strconv.Atoi(number); err != nil {
		return m, err
	}
	if m.oldest, err = strconv.Atoi(oldest); err != nil {
		return m, fmt.Errorf("its first line must be \"-- oldest: N\": %w", err)
	}
	if m.oldest < 1 || m.oldest > m.version {
		return m, fmt.Errorf("oldest is %d; it can be 1 to %d", m.oldest, m.version)
	}
	return m, nil
}

// in is the migration's SQL for a schema.
func (m migration) in(schema string) string {
	return strings.ReplaceAll(m.text, "{schema}", quote(schema))
}

// Migrate brings the tables to the version of this program, each step in a transaction. Any number of
// hosts may do it at once: one does the work, the others wait for it. With nothing to do it only reads,
// so a role that can't create anything can call it then. After an error the steps that were committed
// stay; call it again.
//
// Tables of a newer program are left as they are. Migrations only add, so this is no error; if one ever
// does more, the tables say which programs can't work with them any more, and those get a
// *SchemaTooNewError.
func (s *Store[Tx]) Migrate(ctx context.Context) error {
	known := len(migrations())
	for range known + 1 {
		at, err := s.schemaVersion(ctx, s.run)
		if err != nil {
			return err
		}
		if at.version >= known {
			return at.check(known)
		}
		opts := txn.Options{Isolation: txn.ReadCommitted} // the look after the lock must see what its last holder did
		err = s.transact(ctx, opts, func(ctx context.Context, tx Tx) error {
			q := s.engine.in(tx)
			return s.migrateNext(ctx, func(ctx context.Context, c *call) error { return q.run(ctx, c) })
		})
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("postgres: migrate: the schema went back while it was migrated")
}

type runner func(ctx context.Context, c *call) error

// migrateNext applies the next migration within a transaction, unless another host was quicker.
func (s *Store[Tx]) migrateNext(ctx context.Context, run runner) error {
	if err := run(ctx, s.statements.migrationsLock.with(s.cfg.Schema)); err != nil {
		return err
	}
	at, err := s.schemaVersion(ctx, run)
	if err != nil || at.version >= len(migrations()) {
		return err
	}
	if !at.schema { // "if not exists" asks for the right to create a schema even when it is there
		if err := run(ctx, s.statements.migrationsSchema.with()); err != nil {
			return err
		}
	}
	if !at.table {
		if err := run(ctx, s.statements.migrationsCreate.with()); err != nil {
			return err
		}
	}
	m := migrations()[at.version]
	if err := run(ctx, statement{"migrate " + m.name, m.in(s.cfg.Schema)}.with()); err != nil {
		return err
	}
	return run(ctx, s.statements.migrationsAdd.with(int64(m.version), m.name, int64(m.oldest)))
}

// schemaState is what is there before a migration.
type schemaState struct {
	schema, table   bool
	version, oldest int
}

func (at schemaState) check(known int) error {
	if at.oldest > known {
		return &SchemaTooNewError{Found: at.version, Oldest: at.oldest, Known: known}
	}
	return nil
}

func (s *Store[Tx]) schemaVersion(ctx context.Context, run runner) (at schemaState, err error) {
	err = run(ctx, s.statements.migrationsTable.with(s.cfg.Schema).into(&at.schema, &at.table))
	if err != nil || !at.table {
		return at, err
	}
	var version, oldest int64
	err = run(ctx, s.statements.migrationsVersion.with().into(&version, &oldest))
	at.version, at.oldest = int(version), int(oldest)
	return at, err
}

// WriteMigrations writes the SQL that Migrate runs on an empty database, for another migration tool. It
// records itself, so that Migrate then finds nothing to do. The error is w's, or a *fifty.InvalidError
// about cfg.
func WriteMigrations(w io.Writer, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	schema := cfg.withDefaults().Schema
	sql := statementsFor(schema)
	var text strings.Builder
	fmt.Fprintf(&text, "-- Fifty's tables for PostgreSQL, version %d.\n\nbegin;\n%s;\n%s;\ncommit;\n",
		len(migrations()), sql.migrationsSchema.text, sql.migrationsCreate.text)
	for _, m := range migrations() {
		fmt.Fprintf(&text, "\n-- %s\nbegin;\n%s\ninsert into %s.migrations (version, name, oldest) values (%d, '%s', %d);\ncommit;\n",
			m.name, strings.TrimSpace(m.in(schema)), quote(schema), m.version, m.name, m.oldest)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
