package postgres

import "strings"

// The statements of several keys at once: each does what its like for one key does, for the same reasons, and
// says here what is different. They take arrays, one element per member; a key is in them once.

// Window by a column instead of an argument. There is one window for all whose keys carry a time.
var (
	windowAskedSQL = strings.ReplaceAll(windowSQL, "$9::timestamptz", "a.made")
	windowMadeSQL  = strings.ReplaceAll(windowSQL, "$9::timestamptz", "k.made")
)

// Linearization point of each claim: its insert into the unique index, as in claimInsertSQL; nobody sees it before
// the commit of all. A loser gets no row.
//
// An insert waits for another one of the same key that is not committed. So the keys come in order: two batches
// that share keys meet at the first one, and neither waits for what waits for it.
const claimInsertManySQL = `
insert into {schema}.keys as k (scope, key, fingerprint, state, token, attempt, owner, resume, made, expires)
select a.scope, a.key, a.fingerprint, 1, {floor} + 1, a.attempt, a.owner, a.resume, a.made,
       clock_timestamp() + a.lease * interval '1 microsecond'
from unnest(
    $1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[],
    $6::boolean[], $7::bigint[], $8::bigint[], $9::timestamptz[]
) with ordinality as a (scope, key, fingerprint, attempt, owner, resume, lease, lock, made, place)
where {try_lock}(a.lock) and {window_asked}
order by a.place
on conflict do nothing
returning k.scope, k.key, k.token / case when {above} and {window_made} then 1 else 0 end
`

// The record of each key, if there is one. Each is looked up by itself, and "offset 0" keeps the planner from reading
// the whole table for a large batch instead.
const recordEachSQL = `left join lateral (
    select *
    from {schema}.keys
    where scope = a.scope and key = a.key
    offset 0
) k on true
`

// What is there for claims that got no row: see claimLookSQL.
const claimLookManySQL = `
select a.place, k.state is not distinct from 2 or {try_lock}(a.lock), clock_timestamp(), {asked}
from unnest($1::text[], $2::text[], $3::bigint[]) with ordinality as a (scope, key, lock, place)
` + recordEachSQL

// Linearization point of each renewal: its update, made while the row is locked: see renewSQL. A row that another
// has locked is passed over, so that one owner whose row is held up never makes the others lose their leases; and
// who never waits has no part in a deadlock.
//
// Each row is found by itself and locked, and so it is there when it is inserted again, which leads to it by the
// index. An update with a join would say the same; but a plan that was made for an empty table reads all of it.
const renewManySQL = `
insert into {schema}.keys as k (scope, key, fingerprint, state, token, attempt, owner, expires)
select mine.scope, mine.key, mine.fingerprint, mine.state, mine.token, mine.attempt, mine.owner, mine.expires
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) as a (scope, key, token, attempt)
cross join lateral (
    select *
    from {schema}.keys
    where scope = a.scope and key = a.key
      and token = a.token and attempt = a.attempt
      and state = 1
    for update skip locked
) mine
on conflict (scope, key) do update
set expires = clock_timestamp() + $5::bigint * interval '1 microsecond', changed = clock_timestamp()
where k.expires > clock_timestamp()
returning k.scope, k.key
`

// Linearization point of each completion: its update, see completeSQL. A row that another has locked is passed
// over, and the rows are found, as by a renewal.
const completeManySQL = `
insert into {schema}.keys as k
    (scope, key, fingerprint, token, attempt, owner, expires, state, status, header, body, not_replayable)
select mine.scope, mine.key, mine.fingerprint, mine.token, mine.attempt, mine.owner, mine.expires,
       a.state, a.status, a.header, a.body, a.not_replayable
from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::text[], $5::smallint[],
    $6::integer[], $7::bytea[], $8::bytea[], $9::boolean[]
) as a (scope, key, token, attempt, state, status, header, body, not_replayable)
cross join lateral (
    select *
    from {schema}.keys
    where scope = a.scope and key = a.key
      and token = a.token and attempt = a.attempt
      and state in (1, 3)
    for update skip locked
) mine
on conflict (scope, key) do update
set state = excluded.state, status = excluded.status, header = excluded.header, body = excluded.body,
    not_replayable = excluded.not_replayable, changed = clock_timestamp(),
    expires = case excluded.state when 1 then least(k.expires, clock_timestamp()) else k.expires end
returning k.scope, k.key
`

const findManySQL = `
select a.place, {record}
from unnest($1::text[], $2::text[]) with ordinality as a (scope, key, place)
` + recordEachSQL
