package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// What the sale is like.
const (
	saleCallers = 256
	saleTTL     = 15 * time.Minute
	salePool    = 8 // connections of our side
	saleSKU     = "tee-black-m"
	saleSupply  = 1 << 31
)

// The pools that the hand-written side is given: the best one counts.
var handPools = []int{4, 8, 16, 32, 64}

// The hand-written sides work on tables with the columns, types, checks, indexes and free space of Fifty's.
var handStockTables = []string{
	`create table hand_stock (like fifty.stock including all) with (fillfactor = 20)`,
	`create table hand_holds (like fifty.holds including all) with (fillfactor = 90)`,
}

// handReserve is the textbook statement: take if there is enough, and write the reservation. An id that comes
// again fails by the primary key.
const handReserve = `with took as (
    update hand_stock
    set available = available - $3::bigint, held = held + $3::bigint
    where sku = $2::text and bucket = 0 and available >= $3::bigint
    returning sku
)
insert into hand_holds (id, sku, quantity, state, expires, reserved)
select $1::text, sku, $3::bigint, 1, ceil(extract(epoch from clock_timestamp() + $4::bigint * interval '1 microsecond')), clock_timestamp()
from took`

// handAgain is the same where ids come again: a known one is answered with its state and takes nothing.
const handAgain = `with known as materialized (
    select state from hand_holds where id = $1::text
),
took as (
    update hand_stock
    set available = available - $3::bigint, held = held + $3::bigint
    where sku = $2::text and bucket = 0 and available >= $3::bigint and not exists (select from known)
    returning 1
),
made as (
    insert into hand_holds (id, sku, quantity, state, expires, reserved)
    select $1::text, $2::text, $3::bigint, 1, ceil(extract(epoch from clock_timestamp() + $4::bigint * interval '1 microsecond')), clock_timestamp()
    from took
    returning state
)
select state from known union all select state from made`

// handRefuse is the same where there is not enough: the refusal is counted, since their number is bounded, and
// written down, since it must stay.
const handRefuse = `with took as (
    update hand_stock
    set available = available - $3::bigint, held = held + $3::bigint
    where sku = $2::text and bucket = 0 and available >= $3::bigint
    returning 1 as state
),
refused as (
    update hand_stock
    set refusals = refusals + 1
    where sku = $2::text and bucket = 0 and available < $3::bigint
    returning 4 as state
)
insert into hand_holds (id, sku, quantity, state, expires, reserved)
select $1::text, $2::text, $3::bigint, state, ceil(extract(epoch from clock_timestamp() + $4::bigint * interval '1 microsecond')), clock_timestamp()
from (select state from took union all select state from refused) as decided`

// handSeveral takes one unit of each of some SKUs, or none: it locks their rows in order first, and writes the
// order's items as JSON.
const handSeveral = `with locked as materialized (
    select sku, available from hand_stock where sku = any ($2::text[]) and bucket = 0 order by sku for update
),
enough as materialized (
    select count(*) = cardinality($2::text[]) as yes from locked where available >= 1
),
took as (
    update hand_stock s
    set available = s.available - 1, held = s.held + 1
    from locked
    where s.sku = locked.sku and s.bucket = 0 and s.available >= 1 and (select yes from enough)
    returning 1
)
insert into hand_holds (id, items, state, expires, reserved)
select $1::text, $3::jsonb, 1, ceil(extract(epoch from clock_timestamp() + $4::bigint * interval '1 microsecond')), clock_timestamp()
from (select count(*) as rows from took) t
where t.rows = cardinality($2::text[])`

// sale is what a case has: Fifty's stock and the hand-written one, in one database.
type sale struct {
	url   string
	pool  *pgxpool.Pool
	store *postgres.Store[pgx.Tx]
	stock *inventory.TxStock[pgx.Tx]
}

// newSale makes the tables and supplies both sides with units of each SKU.
func newSale(ctx context.Context, b *bench, units int64, skus ...string) (*sale, error) {
	url, err := b.Postgres(ctx)
	if err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, b, url, salePool)
	if err != nil {
		return nil, err
	}
	store := postgres.New(pool, postgres.Config{})
	if err := store.Migrate(ctx); err != nil {
		return nil, err
	}
	s := &sale{url: url, pool: pool, store: store, stock: inventory.NewTx(store.Stock(), inventory.Config{RefusalsMax: 1 << 40})}
	for _, ddl := range handStockTables {
		if _, err := pool.Exec(ctx, ddl); err != nil {
			return nil, fmt.Errorf("%s: %w", ddl, err)
		}
	}
	for at := 0; at < len(skus) && units > 0; at += inventory.ItemsMax {
		items := inventory.Items{}
		for _, sku := range skus[at:min(at+inventory.ItemsMax, len(skus))] {
			items[sku] = units
		}
		if err := s.stock.Supply(ctx, fmt.Sprint("delivery ", at), items); err != nil {
			return nil, err
		}
	}
	_, err = pool.Exec(ctx, `insert into hand_stock select * from fifty.stock`)
	return s, err
}

func openPool(ctx context.Context, b *bench, url string, connections int) (*pgxpool.Pool, error) {
	pool, err := connect(ctx, url, connections)
	if err == nil {
		b.Cleanup(func() error { pool.Close(); return nil })
	}
	return pool, err
}

// connect opens a pool with all of its connections.
func connect(ctx context.Context, url string, connections int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns = int32(connections), int32(connections) //nolint:gosec // at most 64
	return pgxpool.NewWithConfig(ctx, cfg)
}

// reserve is one order of ours.
func (s *sale) reserve(items inventory.Items) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		_, err := s.stock.Reserve(ctx, saleID(), items, saleTTL)
		return err
	}
}

// byHand are the hand-written sides: one statement, over each pool. args are those before the time to live.
func (s *sale) byHand(ctx context.Context, b *bench, pools []int, statement string, args func(worker int) []any) ([]Side, error) {
	var sides []Side
	for _, connections := range pools {
		pool, err := openPool(ctx, b, s.url, connections)
		if err != nil {
			return nil, err
		}
		sides = append(sides, Side{Name: fmt.Sprintf("by hand, pool of %d", connections), Op: handOp(pool, statement, args)})
	}
	return sides, nil
}

func handOp(pool *pgxpool.Pool, statement string, args func(worker int) []any) func(context.Context, int) error {
	return func(ctx context.Context, worker int) error {
		tag, err := pool.Exec(ctx, statement, append(args(worker), saleTTL.Microseconds())...)
		if err == nil && tag.RowsAffected() != 1 {
			err = errors.New("the statement by hand did nothing")
		}
		return err
	}
}

// oneUnit are the arguments of an order for a unit.
func oneUnit(int) []any { return []any{saleID(), saleSKU, int64(1)} }

// saleID is a UUID of version 7, made without a system call: what it costs counts on both sides.
func saleID() string {
	const version, variant = 0x7000, 1 << 63
	ms := uint64(time.Now().UnixMilli()) //nolint:gosec // after 1970
	high := ms<<16 | version | rand.Uint64()>>52
	low := variant | rand.Uint64()>>2
	var u [16]byte
	for i := range 8 {
		u[i], u[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	var text [36]byte
	at := 0
	for i, part := range [][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], part)
	}
	return string(text[:])
}
