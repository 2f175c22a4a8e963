package postgres

// Linearization point of a step: the statement's commit. The key's row is written too, although nothing in it
// changes: a takeover waits for this row, or this statement for the takeover's and then finds another token.
// Only locked, the row would let a transaction with an older snapshot take over without the step. A finished
// step stays finished, whatever comes late.
const saveStepSQL = `
with mine as (
    update {schema}.keys
    set token = token
    where scope = $1::text and key = $2::text
      and token = $3::bigint and attempt = $4::text
      and state = 1
    returning scope, key
)
insert into {schema}.steps (scope, key, name, sent, result)
select scope, key, $5::text, $6::boolean, $7::bytea
from mine
on conflict (scope, key, name) do update
set sent = excluded.sent or steps.result is not null, result = coalesce(excluded.result, steps.result)
`

// What a sweep and an erasure run under, for their transaction only: the limits of enterSQL, and plans that go
// through the indexes in their order. Without statistics, as after many records came or went at once, the
// planner would rather read all that is due, and sort it, for every batch. What can't do without a plan that is
// off looks so dear that it would be compiled first, for seconds.
const tidyEnterSQL = `
select count(set_config(name, value, true))
from (values
    ('idle_in_transaction_session_timeout', $1::text), ('tcp_user_timeout', $1::text),
    ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'),
    ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
    ('jit', 'off'){more}
) as setting (name, value)
`

// A sweep waits for a locked row for a moment only: see sweepSQL.
const sweepSettings = `,
    ('lock_timeout', '100')`

// lockNumberSQL is Store.lockNumber of the columns scope and key.
const lockNumberSQL = `('x' || left(encode(sha256(
        convert_to('{name}', 'UTF8') || decode('00', 'hex')
        || convert_to(scope, 'UTF8') || decode('00', 'hex')
        || convert_to(key, 'UTF8')), 'hex'), 16))::bit(64)::bigint`

// Linearization point of a sweep: the COMMIT that follows. Others wait for no longer than it runs: a duplicate of an
// answer that is just being dropped waits for the row, a claim of a tombstone that is just being removed for
// the index. It waits for nobody who has an answer, a free key or a free key's lock, but skips them.
//
//   - gate: one sweep at a time removes rows, so that the floor is raised by one at a time and the locks of
//     all hosts' sweeps don't fill the server's table of locks. The others only drop answers.
//   - removed are tombstones. They change no more, and nobody works on their keys, so they are not locked first, which
//     would be a quarter of the price. Should somebody have locked one all the same, the statement waits for a tenth of a
//     second, fails, and is made again with {skip}.
//   - due are answers and free keys. $4 and $5 say where the last batch came to, since what lies before is mostly
//     dead entries of the index. Of due there are fewer, for each free key among them has a place in the table
//     of locks: it may be claimed at any moment, by a transaction, too, so it is removed only by who has its lock.
//   - floor: no key that is removed had a higher token. It is raised before the commit, and nobody can write
//     the key anew before that: see aboveSQL for who reads it. What it was is read behind the gate: the subquery
//     depends on what was removed.
//   - a row that changed since the statement's snapshot is not found by its place any more, and stays for the
//     next sweep. So the steps that are seen here are all that it has. A tombstone has none.
//
// statement_timestamp() can be compared through an index, and is no later than the clock.
const sweepSQL = `
with gate as materialized (
    select pg_try_advisory_xact_lock(50, hashtext('{name} sweep')) as open
),
removed as (
    delete from {schema}.keys k
    where k.ctid = any (array(
        select k.ctid
        from {schema}.keys k
        where (select open from gate)
          and k.buried >= coalesce($4::timestamptz, '-infinity')
          and k.buried <= statement_timestamp() - $2::bigint * interval '1 microsecond'
        order by k.buried
        limit $3::bigint
        {skip}
    ))
    returning k.token, k.buried
),
old as materialized (
    select count(*) as n, max(token) as token, max(buried) as buried from removed
),
due as materialized (
    select k.ctid as place, k.scope, k.key, k.state, k.created
    from {schema}.keys k
    where k.buried is null
      and k.created >= coalesce($5::timestamptz, '-infinity')
      and k.created <= statement_timestamp() - $1::bigint * interval '1 microsecond'
      and k.changed <= statement_timestamp() - $1::bigint * interval '1 microsecond'
      and (k.state = 2 or k.state = 4 and (select open from gate))
    order by k.created
    limit least($3::bigint - (select n from old), {due_max})
    for update skip locked
),
gone as (
    delete from {schema}.keys k
    where k.ctid = any (array(
        select place from due
        where state = 4 and pg_try_advisory_xact_lock({lock_number})
    ))
    returning k.scope, k.key, k.token
),
dropped as (
    update {schema}.keys k
    set state = 5, status = null, header = null, body = null, not_replayable = false,
        buried = greatest(k.changed, k.made)
    where k.ctid = any (array(select place from due where state = 2))
    returning k.scope, k.key
),
forgotten as (
    delete from {schema}.steps s
    using (select scope, key from gone union all select scope, key from dropped) k
    where s.scope = k.scope and s.key = k.key
),
floor as (
    select case when d.token > f.last_value then setval('{schema}.token_floor', d.token) else f.last_value end as value
    from (select greatest((select token from old), (select max(token) from gone)) as token offset 0) d,
    lateral (select (select last_value from {schema}.token_floor where d.token is not null) as last_value offset 0) f
)
select (select n from old) + (select count(*) from gone) + (select count(*) from dropped),
       coalesce((select buried from old), $4::timestamptz),
       coalesce((select max(created) from due), $5::timestamptz),
       coalesce((select value from floor), 0)
`

// What an operator may decide: the owner said that it doesn't know, or vanished.
const unresolvedSQL = `(k.state = 3 or k.state = 1 and k.expires <= clock_timestamp())`

const listSQL = `
select k.scope, k.key, {record}
from {schema}.keys k
where (k.scope, k.key) > ($1::text, $2::text)
  and ($3::text = '' or k.scope = $3::text)
  and (not $4::boolean or ` + unresolvedSQL + `)
  and ($5::bigint = 0 or k.created <= clock_timestamp() - $5::bigint * interval '1 microsecond')
order by k.scope, k.key
limit $6::bigint
`

// The row is locked in a statement of its own. The next one's snapshot then has whatever an owner wrote that
// came back late, its steps included, and nobody writes any more.
const resolveLockSQL = `
select {record}
from {schema}.keys k
where k.scope = $1::text and k.key = $2::text
for update of k
`

// Linearization point of a decision: the COMMIT that follows. Token and attempt are taken from the owner, so
// what it still sends is refused. The audit is written or not with the decision itself.
const resolveSQL = `
with open as materialized (
    select k.scope, k.key, k.state
    from {schema}.keys k
    where k.scope = $1::text and k.key = $2::text
      and $3::bigint in (0, k.token)
      and ` + unresolvedSQL + `
),
decided as (
    update {schema}.keys k
    set state = $4::smallint, token = k.token + 1, attempt = '', status = $5::integer, header = $6::bytea,
        body = $7::bytea, not_replayable = $8::boolean, changed = clock_timestamp()
    from open
    where k.scope = open.scope and k.key = open.key
    returning k.scope, k.key, k.token, open.state as before, k.state as after
),
forgotten as (
    delete from {schema}.steps s
    using decided d
    where d.after = 4 and s.scope = d.scope and s.key = d.key
)
insert into {schema}.audit (scope, key, token, before, after, decided_by, note)
select scope, key, token, before, after, $9::text, $10::text
from decided
`

const auditSQL = `
select at, decided_by, note, before::bigint, after::bigint, token
from {schema}.audit
where scope = $1::text and key = $2::text
order by id
`

// Linearization point of an erasure: the COMMIT that follows. It waits for who has a row, since an answer that
// is skipped would stay. $3 says where the last batch came to.
const eraseSQL = `
with due as materialized (
    select k.ctid as place, k.key
    from {schema}.keys k
    where k.scope = $1::text and k.key >= $3::text
      and k.state = 2
      and (not k.not_replayable or exists (
          select from {schema}.steps s
          where s.scope = k.scope and s.key = k.key
      ))
    order by k.key
    limit $2::bigint
    for update of k
),
bare as (
    update {schema}.keys k
    set header = null, body = null, not_replayable = true
    where k.ctid = any (array(select place from due))
    returning k.key
),
forgotten as (
    delete from {schema}.steps s
    using bare
    where s.scope = $1::text and s.key = bare.key
)
select (select count(*) from bare), coalesce((select max(key) from due), '')
`
