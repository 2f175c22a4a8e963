package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// patience bounds what must happen; it is never waited out unless it doesn't.
const patience = 20 * time.Second

func newPool(tb testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.MaxConns = 8
	for _, fn := range change {
		fn(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func newDB(tb testing.TB, url string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func migrated[Tx any](tb testing.TB, s *postgres.Store[Tx]) *postgres.Store[Tx] {
	tb.Helper()
	if err := s.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// bundle is a migrated store on a database of the test's own.
type bundle struct {
	*postgres.Store[pgx.Tx]
	url  string
	pool *pgxpool.Pool
}

func setup(tb testing.TB) bundle { return setupOn(tb, testenv.Postgres(tb).Database(tb)) }

func setupOn(tb testing.TB, url string) bundle {
	tb.Helper()
	pool := newPool(tb, url)
	return bundle{migrated(tb, postgres.New(pool, postgres.Config{})), url, pool}
}

func (b bundle) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := b.pool.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// one reads one value.
func one[T any](tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	tb.Helper()
	var v T
	if err := pool.QueryRow(tb.Context(), sql, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}

// until waits until sql, which reads a boolean, is true.
func until(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		if err := pool.QueryRow(ctx, sql, args...).Scan(&yes); err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
		if yes {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("it never became true: %s", sql)
		}
	}
}

func request(key string) idempotency.Request {
	return idempotency.Request{Scope: "acme", Key: key, Fingerprint: idempotency.FingerprintOf("charge", 500)}
}

func attempt(key string) idempotency.Attempt {
	return idempotency.Attempt{ID: rand.Text(), Request: request(key), Owner: "host/1", Lease: time.Hour}
}

func claimOf(r idempotency.Record) idempotency.Claim {
	return idempotency.Claim{Scope: r.Request.Scope, Key: r.Request.Key, Token: r.Token, Attempt: r.Attempt}
}

func created(id string) idempotency.Response {
	return idempotency.Response{Status: 201, Header: map[string][]string{"Location": {"/charges/" + id}}, Body: []byte(id)}
}

func claim[Tx any](tb testing.TB, k postgres.Keys[Tx], a idempotency.Attempt) idempotency.Claimed {
	tb.Helper()
	all, err := k.Claim(tb.Context(), []idempotency.Attempt{a})
	if err != nil {
		tb.Fatal(err)
	}
	return all[0]
}

func complete[Tx any](tb testing.TB, k postgres.Keys[Tx], c idempotency.Completion) error {
	tb.Helper()
	all, err := k.Complete(tb.Context(), []idempotency.Completion{c})
	if err != nil {
		tb.Fatal(err)
	}
	return all[0]
}
