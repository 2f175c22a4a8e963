package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// pgWorkers is how many clients a throughput case on Postgres has, and how many connections either side.
const pgWorkers = 16

// postgresCases are those of store/postgres.
var postgresCases = slices.Concat(postgresTxCases, postgresReplayCases, postgresScaleCases, postgresSweepCases)

// pgWorld is what a case on Postgres has: Fifty's tables, the table of the business, and the table of the
// hand-written side, which is the same as Fifty's, with its indexes.
type pgWorld struct {
	url   string
	pool  *pgxpool.Pool // of both sides: they never work at the same time
	store *postgres.Store[pgx.Tx]
	keys  *idempotency.TxKeys[pgx.Tx]
	made  atomic.Int64
	salt  string
}

// The business writes an order. Both sides write it by this statement.
const (
	ordersTable = `create table orders (
    id       bigint generated always as identity primary key,
    customer text    not null,
    amount   integer not null
)`
	orderInsert = `insert into orders (customer, amount) values ($1::text, $2::integer) returning id`
)

// handTable is where the hand-written sides keep their records: the columns, types, collations, indexes and
// free space of fifty.keys, without its checks.
const handTable = `create table records (like fifty.keys including defaults including generated including indexes including storage)
with (fillfactor = 50)`

func newPgWorld(ctx context.Context, b *bench) (*pgWorld, error) {
	url, err := b.Postgres(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = pgWorkers, pgWorkers
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() error { pool.Close(); return nil })
	store := postgres.New(pool, postgres.Config{})
	if err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	for _, ddl := range []string{ordersTable, handTable} {
		if _, err := pool.Exec(ctx, ddl); err != nil {
			return nil, fmt.Errorf("%s: %w", ddl, err)
		}
	}
	w := &pgWorld{url: url, pool: pool, store: store, salt: strings.ToLower(rand.Text()[:8])}
	w.keys = idempotency.NewTx(store.Keys(), idempotency.Config{Owner: handOwner})
	return w, nil
}

// overSQL is the same through database/sql, with as many connections.
func (w *pgWorld) overSQL(b *bench) (*sql.DB, *idempotency.TxKeys[*sql.Tx], error) {
	db, err := sql.Open("pgx", w.url)
	if err != nil {
		return nil, nil, err
	}
	b.Cleanup(db.Close)
	db.SetMaxOpenConns(pgWorkers)
	db.SetMaxIdleConns(pgWorkers)
	return db, idempotency.NewTx(postgres.NewDB(db, postgres.Config{}).Keys(), idempotency.Config{Owner: handOwner}), nil
}

// key is a new one each time, of the length of a UUID.
func (w *pgWorld) key() string { return fmt.Sprintf("%s-%027d", w.salt, w.made.Add(1)) }

const (
	benchScope = "acct_1NvTqk2eZvKYlo2C"
	handOwner  = "bench-host/1"
	customer   = "cus_NffrFeUfNV2Hib"
)

var benchPrint = idempotency.FingerprintOf("POST", "/orders", customer, 1999)

func benchRequest(key string) idempotency.Request {
	return idempotency.Request{Scope: benchScope, Key: key, Fingerprint: benchPrint}
}

// orderAnswer is what the client gets: it names the order's id, which the database gave.
func orderAnswer(id int64) idempotency.Response {
	return idempotency.Response{
		Status: 201,
		Header: map[string][]string{"Content-Type": {"application/json"}, "Location": {fmt.Sprint("/orders/", id)}},
		Body:   fmt.Appendf(nil, `{"id":%d,"customer":%q,"amount":1999,"currency":"eur","state":"accepted"}`, id, customer),
	}
}

// order is the work of a request.
func order(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
	var id int64
	if err := tx.QueryRow(ctx, orderInsert, customer, 1999).Scan(&id); err != nil {
		return idempotency.Response{}, err
	}
	return orderAnswer(id), nil
}
