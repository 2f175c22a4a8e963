-- oldest: 1
-- What claims cost. It takes nothing away that a program of the version before needs.
-- The table of keys is locked for a moment: see 0003.
set local lock_timeout = '5s';

-- Each check is parsed anew for every statement that writes a row: together they were a fifth of the price of
-- the insert. What they guarded is said by the statements themselves, and tested there.
alter table {schema}.keys
    drop constraint if exists keys_token_check,
    drop constraint if exists keys_check,
    drop constraint if exists keys_state_check,
    drop constraint if exists keys_buried_is_tombstone;

-- From now on the floor is set, so that null means that it was lost. No sweep is at work: it would have the
-- table.
select setval('{schema}.token_floor', last_value) from {schema}.token_floor;

-- The tables never look small. A plan is made for the number of pages that a table has then, and one that a
-- session keeps stays as it is while the table grows: to read a few pages whole is cheapest, and with a million
-- keys it is ruin. So both tables have some pages from the start, and keep them: rows are written and removed
-- again here, seen by nobody, and vacuum takes no pages from the end. So it does not take the lock either that
-- it would need for that, behind which claims would wait.
alter table {schema}.keys set (vacuum_truncate = off);
alter table {schema}.steps set (vacuum_truncate = off);

insert into {schema}.keys (scope, key, fingerprint, state, token, attempt, owner)
select '', i::text, '', 4, 1, repeat('x', 1800), ''
from generate_series(1, 128) i;
delete from {schema}.keys where scope = '';

insert into {schema}.steps (sent, scope, key, name, result)
select false, '', i::text, repeat('x', 1800), null
from generate_series(1, 128) i;
delete from {schema}.steps where scope = '';
