package lab

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// world says where the tables of one run are.
type world struct {
	File   string `json:"file,omitempty"`   // of SQLite
	URL    string `json:"url,omitempty"`    // of Postgres
	Schema string `json:"schema,omitempty"` // and the schema in it
	Conns  int    `json:"conns,omitempty"`  // a process keeps so many connections open
}

// connsMax is how many connections one process has at most: a call and a heartbeat.
const connsMax = 4

// A Database is where a run keeps everything: the tables of Fifty, those of the scenario, on SQLite or
// Postgres. The scenarios' SQL runs on both; now_ms() in it stands for the database's clock in milliseconds.
// It is safe for concurrent use.
type Database struct {
	// Keys are the idempotency keys of the store.
	Keys Keys

	sql   *sql.DB
	now   string
	close func() error
}

// Keys is what a store offers for idempotency keys, with transactions of database/sql.
type Keys interface {
	idempotency.TxStore[*sql.Tx]
	idempotency.OperatorStore
}

// openWorld opens the tables of a run.
func openWorld(ctx context.Context, w world) (*Database, error) {
	db, _, err := open(ctx, w)
	return db, err
}

// makeWorld makes the tables of a run and opens them.
func makeWorld(ctx context.Context, w world, tables []string) (*Database, error) {
	db, migrate, err := open(ctx, w)
	if err != nil {
		return nil, err
	}
	err = migrate(ctx)
	for _, statement := range tables {
		if err == nil {
			_, err = db.Exec(ctx, statement)
		}
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func open(ctx context.Context, w world) (db *Database, migrate func(context.Context) error, err error) {
	if w.File != "" {
		store, err := sqlite.Open(ctx, w.File, sqlite.Config{})
		if err != nil {
			return nil, nil, err
		}
		return &Database{
			Keys: store.Keys(), sql: store.DB(), close: store.Close,
			now: `cast(unixepoch('subsec') * 1000 as integer)`,
		}, store.Migrate, nil
	}
	cfg, err := pgx.ParseConfig(w.URL)
	if err != nil {
		return nil, nil, errors.New("the database's URL can't be read") // the parser's own error may quote it
	}
	cfg.RuntimeParams["search_path"] = w.Schema
	pool := stdlib.OpenDB(*cfg)
	pool.SetMaxOpenConns(connsMax)
	pool.SetMaxIdleConns(w.Conns)
	store := postgres.NewDB(pool, postgres.Config{Schema: w.Schema})
	return &Database{
		Keys: store.Keys(), sql: pool, close: pool.Close,
		now: `cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`,
	}, store.Migrate, nil
}

// Close closes it.
func (d *Database) Close() error { return d.close() }

func (d *Database) text(query string) string { return strings.ReplaceAll(query, "now_ms()", d.now) }

// Exec runs a statement that returns no rows, and says how many it changed.
func (d *Database) Exec(ctx context.Context, query string, args ...any) (changed int64, err error) {
	res, err := d.sql.ExecContext(ctx, d.text(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// QueryRow runs a query for one row.
func (d *Database) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return d.sql.QueryRowContext(ctx, d.text(query), args...)
}

// InTx runs fn in a transaction, which is committed unless fn fails.
func (d *Database) InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := d.sql.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(ctx, tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// ExecTx is Exec in a transaction of InTx, or one of Fifty's.
func (d *Database) ExecTx(ctx context.Context, tx *sql.Tx, query string, args ...any) (changed int64, err error) {
	res, err := tx.ExecContext(ctx, d.text(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
