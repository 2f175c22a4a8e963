-- oldest: 1
-- Random bytes that all hosts share, made once per name.
create table {schema}.secrets (
    name    text collate "C" primary key,
    secret  bytea       not null,
    created timestamptz not null default clock_timestamp()
);
