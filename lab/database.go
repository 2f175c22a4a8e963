package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/store/sqlite"
	"github.com/fiftyhosts/fifty/txn"
)

// world says where the tables of one run are.
type world struct {
	File   string `json:"file,omitempty"`   // of SQLite
	URL    string `json:"url,omitempty"`    // of Postgres
	Schema string `json:"schema,omitempty"` // and the schema in it
	Conns  int    `json:"conns,omitempty"`  // a process keeps so many connections open
}

// connsMax is how many connections one process has at most, and how many of its calls are served at once.
const connsMax = 4

// lockNotAvailable is Postgres's code for a lock that was waited for too long.
const lockNotAvailable = "55P03"

// A Database is where a run keeps everything: the tables of Fifty, those of the scenario, on SQLite or
// Postgres. The scenarios' SQL runs on both; now_ms() in it stands for the database's clock in milliseconds, and
// "for update" is left away where a transaction locks the whole file anyway. It is safe for concurrent use.
type Database struct {
	// Keys are the idempotency keys of the store.
	Keys Keys
	// Stock is the store's inventory.
	Stock Stock

	sql *sql.DB
	dialect
	close func() error
}

// dialect is where SQLite and Postgres differ.
type dialect struct {
	now       string               // for now_ms()
	forUpdate string               // for " for update"
	begins    string               // how a transaction that locks a row first begins, for people
	patience  string               // sets how many milliseconds a connection waits for a lock
	locked    func(err error) bool // the wait was too long
	oneFile   bool                 // there are no row locks, and one writer at a time
}

// Keys is what a store offers for idempotency keys, with transactions of database/sql.
type Keys interface {
	idempotency.TxStore[*sql.Tx]
	idempotency.OperatorStore
}

// Stock is what a store offers for inventory, with transactions of database/sql.
type Stock interface {
	inventory.TxStore[*sql.Tx]
	inventory.LedgerStore
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
		store.DB().SetMaxOpenConns(connsMax)
		return &Database{
			Keys: store.Keys(), Stock: store.Stock(), sql: store.DB(), close: store.Close,
			dialect: dialect{
				now:      `cast(unixepoch('subsec') * 1000 as integer)`,
				begins:   "begin immediate; select stock …",
				patience: `pragma busy_timeout = %d`,
				locked:   func(err error) bool { return store.Txns().Classify(err) == txn.Retryable },
				oneFile:  true,
			},
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
		Keys: store.Keys(), Stock: store.Stock(), sql: pool, close: pool.Close,
		dialect: dialect{
			now:       `cast(extract(epoch from clock_timestamp()) * 1000 as bigint)`,
			forUpdate: " for update",
			begins:    "begin; select stock … for update",
			patience:  `set lock_timeout = %d`,
			locked: func(err error) bool {
				e, ok := errors.AsType[*pgconn.PgError](err)
				return ok && e.Code == lockNotAvailable
			},
		},
	}, store.Migrate, nil
}

// Close closes it.
func (d *Database) Close() error { return d.close() }

func (d *Database) text(query string) string {
	return strings.NewReplacer("now_ms()", d.now, " for update", d.forUpdate).Replace(query)
}

// Widen lets this process have so many connections, opens them, and keeps them.
func (d *Database) Widen(ctx context.Context, connections int) (err error) {
	d.sql.SetMaxOpenConns(connections)
	d.sql.SetMaxIdleConns(connections)
	var all []*sql.Conn
	for range connections {
		conn, opening := d.sql.Conn(ctx)
		if err = opening; err != nil {
			break
		}
		all = append(all, conn)
	}
	for _, conn := range all {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// Conn takes a connection, or waits until one is free. It is the caller's to close.
func (d *Database) Conn(ctx context.Context) (*sql.Conn, error) { return d.sql.Conn(ctx) }

// InUse is how many connections are taken.
func (d *Database) InUse() int { return d.sql.Stats().InUse }

// Begin begins a transaction on a connection that waits for no lock longer than patience, then and later.
// Locked tells the error of a wait that was too long.
func (d *Database) Begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (*sql.Tx, error) {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(d.patience, patience.Milliseconds())); err != nil {
		return nil, err
	}
	return conn.BeginTx(ctx, nil)
}

// Locked says whether an error is that of a wait for a lock which was too long.
func (d *Database) Locked(err error) bool { return d.locked(err) }

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

// QueryRowTx is QueryRow in a transaction.
func (d *Database) QueryRowTx(ctx context.Context, tx *sql.Tx, query string, args ...any) *sql.Row {
	return tx.QueryRowContext(ctx, d.text(query), args...)
}

// ExecTx is Exec in a transaction of InTx, or one of Fifty's.
func (d *Database) ExecTx(ctx context.Context, tx *sql.Tx, query string, args ...any) (changed int64, err error) {
	res, err := tx.ExecContext(ctx, d.text(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
