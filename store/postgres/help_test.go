package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"strings"
	"sync"
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

// saveStep saves a finished step of a claim that was won.
func saveStep[Tx any](tb testing.TB, k postgres.Keys[Tx], won idempotency.Claimed, name string) {
	tb.Helper()
	step := idempotency.StepRecord{Name: name, Sent: true, Result: []byte(`"done"`)}
	if err := k.SaveStep(tb.Context(), claimOf(won.Record), step); err != nil {
		tb.Fatal(err)
	}
}

// stepNames are the steps of a record, in order.
func stepNames(r idempotency.Record) string {
	names := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		names[i] = s.Name
	}
	return strings.Join(names, " ")
}

// age makes the records of a key as they would be had everything happened so much earlier.
func (b bundle) age(tb testing.TB, key, interval string) {
	tb.Helper()
	b.exec(tb, `update fifty.keys set created = created - $2::text::interval, changed = changed - $2::text::interval,
		buried = buried - $2::text::interval, expires = expires - $2::text::interval where key = $1`, key, interval)
}

// paused is where a statement stops that a test has put a pause into, for as long as the test likes.
const paused = "pg_advisory_xact_lock_shared(4711) is not null"

// pause holds everybody at paused until resume is called.
func (b bundle) pause(tb testing.TB) (resume func()) {
	tb.Helper()
	return b.pauseAt(tb, 4711)
}

// pauseAt is pause at another lock.
func (b bundle) pauseAt(tb testing.TB, number int64) (resume func()) {
	tb.Helper()
	conn, err := b.pool.Acquire(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Exec(tb.Context(), `select pg_advisory_lock($1)`, number); err != nil {
		tb.Fatal(err)
	}
	var once sync.Once
	resume = func() {
		once.Do(func() {
			_, err := conn.Exec(context.Background(), `select pg_advisory_unlock($1)`, number)
			conn.Release()
			if err != nil {
				tb.Error(err)
			}
		})
	}
	tb.Cleanup(resume)
	return resume
}

// untilBlocked waits until n sessions of the test's database wait for a lock.
func (b bundle) untilBlocked(tb testing.TB, n int) {
	tb.Helper()
	until(tb, b.pool, `select count(*) >= $1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`, n)
}

// lockRow holds the row of a key until unlock is called. Who comes for it meanwhile gets it in turn.
func (b bundle) lockRow(tb testing.TB, key string) (unlock func()) {
	tb.Helper()
	tx, err := b.pool.Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	unlock = func() { _ = tx.Rollback(context.Background()) }
	tb.Cleanup(unlock)
	if _, err := tx.Exec(tb.Context(), `select from fifty.keys where key = $1 for update`, key); err != nil {
		tb.Fatal(err)
	}
	return unlock
}

// later is the result of a call on a goroutine of its own.
func later[T any](fn func() (T, error)) func() (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	return func() (T, error) {
		r := <-done
		return r.v, r.err
	}
}
