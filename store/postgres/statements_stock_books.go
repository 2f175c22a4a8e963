package postgres

const deliverySQL = `
select away, items::text
from {schema}.deliveries
where id = $1::text
`

// A plain insert: of two deliveries with one id the second fails (23505), and is looked at again.
const insertDeliverySQL = `
insert into {schema}.deliveries (id, items, away)
values ($1::text, $2::jsonb, $3::boolean)
`

// Free at the time of reading: what has expired counts as available, whether or not somebody has freed it. It
// is one statement, so one snapshot. Nothing is decided by it.
const availabilitySQL = `
with at as materialized (
    select {second} as second
    from (select clock_timestamp() as now) c
)
select s.sku, sum(s.supply)::bigint, sum(s.available + coalesce(d.units, 0))::bigint,
       sum(s.held - coalesce(d.units, 0))::bigint, sum(s.sold)::bigint
from {schema}.stock s
left join lateral (
    select sum(e.units)::bigint as units
    from {schema}.expiring e
    where e.sku = s.sku and e.bucket = s.bucket and e.second <= (select second from at)
) d on true
where s.sku = any ($1::text[])
group by s.sku
`

const historySQL = `
select clock_timestamp(), {hold}
from {schema}.holds h
where h.id = $1::text
`

// What the books add up to, beside what the stock says. A confirmed hold's units are compared for the SKU as a
// whole, since a Split moves them; so are deliveries. What is in the books and not in the stock is off, too.
const stockCheckSQL = `
with parts as materialized (
    select p.sku, p.bucket, p.units, h.state, h.expires
    from {schema}.holds h, {parts}
    where h.state in (1, 2)
),
held as (
    select p.sku, p.bucket, sum(p.units)::bigint as units
    from parts p
    left join {schema}.stock s on s.sku = p.sku and s.bucket = p.bucket
    where p.state = 1 and (s.freed_to is null or p.expires > s.freed_to)
    group by p.sku, p.bucket
),
expiring as (
    select sku, bucket, sum(units)::bigint as units
    from {schema}.expiring
    group by sku, bucket
),
sold as (
    select sku, sum(units)::bigint as units
    from parts
    where state = 2
    group by sku
),
delivered as (
    select i.key as sku, sum(case when d.away then -i.value::bigint else i.value::bigint end)::bigint as units
    from {schema}.deliveries d, jsonb_each_text(d.items) i
    group by i.key
),
whole as (
    select sku, sum(supply)::bigint as supply, sum(sold)::bigint as sold,
           sum(delivered_folded)::bigint as delivered_folded, sum(sold_folded)::bigint as sold_folded
    from {schema}.stock
    group by sku
),
sums as (
    select s.sku, s.bucket, 'supply' as what, s.supply as level, s.available + s.held + s.sold as records
    from {schema}.stock s
    union all
    select coalesce(s.sku, h.sku), coalesce(s.bucket, h.bucket), 'held', coalesce(s.held, 0), coalesce(h.units, 0)
    from {schema}.stock s full join held h on h.sku = s.sku and h.bucket = s.bucket
    union all
    select coalesce(s.sku, e.sku), coalesce(s.bucket, e.bucket), 'expiring', coalesce(s.held, 0), coalesce(e.units, 0)
    from {schema}.stock s full join expiring e on e.sku = s.sku and e.bucket = s.bucket
    union all
    select coalesce(w.sku, d.sku), -1, 'supply', coalesce(w.supply, 0), coalesce(d.units, 0) + coalesce(w.delivered_folded, 0)
    from whole w full join delivered d on d.sku = w.sku
    union all
    select coalesce(w.sku, d.sku), -1, 'sold', coalesce(w.sold, 0), coalesce(d.units, 0) + coalesce(w.sold_folded, 0)
    from whole w full join sold d on d.sku = w.sku
)
select sku, bucket::bigint, what, level, records
from sums
where level <> records
order by sku collate "C", bucket, what
limit $1::bigint
`

// Behind the locks of all buckets: those that are gone; the others are written by updateBucketsSQL and
// insertBucketsSQL.
const splitBucketsSQL = `
delete from {schema}.stock
where sku = $1::text and bucket >= $2::integer
`

// What expires in a bucket that goes away expires in the one that has its units then.
const splitExpiringSQL = `
with moved as (
    delete from {schema}.expiring
    where sku = $1::text and bucket >= $2::integer
    returning bucket % $2::integer as bucket, second, units
)
insert into {schema}.expiring as e (sku, bucket, second, units)
select $1::text, bucket, second, sum(units)::bigint
from moved
group by bucket, second
order by bucket, second
on conflict (sku, bucket, second) do update
set units = e.units + excluded.units
`

// Whoever writes a hold has the locks of all buckets of its parts, so nobody else writes these; a sweep may
// remove some. All holds are read: a Split into fewer buckets is rare.
const splitHoldsSQL = `
update {schema}.holds h
set parts = (
    select jsonb_agg(
        case when p.value->>0 = $1::text then jsonb_build_array(p.value->0, (p.value->>1)::integer % $2::integer, p.value->2) else p.value end
        order by p.number)
    from jsonb_array_elements(h.parts) with ordinality as p (value, number)
)
where h.state in (1, 2) and h.parts is not null
  and exists (
      select from jsonb_array_elements(h.parts) p
      where p.value->>0 = $1::text and (p.value->>1)::integer >= $2::integer
  )
`

// Buckets with units whose time is over. What is read without a lock is looked at again behind it.
const dueBucketsSQL = `
select e.sku, e.bucket::bigint
from {schema}.expiring e
where e.second <= extract(epoch from clock_timestamp())
  and (e.sku, e.bucket) > ($1::text, $2::integer)
group by e.sku, e.bucket
order by e.sku, e.bucket
limit $3::bigint
`

// oldSQL says of a hold h that it is remembered no longer. One that was never settled is when all its units have
// been freed: nothing of it is in the levels then.
const oldSQL = `h.reserved <= clock_timestamp() - $1::bigint * interval '1 microsecond'
      and (
          h.state <> 1 and coalesce(h.changed, h.reserved) <= clock_timestamp() - $1::bigint * interval '1 microsecond'
          or h.state = 1 and to_timestamp(h.expires) <= clock_timestamp() - $1::bigint * interval '1 microsecond'
             and not exists (
                 select from {parts}
                 join {schema}.stock s on s.sku = p.sku and s.bucket = p.bucket
                 where s.freed_to < h.expires
             )
      )`

// The oldest holds, and the SKUs that they and the oldest deliveries are counted under: their bucket 0 is locked
// first. Nothing is locked here.
const sweepOldSQL = `
with old as materialized (
    select h.*
    from {schema}.holds h
    where ` + oldSQL + `
    order by h.reserved
    limit $2::bigint
)
select id, ''
from old
union all
select '', p.sku
from old h, {parts}
where h.state = 2
union all
select '', short->>0
from old
where state = 4
union all
select '', i.key
from (
    select items
    from {schema}.deliveries
    where at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
    order by at
    limit $2::bigint
) d, jsonb_object_keys(d.items) i (key)
`

// Behind the locks: what is still so. A hold that somebody else has locked is left for the next time. It returns
// how many went, and what they were counted as.
const sweepHoldsSQL = `
with old as materialized (
    select h.*
    from {schema}.holds h
    where h.id = any ($2::text[]) and ` + oldSQL + `
    for update skip locked
),
gone as (
    delete from {schema}.holds h
    using old
    where h.id = old.id
),
counted as (
    select p.sku, p.units as sold, 0 as refused from old h, {parts} where h.state = 2
    union all
    select h.short->>0, 0, 1 from old h where h.state = 4
),
folded as (
    update {schema}.stock s
    set sold_folded = s.sold_folded + c.sold, refusals = s.refusals - c.refused
    from (select sku, sum(sold)::bigint as sold, sum(refused)::bigint as refused from counted group by sku) c
    where s.sku = c.sku and s.bucket = 0
    returning 1
)
select count(*) / case when (select count(*) from folded) = (select count(distinct sku) from counted) then 1 else 0 end
from old
`

const sweepDeliveriesSQL = `
with old as materialized (
    select d.id, d.away, d.items
    from {schema}.deliveries d
    where d.at <= clock_timestamp() - $1::bigint * interval '1 microsecond'
      and not exists (select from jsonb_object_keys(d.items) i (sku) where i.sku <> all ($3::text[]))
    order by d.at
    limit $2::bigint
    for update skip locked
),
gone as (
    delete from {schema}.deliveries d
    using old
    where d.id = old.id
),
folded as (
    update {schema}.stock s
    set delivered_folded = s.delivered_folded + c.units
    from (
        select i.key as sku, sum(case when o.away then -i.value::bigint else i.value::bigint end)::bigint as units
        from old o, jsonb_each_text(o.items) i
        group by i.key
    ) c
    where s.sku = c.sku and s.bucket = 0
)
select count(*) from old
`
