package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/server/sandbox"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// postgresConns is how many connections a gateway holds at most, unless the URL says pool_max_conns. A
// claim or completion holds one for a round trip, not for the time of the work.
const postgresConns = 16

func noWarnings(context.Context) ([]string, error) { return nil, nil }

func openMemory() *Backend {
	store := memory.New(memory.Config{})
	ledger := sandbox.NewMemory()
	return &Backend{
		Name:    "memory: (gone when this process ends)",
		Keys:    store.Keys(),
		migrate: store.Migrate,
		secret:  store.Secret,
		check:   noWarnings,
		ledger:  func(context.Context) (sandbox.Ledger, error) { return ledger, nil },
		close:   func() error { return nil },
		wait:    BackendWaitMax,
	}
}

func openSQLite(ctx context.Context, path string) (*Backend, error) {
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, &BackendError{Name: "sqlite://" + path, Hint: hintOf(err), Cause: err}
	}
	return &Backend{
		Name:    "sqlite://" + path,
		Keys:    store.Keys(),
		migrate: store.Migrate,
		secret:  store.Secret,
		check:   noWarnings,
		ledger: func(ctx context.Context) (sandbox.Ledger, error) {
			return sandbox.NewSQL(ctx, store.DB(), sandbox.SQLite)
		},
		close: store.Close,
		wait:  BackendWaitMax,
	}, nil
}

func writeSQLiteMigrations(w io.Writer) error { return sqlite.WriteMigrations(w, sqlite.Config{}) }

func openPostgres(ctx context.Context, dbURL string) (*Backend, error) {
	// The parsers' own errors may quote the URL, so only what they found wrong is told.
	u, err := url.Parse(dbURL)
	if err != nil {
		return nil, &URLError{"the postgres URL can't be read; letters such as / ? # @ in a password are written as %2F %3F %23 %40"}
	}
	cfg, err := pgxpool.ParseConfig(dbURL)
	if err != nil {
		return nil, &URLError{"the options of " + withoutSecrets(u) + " can't be used"}
	}
	if !u.Query().Has("pool_max_conns") {
		cfg.MaxConns = postgresConns
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = backendConnectMax
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, &BackendError{Name: withoutSecrets(u), Cause: err}
	}
	store := postgres.New(pool, postgres.Config{})
	db := stdlib.OpenDBFromPool(pool)
	return &Backend{
		Name:    withoutSecrets(u),
		Keys:    store.Keys(),
		migrate: store.Migrate,
		secret:  store.Secret,
		check:   store.Check,
		ledger: func(ctx context.Context) (sandbox.Ledger, error) {
			return sandbox.NewSQL(ctx, db, sandbox.Postgres)
		},
		close: func() error {
			err := db.Close()
			pool.Close()
			return err
		},
		wait: BackendWaitMax,
	}, nil
}

func writePostgresMigrations(w io.Writer) error {
	return postgres.WriteMigrations(w, postgres.Config{})
}

// SQLSTATEs that a start can meet.
const (
	pgStarting        = "57P03"
	pgTooMany         = "53300"
	pgBadPassword     = "28P01"
	pgBadAuth         = "28000"
	pgNoDatabase      = "3D000"
	pgNotAllowed      = "42501"
	pgReadOnly        = "25006"
	pgAdminShutdown   = "57P01"
	pgCrashedShutdown = "57P02"
)

// unreachableDB says whether a database may be there a little later: nobody answers, or it is just
// starting, stopping or full.
func unreachableDB(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case pgStarting, pgTooMany, pgAdminShutdown, pgCrashedShutdown:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, network := errors.AsType[*net.OpError](err) // net.Error would take errors of files too
	return network || errors.Is(err, context.DeadlineExceeded)
}

// hintOf says what to do about an error of a database, or "" where the error says it.
func hintOf(err error) string {
	if strings.Contains(err.Error(), "call Migrate") { // both stores say so of tables that are missing
		return "run \"fifty migrate\" on it, or name another one in --db or FIFTY_DB"
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case pgBadPassword, pgBadAuth:
			return "check user and password in --db or FIFTY_DB, and the server's pg_hba.conf"
		case pgNoDatabase:
			return "create the database, or name another one in --db or FIFTY_DB"
		case pgNotAllowed:
			return "let this role create schema fifty and its tables, or apply what \"fifty migrate --print\" prints as a role that may"
		case pgReadOnly:
			return "connect to the primary"
		case pgTooMany:
			return "raise the server's max_connections, or lower pool_max_conns in the URL"
		}
		return ""
	}
	switch {
	case unreachableDB(err):
		return "start it, or name another one in --db or FIFTY_DB"
	case errors.Is(err, fs.ErrPermission):
		return "let this user read and write the file and its folder, or name another file in --db or FIFTY_DB"
	case errors.Is(err, fs.ErrNotExist):
		return "make the folder, or name another file in --db or FIFTY_DB"
	}
	return ""
}
