package postgres

import "strings"

// stockStatements is all SQL of the stock, for one schema. Like statements it is a value, so that a test can
// break one of them.
//
// States of a hold are written as in inventory.State: 1 held, 2 confirmed, 3 released, 4 refused, 5 lapsed.
type stockStatements struct {
	enter, lock, levels, holds     statement
	reserveOne, freshOne           statement // which ask for known ids, or don't
	reserveMany, freshMany         statement
	reserveNew, freshNew           statement
	reserveOneTx                   statement
	reserveEnter, reserveLock      statement
	reserveAll, reserveSeveral     statement
	reserveNone                    statement
	insertHolds, updateHolds       statement
	insertBuckets, updateBuckets   statement
	freed, fewer, more             statement
	savepoint, release, undo       statement
	delivery, insertDelivery       statement
	availability, history, check   statement
	splitBuckets, splitExpiring    statement
	splitHolds                     statement
	dueBuckets, lockFree, sweepOld statement
	sweepHolds, sweepDeliveries    statement
}

func stockStatementsFor(schema string) *stockStatements {
	sql := func(name, text string, pairs ...string) statement {
		pairs = append(pairs, "{schema}", quote(schema), "{parts}", partsSQL, "{hold}", holdColumns, "{wanted}", wantedSQL,
			"{second}", secondSQL, "{expires}", expiresSQL, "{plans}", plansSQL)
		replacer := strings.NewReplacer(pairs...)
		for range 3 { // parts have parts
			text = replacer.Replace(text)
		}
		return statement{name, strings.TrimSpace(text)}
	}
	one := []string{"{ttl}", "$4::bigint", "{lock_timeout}", "and set_config('lock_timeout', $5::text, true) <> ''"}
	return &stockStatements{
		enter:  sql("stock.enter", stockEnterSQL),
		lock:   sql("stock.lock", stockLockSQL),
		levels: sql("stock.levels", stockLevelsSQL),
		holds:  sql("stock.holds", stockHoldsSQL),

		reserveOne:     sql("reserve.one", reserveOneSQL, append(one, "{new}", newIDSQL)...),
		freshOne:       sql("reserve.one", reserveOneSQL, append(one, "{new}", "")...),
		reserveMany:    sql("reserve.many", reserveManySQL, "{ttl}", "a.ttl", "{new}", newIDsSQL),
		freshMany:      sql("reserve.many", reserveManySQL, "{ttl}", "a.ttl", "{new}", ""),
		reserveNew:     sql("reserve.new", reserveNewSQL, "{ttl}", "a.ttl", "{new}", newIDsSQL),
		freshNew:       sql("reserve.new", reserveNewSQL, "{ttl}", "a.ttl", "{new}", ""),
		reserveOneTx:   sql("reservetx.one", reserveOneSQL, "{ttl}", "$4::bigint", "{lock_timeout}", "", "{new}", newIDSQL),
		reserveEnter:   sql("reserve.enter", reserveEnterSQL),
		reserveLock:    sql("reserve.lock", reserveLockSQL),
		reserveNone:    sql("reserve.none", reserveNoneSQL),
		reserveAll:     sql("reserve.all", reserveAllSQL, "{line}", "a.sku, a.quantity", "{lines}", ""),
		reserveSeveral: sql("reserve.several", reserveAllSQL, "{line}", "l.sku, l.quantity", "{lines}", reserveLinesSQL),

		insertHolds:   sql("holds.insert", insertHoldsSQL),
		updateHolds:   sql("holds.update", updateHoldsSQL),
		insertBuckets: sql("stock.insert", insertBucketsSQL),
		updateBuckets: sql("stock.update", updateBucketsSQL),
		freed:         sql("expiring.freed", freedSQL),
		fewer:         sql("expiring.fewer", fewerSQL),
		more:          sql("expiring.more", moreSQL),

		savepoint: sql("stocktx.savepoint", "savepoint fifty_stock"),
		release:   sql("stocktx.release", "release savepoint fifty_stock"),
		undo:      sql("stocktx.undo", "rollback to savepoint fifty_stock"),

		delivery:       sql("delivery.find", deliverySQL),
		insertDelivery: sql("delivery.insert", insertDeliverySQL),
		availability:   sql("availability", availabilitySQL),
		history:        sql("history", historySQL),
		check:          sql("stock.check", stockCheckSQL),

		splitBuckets:  sql("split.buckets", splitBucketsSQL),
		splitExpiring: sql("split.expiring", splitExpiringSQL),
		splitHolds:    sql("split.holds", splitHoldsSQL),

		dueBuckets:      sql("stocksweep.due", dueBucketsSQL),
		lockFree:        sql("stocksweep.lock", stockLockSQL+" skip locked"),
		sweepOld:        sql("stocksweep.old", sweepOldSQL),
		sweepHolds:      sql("stocksweep.holds", sweepHoldsSQL),
		sweepDeliveries: sql("stocksweep.deliveries", sweepDeliveriesSQL),
	}
}

// secondSQL is the second that it is, of a timestamp called now.
const secondSQL = `floor(extract(epoch from now))::bigint`

// partsSQL are the parts of a hold h that is held or confirmed: see the comments of the migration.
const partsSQL = `lateral (
        select h.sku, 0 as bucket, h.quantity as units where h.parts is null and h.items is null
        union all
        select i.key, 0, i.value::bigint from jsonb_each_text(h.items) i where h.parts is null
        union all
        select p.value->>0, (p.value->>1)::integer, (p.value->>2)::bigint from jsonb_array_elements(h.parts) p
    ) p`

// holdColumns are read by holdRow.scan.
const holdColumns = `
    h.id, coalesce(h.sku, ''), coalesce(h.quantity, 0), coalesce(h.items::text, ''), coalesce(h.parts::text, ''),
    h.state::bigint, h.expires, coalesce(h.short::text, ''), h.reserved, coalesce(h.log::text, '')`

// plansSQL are settings by which plans go through the indexes and are made once, since what they were made for may
// have been empty.
const plansSQL = `('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('jit', 'off')`

// What a transaction of ours runs under, for itself only: how long it waits for a lock, how long it may wait
// for its host, and {plans}.
const stockEnterSQL = `
select count(set_config(name, value, true))
from (values
    ('lock_timeout', $1::text),
    ('idle_in_transaction_session_timeout', $2::text), ('tcp_user_timeout', $2::text),
    {plans}
) as setting (name, value)
`

// wantedSQL are the buckets that are wanted: those of $2 and $3, where -1 stands for all of the SKU, and those
// that the holds with the ids of $1 have parts in.
const wantedSQL = `
wanted as materialized (
    select w.sku, w.bucket
    from unnest($2::text[], $3::integer[]) as w (sku, bucket)
    union
    select p.sku, p.bucket
    from {schema}.holds h, {parts}
    where h.id = any ($1::text[]) and h.state = 1
)`

// The locks come first, in one order for everybody (H13): a sorted array would not order them. What is read
// here may be old by the time that the lock is there, so it says only which rows are locked (H12).
const stockLockSQL = `
with {wanted}
select s.sku, s.bucket::bigint
from wanted w
join {schema}.stock s on s.sku = w.sku and (w.bucket = -1 or s.bucket = w.bucket)
order by s.sku, s.bucket
for update of s
`

// A statement after that of the locks sees what their last holders wrote. Its clock is read behind them, and
// once: what is due and what time it is belong together. One row always comes back.
const stockLevelsSQL = `
with {wanted},
at as materialized (select greatest(clock_timestamp(), to_timestamp($4::bigint)) as now)
select at.now, coalesce(s.sku, ''), coalesce(s.bucket, 0)::bigint, coalesce(s.buckets, 0)::bigint, coalesce(s.supply, 0),
       coalesce(s.available, 0), coalesce(s.held, 0), coalesce(s.sold, 0), coalesce(s.freed_to, 0), coalesce(s.refusals, 0),
       coalesce((
           select sum(e.units)::bigint
           from {schema}.expiring e
           where e.sku = s.sku and e.bucket = s.bucket
             and e.second <= {second}
       ), 0)
from at
left join (
    wanted w
    join {schema}.stock s on s.sku = w.sku and (w.bucket = -1 or s.bucket = w.bucket)
) on true
`

const stockHoldsSQL = `
select {hold}
from {schema}.holds h
where h.id = any ($1::text[])
`

// A plain insert: the id's unique index has the last word (23505), and then all is rolled back and looked at
// again. The ids come in order, so that two batches with the same ones wait for each other in one order.
const insertHoldsSQL = `
insert into {schema}.holds (id, sku, quantity, items, parts, state, expires, short, reserved, log)
select h.id, nullif(h.sku, ''), nullif(h.quantity, 0), nullif(h.items, '')::jsonb, nullif(h.parts, '')::jsonb, h.state,
       h.expires, nullif(h.short, '')::jsonb, $9::timestamptz, nullif(h.log, '')::jsonb
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::smallint[], $7::bigint[], $8::text[], $10::text[])
    as h (id, sku, quantity, items, parts, state, expires, short, log)
`

// A hold that a sweep has removed since it was read makes this fail (22012), and everything is looked at again.
const updateHoldsSQL = `
with changed as (
    update {schema}.holds h
    set parts = nullif(c.parts, '')::jsonb, state = c.state, expires = c.expires, short = nullif(c.short, '')::jsonb,
        log = nullif(c.log, '')::jsonb, changed = $7::timestamptz
    from unnest($1::text[], $2::text[], $3::smallint[], $4::bigint[], $5::text[], $6::text[])
        as c (id, parts, state, expires, short, log)
    where h.id = c.id
    returning 1
)
select 1 / case when (select count(*) from changed) = cardinality($1::text[]) then 1 else 0 end
`

const insertBucketsSQL = `
insert into {schema}.stock (sku, bucket, buckets, supply, available, held, sold, freed_to, refusals)
select *
from unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
`

// The rows are locked since before they were read, so the new values are whole.
const updateBucketsSQL = `
with changed as (
    update {schema}.stock s
    set buckets = b.buckets, supply = b.supply, available = b.available, held = b.held, sold = b.sold,
        freed_to = b.freed_to, refusals = b.refusals
    from unnest($1::text[], $2::integer[], $3::integer[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
        as b (sku, bucket, buckets, supply, available, held, sold, freed_to, refusals)
    where s.sku = b.sku and s.bucket = b.bucket
    returning 1
)
select 1 / case when (select count(*) from changed) = cardinality($1::text[]) then 1 else 0 end
`

const freedSQL = `
delete from {schema}.expiring e
using unnest($1::text[], $2::integer[], $3::bigint[]) as f (sku, bucket, second)
where e.sku = f.sku and e.bucket = f.bucket and e.second <= f.second
`

// Units that no longer expire in a second. What is left of it, or nothing, is never below zero.
const fewerSQL = `
with fewer as materialized (
    select *
    from unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) as f (sku, bucket, second, units)
),
less as (
    update {schema}.expiring e
    set units = e.units - f.units
    from fewer f
    where e.sku = f.sku and e.bucket = f.bucket and e.second = f.second
      and e.units > f.units
    returning 1
),
gone as (
    delete from {schema}.expiring e
    using fewer f
    where e.sku = f.sku and e.bucket = f.bucket and e.second = f.second
      and e.units = f.units
    returning 1
)
select 1 / case when (select count(*) from less) + (select count(*) from gone) = cardinality($1::text[]) then 1 else 0 end
`

const moreSQL = `
insert into {schema}.expiring as e (sku, bucket, second, units)
select *
from unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[])
on conflict (sku, bucket, second) do update
set units = e.units + excluded.units
`
