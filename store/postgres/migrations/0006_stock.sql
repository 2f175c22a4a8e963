-- oldest: 1
-- Stock: what there is, who holds it until when, and what was delivered. Only new tables. Names are compared
-- byte for byte, whatever the database's collation.

-- One row per bucket of a SKU; one that is not split has bucket 0. This row is the lock of the bucket. Most of
-- each page is left free, so that a row that changes all the time finds room beside itself (HOT). The last two
-- columns count in bucket 0, for the whole SKU.
create table {schema}.stock (
    supply           bigint  not null,
    available        bigint  not null,
    held             bigint  not null,
    sold             bigint  not null,
    freed_to         bigint  not null default 0,
    refusals         bigint  not null default 0,
    delivered_folded bigint  not null default 0,
    sold_folded      bigint  not null default 0,
    bucket           integer not null,
    buckets          integer not null,
    sku              text collate "C" not null,
    primary key (sku, bucket),
    constraint stock_adds_up check (
        available >= 0 and held >= 0 and sold >= 0 and refusals >= 0
        and available + held + sold = supply and bucket >= 0 and bucket < buckets)
) with (fillfactor = 20, vacuum_truncate = off);

comment on table {schema}.stock is 'available + held + sold = supply, in every transaction';
comment on column {schema}.stock.buckets is 'how many the SKU has';
comment on column {schema}.stock.freed_to is 'Unix second: units of holds that expire then or before are not in held';
comment on column {schema}.stock.refusals is 'remembered ones that name the SKU';
comment on column {schema}.stock.delivered_folded is 'units of deliveries that were swept away';
comment on column {schema}.stock.sold_folded is 'units of confirmed holds that were swept away';

-- How many units of a bucket expire in each second: freeing what has expired takes as many rows as seconds,
-- not as holds.
create table {schema}.expiring (
    second bigint  not null,
    units  bigint  not null,
    bucket integer not null,
    sku    text collate "C" not null,
    primary key (sku, bucket, second),
    constraint expiring_is_some check (units > 0)
) with (fillfactor = 50, vacuum_truncate = off);

comment on column {schema}.expiring.second is 'Unix time';

-- One row per id, which is also its page of the books.
create table {schema}.holds (
    expires  bigint      not null,
    quantity bigint,
    reserved timestamptz not null,
    changed  timestamptz,
    state    smallint    not null,
    sku      text collate "C",
    id       text collate "C" not null primary key,
    items    jsonb,
    parts    jsonb,
    short    jsonb,
    log      jsonb
) with (fillfactor = 90, vacuum_truncate = off);

comment on column {schema}.holds.state is '1 held, 2 confirmed, 3 released, 4 refused, 5 lapsed';
comment on column {schema}.holds.expires is 'Unix second from which one that is held has expired';
comment on column {schema}.holds.items is 'quantities by SKU; null for the one of sku and quantity';
comment on column {schema}.holds.parts is 'where the units of one held or confirmed are: [[sku, bucket, units], …]; null: all of it in bucket 0';
comment on column {schema}.holds.short is 'of which SKU there was not enough: [sku, wanted, available]';
comment on column {schema}.holds.log is 'what happened since it was reserved: [[what, items, Unix microseconds, times], …]';

-- How a sweep finds what is old. It never changes in the life of a hold.
create index holds_reserved on {schema}.holds (reserved);

create table {schema}.deliveries (
    at    timestamptz not null default clock_timestamp(),
    away  boolean     not null,
    id    text collate "C" primary key,
    items jsonb       not null
) with (vacuum_truncate = off);

create index deliveries_at on {schema}.deliveries (at);

comment on column {schema}.deliveries.away is 'taken away, not added';

-- The tables never look small: see 0005. What fills them has short keys that come before all others, so that new
-- ids still go to the right end of the index, and are compared with nothing long.
insert into {schema}.stock (supply, available, held, sold, bucket, buckets, sku)
select 0, 0, 0, 0, 0, 1, chr(1) || i from generate_series(1, 2000) i;
delete from {schema}.stock;

insert into {schema}.expiring (second, units, bucket, sku)
select 0, 1, 0, chr(1) || i from generate_series(1, 9000) i;
delete from {schema}.expiring;

insert into {schema}.holds (expires, reserved, state, sku, id)
select 0, '-infinity', 3, repeat('x', 1800), chr(1) || i from generate_series(1, 512) i;
delete from {schema}.holds;
