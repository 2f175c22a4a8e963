-- oldest: 1
-- Steps, windows, sweeps and operators. It only adds, so a program of the version before goes on working.
-- The table of keys is locked for a moment. Behind a long transaction this gives up rather than make every
-- claim queue behind it; run it again.
set local lock_timeout = '5s';

alter table {schema}.keys
    add column made   timestamptz,
    add column buried timestamptz,
    add constraint keys_buried_is_tombstone check (buried is null or state = 5) not valid;

comment on column {schema}.keys.changed is 'when it came into its state';
comment on column {schema}.keys.made is 'the time that a time-ordered key carries; null for any other';
comment on column {schema}.keys.buried is 'of a tombstone: the later of changed and made; it is remembered from then on';

-- What is known of each step of the work of a key. A step is written in the same statement as its key's row,
-- so whoever holds that row holds the steps.
create table {schema}.steps (
    position bigint generated always as identity,
    sent     boolean not null,
    scope    text collate "C" not null,
    key      text collate "C" not null,
    name     text collate "C" not null,
    result   bytea,
    primary key (scope, key, name)
) with (fillfactor = 70);

comment on column {schema}.steps.position is 'the order in which the steps of a key were first saved';

-- What operators decided.
create table {schema}.audit (
    id         bigint generated always as identity,
    at         timestamptz not null default clock_timestamp(),
    token      bigint      not null,
    before     smallint    not null,
    after      smallint    not null,
    scope      text collate "C" not null,
    key        text collate "C" not null,
    decided_by text        not null,
    note       text        not null,
    primary key (scope, key, id)
);

-- No key that was removed had a higher token. A sequence, since it is read as it is now and not as it was
-- when a statement or transaction began.
create sequence {schema}.token_floor as bigint minvalue 0 start 0;
