-- oldest: 1
-- One row per idempotency key. Scope and key are compared byte for byte, whatever the database's collation.
-- The index holds nothing that changes, and half of each page is left free, so that a renewal or a
-- completion finds room beside the row and touches no index (HOT).
create table {schema}.keys (
    token          bigint      not null check (token > 0),
    created        timestamptz not null default clock_timestamp(),
    changed        timestamptz not null default clock_timestamp(),
    expires        timestamptz check (state <> 1 or expires is not null),
    status         integer,
    state          smallint    not null check (state between 1 and 5),
    resume         boolean     not null default false,
    not_replayable boolean     not null default false,
    scope          text collate "C" not null,
    key            text collate "C" not null,
    attempt        text        not null,
    owner          text        not null,
    fingerprint    bytea       not null,
    header         bytea,
    body           bytea,
    primary key (scope, key)
) with (fillfactor = 50);

comment on column {schema}.keys.state is '1 in flight, 2 done, 3 unknown, 4 free, 5 tombstone';
comment on column {schema}.keys.token is 'fencing token: grows with every owner of the key';
comment on column {schema}.keys.expires is 'of a claim in flight: past it the owner no longer holds the key';
comment on column {schema}.keys.header is 'JSON of name and values; each character is one byte (Latin-1)';
