-- oldest: 1
-- The tables never look small. A plan is made for the number of pages that a table has then, and one that a
-- session keeps stays as it is while the table grows: to read a few pages whole is cheapest, and with a million
-- keys it is ruin. So both tables have some pages from the start, and keep them: rows are written and removed
-- again here, seen by nobody, and vacuum takes no pages from the end. That also takes the lock away that it
-- would need to do so, behind which claims would wait.
set local lock_timeout = '5s';

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
