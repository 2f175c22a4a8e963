package sandbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Dialect is the database that a SQL ledger speaks to.
type Dialect int

// The dialects.
const (
	SQLite Dialect = iota + 1
	Postgres
)

// SQL is a Ledger in a table of its own, fifty_sandbox_charges (on Postgres fifty.sandbox_charges). It is
// safe for concurrent use, by any number of processes.
type SQL struct {
	db *sql.DB
	q  statements
}

type statements struct{ exists, insert, find, list string }

var sqliteStatements = statements{
	exists: `select count(*) from sqlite_master where type = 'table' and name = 'fifty_sandbox_charges'`,
	insert: `insert into fifty_sandbox_charges (id, account, amount, currency, created_us)
values (?1, ?2, ?3, ?4, ?5)`,
	find: `select id, account, amount, currency, created_us
from fifty_sandbox_charges
where id = ?1`,
	list: `select id, account, amount, currency, created_us
from fifty_sandbox_charges
where seq > coalesce((select seq from fifty_sandbox_charges where id = ?1), 0)
  and (?2 = '' or account = ?2)
order by seq
limit ?3`,
}

var postgresStatements = statements{
	exists: `select count(*) from pg_tables where schemaname = 'fifty' and tablename = 'sandbox_charges'`,
	insert: `insert into fifty.sandbox_charges (id, account, amount, currency, created_us)
values ($1, $2, $3, $4, $5)`,
	find: `select id, account, amount, currency, created_us
from fifty.sandbox_charges
where id = $1`,
	list: `select id, account, amount, currency, created_us
from fifty.sandbox_charges
where seq > coalesce((select seq from fifty.sandbox_charges where id = $1), 0)
  and ($2::text = '' or account = $2::text)
order by seq
limit $3`,
}

const sqliteCreate = `create table if not exists fifty_sandbox_charges (
	seq        integer primary key autoincrement,
	id         text    not null unique,
	account    text    not null,
	amount     integer not null check (amount > 0),
	currency   text    not null,
	created_us integer not null
) strict`

// postgresLock is the lock under which store/postgres makes the schema: without it two hosts could both find
// the schema or the table missing, and one would fail.
const postgresLock = `select pg_advisory_xact_lock(50, hashtext('fifty'))`

const postgresHasSchema = `select count(*) from pg_namespace where nspname = 'fifty'`

const postgresSchema = `create schema fifty` // "if not exists" asks for the right to make one even when it is there

const postgresCreate = `create table if not exists fifty.sandbox_charges (
	seq        bigint generated always as identity primary key,
	id         text   not null unique,
	account    text   not null,
	amount     bigint not null check (amount > 0),
	currency   text   not null,
	created_us bigint not null
)`

// NewSQL returns the ledger in db, making its table if it isn't there; fifty hosts may do so at once. The
// caller closes db, after the last use. ctx governs the making of the table only. On an error the table may
// have been made, which does no harm.
func NewSQL(ctx context.Context, db *sql.DB, dialect Dialect) (*SQL, error) {
	var l *SQL
	var create func(context.Context, *sql.DB) error
	switch dialect {
	case SQLite:
		l, create = &SQL{db: db, q: sqliteStatements}, createSQLite
	case Postgres:
		l, create = &SQL{db: db, q: postgresStatements}, createPostgres
	default:
		return nil, fmt.Errorf("sandbox: dialect %d is not one of SQLite and Postgres", dialect)
	}
	// With the table there nothing is made: a role that can only read and write will do.
	there, err := l.has(ctx)
	if err == nil && !there {
		err = create(ctx, db)
	}
	if err != nil {
		return nil, fmt.Errorf("sandbox: make the ledger's table: %w", err)
	}
	return l, nil
}

func (l *SQL) has(ctx context.Context) (bool, error) {
	var n int
	err := l.db.QueryRowContext(ctx, l.q.exists).Scan(&n)
	return n > 0, err
}

func createSQLite(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, sqliteCreate)
	return err
}

func createPostgres(ctx context.Context, db *sql.DB) error {
	// What is read after the lock must be what its last holder left.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	if _, err := tx.ExecContext(ctx, postgresLock); err != nil {
		return err
	}
	var schemas int
	if err := tx.QueryRowContext(ctx, postgresHasSchema).Scan(&schemas); err != nil {
		return err
	}
	if schemas == 0 {
		if _, err := tx.ExecContext(ctx, postgresSchema); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, postgresCreate); err != nil {
		return err
	}
	return tx.Commit()
}

// Add books one charge and returns when it is committed. After an error it may be booked or not.
func (l *SQL) Add(ctx context.Context, c Charge) error {
	// Linearization point: the commit of this one insert. Nothing is compared, nobody loses.
	_, err := l.db.ExecContext(ctx, l.q.insert, c.ID, c.Account, c.Amount, c.Currency, c.Created.UnixMicro())
	if err != nil {
		return fmt.Errorf("sandbox: add %s: %w", c.ID, err)
	}
	return nil
}

// Find returns a charge, or ErrNotFound.
func (l *SQL) Find(ctx context.Context, id string) (Charge, error) {
	c, err := scan(l.db.QueryRowContext(ctx, l.q.find, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Charge{}, ErrNotFound
	}
	if err != nil {
		return Charge{}, fmt.Errorf("sandbox: find %s: %w", id, err)
	}
	return c, nil
}

// List returns a page, the newest last, or ErrNotFound if q.After names no charge.
func (l *SQL) List(ctx context.Context, q Query) (page []Charge, err error) {
	if q.After != "" {
		// Charges are never deleted, so what is found here is there for the next statement.
		if _, err := l.Find(ctx, q.After); err != nil {
			return nil, err
		}
	}
	rows, err := l.db.QueryContext(ctx, l.q.list, q.After, q.Account, q.limit())
	if err != nil {
		return nil, fmt.Errorf("sandbox: list: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		c, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("sandbox: list: %w", err)
		}
		page = append(page, c)
	}
	return page, rows.Err()
}

func scan(row interface{ Scan(into ...any) error }) (Charge, error) {
	var c Charge
	var us int64
	err := row.Scan(&c.ID, &c.Account, &c.Amount, &c.Currency, &us)
	c.Created = time.UnixMicro(us).UTC()
	return c, err
}
