package postgres

// expiresSQL is inventory.ExpirySecond of a row t that was taken, for a time to live in microseconds. A double has
// the microseconds of a time until the year 2255, and is read faster than a numeric.
const expiresSQL = `greatest(((date_part('epoch', t.now) * 1000000)::bigint + {ttl} + 999999) / 1000000, t.freed_to + 1)`

// What the quick statements ask of their ids, {new}, when known ones may be among them: see layout.mayBeKnown. Else
// they ask nothing, and the unique index, which has the last word in any case, ends the statement if one is known
// (23505). Those of many orders are counted: to find out whether one exists, a planner may hope to find it early in
// the whole table.
const (
	newIDSQL  = `and not exists (select from {schema}.holds h where h.id = $1::text)`
	newIDsSQL = `and (select count(*) from {schema}.holds h where h.id = any ($1::text[])) = 0`
)

// reserveOneSQL is the common case of one caller: a new id, one SKU that is not split, and enough of it. It is
// decided and committed by one statement. When any of its conditions fails it writes nothing, and the Batch
// decides. It returns nothing either, since rows that a statement which writes returns are gathered first, at a
// tenth of its price; a hold lasts for its time at least, and that is what the caller is told.
//
// Linearization point: the commit of this statement. took waits for the row's lock and is decided anew on what
// the lock's last holder wrote (H12: it asks nothing of a clock, and levels that were only locked have not
// changed). The clock is read by RETURNING, so behind the lock. Units that have expired and that nobody
// has freed yet are not needed here: they stay held. The insert is plain, so that the unique index has the last
// word on the id.
const reserveOneSQL = `
with took as (
    update {schema}.stock s
    set available = s.available - $3::bigint, held = s.held + $3::bigint
    where s.sku = $2::text and s.bucket = 0
      and s.buckets = 1
      and s.available >= $3::bigint
      {new}
      {lock_timeout}
    returning clock_timestamp() as now, s.freed_to
),
due as (
    insert into {schema}.expiring as e (sku, bucket, second, units)
    select $2::text, 0, {expires}, $3::bigint
    from took t
    on conflict (sku, bucket, second) do update
    set units = e.units + excluded.units
)
insert into {schema}.holds (id, sku, quantity, state, expires, reserved)
select $1::text, $2::text, $3::bigint, 1, {expires}, t.now
from took t
`

// reserveManySQL is reserveOneSQL for orders of one and the same SKU whose ids are all new: $1 to $3 are ids, in
// order, quantities and times to live; $5 is the sum, and $6 and $7 are the times to live that differ, with the
// sum of each. The ids are inserted in their order, since a join with one row keeps it. The known ones are
// counted: to find out whether one exists, a planner may hope to find it early in the whole table.
const reserveManySQL = `
with took as (
    update {schema}.stock s
    set available = s.available - $5::bigint, held = s.held + $5::bigint
    where s.sku = $4::text and s.bucket = 0
      and s.buckets = 1
      and s.available >= $5::bigint
      {new}
      and set_config('lock_timeout', $8::text, true) <> ''
    returning clock_timestamp() as now, s.freed_to
),
due as (
    insert into {schema}.expiring as e (sku, bucket, second, units)
    select $4::text, 0, {expires}, sum(a.units)::bigint
    from took t, unnest($6::bigint[], $7::bigint[]) as a (ttl, units)
    group by 3
    on conflict (sku, bucket, second) do update
    set units = e.units + excluded.units
)
insert into {schema}.holds (id, sku, quantity, state, expires, reserved)
select a.id, $4::text, a.quantity, 1, {expires}, t.now
from took t, unnest($1::text[], $2::bigint[], $3::bigint[]) as a (id, quantity, ttl)
`

// What reserveNewSQL runs under, which comes after it in one message: as stockEnterSQL, and no join but the one that
// takes the rows one by one.
const reserveEnterSQL = `
select count(set_config(name, value, true))
from (values
    ('lock_timeout', $1::text), {plans},
    ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')
) as setting (name, value)
`

// reserveNewSQL is reserveManySQL for orders of several SKUs. $1 to $5 are the orders, in the order of their ids: id,
// SKU, quantity, items of an order of several SKUs, and time to live; $6 and $7 are the SKUs, in order, with the sum
// of each; $8 to $10 are the times to live of each SKU that differ, with the sum of each.
//
// The rows are updated, and so locked, in the order of $6, as everybody locks them (H13): a nested loop goes through
// that in its order. Each is decided anew on what the lock's last holder wrote. When some of them are there to be
// taken and others are not, the server fails (22012), and nothing was written; when none is, nothing is written.
//
// Linearization point: the commit that follows. The clock is that of the last row, so behind all locks (H12).
const reserveNewSQL = `
with took as (
    update {schema}.stock s
    set available = s.available - t.units, held = s.held + t.units
    from unnest($6::text[], $7::bigint[]) as t (sku, units)
    where s.sku = t.sku and s.bucket = 0
      and s.buckets = 1
      and s.available >= t.units
      {new}
    returning clock_timestamp() as now, s.freed_to
),
whole as materialized (
    select max(now) as now, max(freed_to) as freed_to
    from took
    having 1 / case when count(*) in (0, cardinality($6::text[])) then 1 else 0 end * count(*) > 0
),
due as (
    insert into {schema}.expiring as e (sku, bucket, second, units)
    select a.sku, 0, {expires}, sum(a.units)::bigint
    from whole t, unnest($8::text[], $9::bigint[], $10::bigint[]) as a (sku, ttl, units)
    group by 1, 3
    order by 1, 3
    on conflict (sku, bucket, second) do update
    set units = e.units + excluded.units
)
insert into {schema}.holds (id, sku, quantity, items, state, expires, reserved)
select a.id, nullif(a.sku, ''), nullif(a.quantity, 0), nullif(a.items, '')::jsonb, 1, {expires}, t.now
from whole t, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) as a (id, sku, quantity, items, ttl)
`

// The locks of reserveAllSQL, which comes after it in one message: see stockLockSQL.
const reserveLockSQL = `
select s.sku
from {schema}.stock s
where s.sku = any ($1::text[]) and s.bucket = 0
  and (
        select count(set_config(name, value, true)) > 0
        from (values
            ('lock_timeout', $2::text), {plans}
        ) as setting (name, value)
    )
order by s.sku, s.bucket
for update
`

// reserveNoneSQL refuses orders of one SKU that is not split, when not even the smallest of them can be had, behind
// the lock of reserveLockSQL, which comes before it in one message. When there is any doubt it writes nothing
// and returns nothing, and the Batch decides.
//
// Linearization point: the commit that follows. What is available, what has expired and what time it is are read
// behind the lock (H12), so the refusal, which stays, is true at that moment. An id that is known, or a count of
// refusals that would pass its bound, is a doubt.
//
// $1 and $2 are ids, in order, and quantities; $4 is the smallest quantity, $5 how many refusals may be counted.
const reserveNoneSQL = `
with at as materialized (select clock_timestamp() as now),
none as (
    update {schema}.stock s
    set refusals = s.refusals + cardinality($1::text[])
    from at
    where s.sku = $3::text and s.bucket = 0
      and s.buckets = 1
      and s.available < $4::bigint
      and s.refusals + cardinality($1::text[]) <= $5::bigint
      and not exists (
          select from {schema}.expiring e
          where e.sku = s.sku and e.bucket = 0 and e.second <= {second}
      )
      and not exists (select from {schema}.holds h where h.id = any ($1::text[]))
    returning s.available, at.now
),
refused as (
    insert into {schema}.holds (id, sku, quantity, state, expires, short, reserved)
    select a.id, $3::text, a.quantity, 4, 0, jsonb_build_array($3::text, a.quantity, n.available), n.now
    from none n, unnest($1::text[], $2::bigint[]) as a (id, quantity)
)
select now, available from none
`

// reserveAllSQL is the common case of a batch, behind the locks: SKUs that are not split, and enough for all
// whose id is new. It returns what was known before it, and whether the rest was decided: if not, nothing was
// written, and the Batch decides.
//
// Linearization point: the commit that follows. No other clock and no later snapshot is asked: what it reads
// can't change behind the locks, but for the ids, of which the unique index has the last word (23505).
//
// $1 to $5 are the orders, in the order of their ids: id, SKU, quantity, items of an order of several SKUs, and
// time to live in microseconds.
const reserveAllSQL = `
with at as materialized (
    select c.now, (date_part('epoch', c.now) * 1000000)::bigint as micros
    from (select clock_timestamp() as now offset 0) c
),
known as materialized (
    select *
    from {schema}.holds
    where id = any ($1::text[])
),
new as materialized (
    select a.*, (at.micros + a.ttl + 999999) / 1000000 as second
    from at, unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) with ordinality
        as a (id, sku, quantity, items, ttl, number)
    where not exists (select from known k where k.id = a.id)
),
lines as materialized (
    select {line}, a.second
    from new a {lines}
),
wanted as materialized (
    select sku, second, sum(quantity)::bigint as units
    from lines
    group by sku, second
),
total as materialized (
    select sku, sum(units)::bigint as units
    from wanted
    group by sku
),
fits as materialized (
    select count(*) = count(s.sku) as yes
    from at, total t
    left join {schema}.stock s
           on s.sku = t.sku and s.bucket = 0
          and s.buckets = 1
          and s.available >= t.units
          and s.freed_to <= (select micros from at) / 1000000
),
took as (
    update {schema}.stock s
    set available = s.available - t.units, held = s.held + t.units
    from total t
    where s.sku = t.sku and s.bucket = 0
      and (select yes from fits)
),
held as (
    insert into {schema}.holds (id, sku, quantity, items, state, expires, reserved)
    select n.id, nullif(n.sku, ''), nullif(n.quantity, 0), nullif(n.items, '')::jsonb, 1, n.second, (select now from at)
    from new n
    where (select yes from fits)
    order by n.number
),
due as (
    insert into {schema}.expiring as e (sku, bucket, second, units)
    select w.sku, 0, w.second, w.units
    from wanted w
    where (select yes from fits)
    order by w.sku, w.second
    on conflict (sku, bucket, second) do update
    set units = e.units + excluded.units
)
select at.now, (select yes from fits), coalesce(h.id, ''), coalesce(h.sku, ''), coalesce(h.quantity, 0), coalesce(h.items::text, ''),
       coalesce(h.parts::text, ''), coalesce(h.state, 0)::bigint, coalesce(h.expires, 0), coalesce(h.short::text, ''),
       coalesce(h.reserved, at.now), coalesce(h.log::text, '')
from at
left join known h on true
`

// The lines of orders of several SKUs: the order's number, SKU and quantity.
const reserveLinesSQL = `
    join unnest($6::bigint[], $7::text[], $8::bigint[]) as l (number, sku, quantity) on l.number = a.number`
