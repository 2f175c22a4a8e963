package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fiftyhosts/fifty/idempotency"
)

// statement is one SQL statement and the name that tests and errors know it by.
type statement struct{ name, text string }

// statements is all SQL that runs after the migrations, for one schema: that of claims and transactions is in
// this file, that of steps, sweeps and operators in statements_steps.go. It is a value so that a test can break
// one statement on purpose and see that the conformance suite notices.
//
// States are written as in idempotency.State: 1 in flight, 2 done, 3 unknown, 4 free, 5 tombstone.
type statements struct {
	claimInsert, claimLook, claimTake       statement
	claimTxInsert, claimTxLook, claimTxTake statement
	renew, complete, find, answerFind       statement
	claimInsertMany, claimLookMany          statement
	renewMany, completeMany, findMany       statement
	saveStep, list, audit                   statement
	tidyEnter, erase                        statement
	sweepEnter, sweep, sweepAround          statement
	resolveLock, resolve                    statement

	enter, enterKey         statement
	enterLook               statement
	guardLock, guardNew     statement
	answer, answerOver      statement
	claimSavepoint          statement
	claimRelease, claimUndo statement
	savepoint               statement
	release, undo           statement

	secretFind, secretInsert statement
	settings                 statement

	migrationsTable, migrationsVersion, migrationsLock statement
	migrationsSchema, migrationsCreate, migrationsAdd  statement
}

// Locks by which a claim sees a transaction at work on its key, without waiting. A claim that commits by
// itself shares the lock with its like, since it holds it for one statement only: two of them meet at the
// index, and one attempt that asks twice, because its first reply was lost, never takes itself for another.
const (
	sharedLock    = "pg_try_advisory_xact_lock_shared"
	exclusiveLock = "pg_try_advisory_xact_lock"
)

func statementsFor(schema string) *statements {
	sql := func(name, text string, pairs ...string) statement {
		pairs = append(pairs, "{schema}", quote(schema), "{name}", schema, "{record}", recordColumns, "{asked}", askedColumns,
			"{above}", aboveSQL, "{floor}", floorSQL, "{window}", windowSQL, "{ahead}", aheadSQL,
			"{window_asked}", windowAskedSQL, "{window_made}", windowMadeSQL, "{lock_number}", lockNumberSQL,
			"{refused}", refusedText,
			"{due_max}", strconv.Itoa(sweepDueMax))
		replacer := strings.NewReplacer(pairs...)
		for range 3 { // parts have parts
			text = replacer.Replace(text)
		}
		return statement{name, strings.TrimSpace(text)}
	}
	return &statements{
		claimInsert:   sql("claim.insert", claimInsertSQL, "{try_lock}", sharedLock),
		claimLook:     sql("claim.look", claimLookSQL, "{try_lock}", sharedLock),
		claimTake:     sql("claim.take", claimTakeSQL, "{try_lock}", sharedLock),
		claimTxInsert: sql("claimtx.insert", claimInsertSQL, "{try_lock}", exclusiveLock),
		claimTxLook:   sql("claimtx.look", claimLookSQL, "{try_lock}", exclusiveLock),
		claimTxTake:   sql("claimtx.take", claimTakeSQL, "{try_lock}", exclusiveLock),
		renew:         sql("renew", renewSQL),
		complete:      sql("complete", completeSQL),
		find:          sql("find", findSQL),
		answerFind:    sql("find.answer", answerFindSQL),

		claimInsertMany: sql("claim.insert_many", claimInsertManySQL, "{try_lock}", sharedLock),
		claimLookMany:   sql("claim.look_many", claimLookManySQL, "{try_lock}", sharedLock),
		renewMany:       sql("renew_many", renewManySQL),
		completeMany:    sql("complete_many", completeManySQL),
		findMany:        sql("find_many", findManySQL),

		saveStep:    sql("step.save", saveStepSQL),
		tidyEnter:   sql("tidy.enter", tidyEnterSQL, "{more}", ""),
		sweepEnter:  sql("sweep.enter", tidyEnterSQL, "{more}", sweepSettings),
		sweep:       sql("sweep", sweepSQL, "{skip}", ""),
		sweepAround: sql("sweep.around", sweepSQL, "{skip}", "for update skip locked"),
		list:        sql("list", listSQL),
		audit:       sql("audit", auditSQL),
		erase:       sql("erase", eraseSQL),
		resolveLock: sql("resolve.lock", resolveLockSQL),
		resolve:     sql("resolve", resolveSQL),

		enter:          sql("tx.enter", enterSQL),
		enterKey:       sql("intx.enter", enterKeySQL),
		enterLook:      sql("intx.look", enterLookSQL),
		guardLock:      sql(guardLockName, guardLockSQL, "{window}", strings.NewReplacer("$9", "$3", "$10", "$4").Replace(windowSQL)),
		guardNew:       sql(guardNewName, guardNewSQL),
		answer:         sql("intx.answer", answerSQL),
		answerOver:     sql("intx.answer_over", answerOverSQL),
		claimSavepoint: sql("claimtx.savepoint", "savepoint fifty_claim"),
		claimRelease:   sql("claimtx.release", "release savepoint fifty_claim"),
		claimUndo:      sql("claimtx.undo", "rollback to savepoint fifty_claim"),
		savepoint:      sql("savepoint", "savepoint fifty_savepoint"),
		release:        sql("savepoint.release", "release savepoint fifty_savepoint"),
		undo:           sql("savepoint.undo", "rollback to savepoint fifty_savepoint"),

		secretFind:   sql("secret.find", `select secret from {schema}.secrets where name = $1::text`),
		secretInsert: sql("secret.insert", secretInsertSQL),
		settings:     sql("settings", settingsSQL),

		migrationsTable:   sql("migrate.table", migrationsTableSQL),
		migrationsVersion: sql("migrate.version", migrationsVersionSQL),
		migrationsLock:    sql("migrate.lock", migrationsLockSQL),
		migrationsSchema:  sql("migrate.schema", `create schema {schema}`),
		migrationsCreate:  sql("migrate.create", migrationsCreateSQL),
		migrationsAdd:     sql("migrate.add", migrationsAddSQL),
	}
}

// quote makes an identifier of a schema's name, which Config.Validate has found plain.
func quote(schema string) string { return `"` + schema + `"` }

// windowSQL is Attempt.CheckWindow by the server's clock: true for a key that carries no time.
const windowSQL = `coalesce(
        $9::timestamptz > clock_timestamp() - $10::bigint * interval '1 microsecond'
        and $9::timestamptz <= clock_timestamp() + {ahead},
        true)`

var aheadSQL = fmt.Sprintf("interval '%d microseconds'", idempotency.AheadMax.Microseconds())

// Linearization point of a claim: the insert into the unique index. It is the check, too: no look before
// it can be trusted, and "do nothing" makes the violation an answer. The loser gets no row, and has to look
// in a second statement: this one's snapshot is from before the winner's commit.
//
// While a transaction holds the key's lock nothing is inserted, so a claim never waits for its commit.
//
// Until the moment of the insert a sweep may remove a record of the key, whatever was true before. So what the
// record stood for is asked for when the new one is in its place: that its token is higher, see aboveSQL, and
// that the key is in its window, by a clock that is read later than the sweep read it. Otherwise the statement
// fails (22012), and is made again.
const claimInsertSQL = `
insert into {schema}.keys as k (scope, key, fingerprint, state, token, attempt, owner, resume, made, expires)
select $1::text, $2::text, $3::bytea, 1, {floor} + 1,
       $4::text, $5::text, $6::boolean, $9::timestamptz,
       clock_timestamp() + $7::bigint * interval '1 microsecond'
where {try_lock}($8::bigint) and {window}
on conflict do nothing
returning k.token / case when {above} and {window} then 1 else 0 end
`

// floorSQL is the token that no removed key exceeds, at the moment when it is asked for: a sequence has no
// snapshots. The function is a tenth of the price of a select. It is null for a sequence that was never set,
// and then nothing can be claimed; Migrate sets it.
const floorSQL = `pg_sequence_last_value('{schema}.token_floor'::regclass)`

// aboveSQL says of a row that was just inserted that its token is higher than any that its key ever had. Had a
// sweep removed a record of this key before the insert, it had raised the floor before that. It belongs into
// RETURNING, which is evaluated when the row is in the index.
const aboveSQL = `k.token > {floor}`

// What is there for a claim that got no row, what time it is, and whether the key is open: false says that a
// transaction holds it at this moment. One row always comes back.
const claimLookSQL = `
select k.state is not distinct from 2 or {try_lock}($3::bigint), clock_timestamp(), {asked}
from (values (true)) as one
left join {schema}.keys k on k.scope = $1::text and k.key = $2::text
`

// Linearization point of a takeover: the conditional update. It names the token and the state that were
// seen, so of two that saw the same record one wins, and it asks the server's clock again. It may wait for
// the row behind another update, and is then decided anew on what that left; what has expired can't become
// valid by waiting. The token is counted on the row itself, so it only grows. A free key is new for its
// window. The steps stay, and are read in a later statement: a step that the last owner saved while this one
// waited for the row is not in its snapshot.
const claimTakeSQL = `
update {schema}.keys
set fingerprint = $3::bytea, state = 1, token = token + 1, attempt = $4::text, owner = $5::text,
    resume = $6::boolean, expires = clock_timestamp() + $7::bigint * interval '1 microsecond',
    status = null, header = null, body = null, not_replayable = false,
    made = $9::timestamptz, changed = clock_timestamp()
where scope = $1::text and key = $2::text
  and token = $11::bigint and state = $12::bigint
  and (state <> 4 or {window})
  and (state <> 1 or expires <= clock_timestamp())
  and {try_lock}($8::bigint)
returning token
`

// Linearization point of a renewal: the update, made while the row is locked. The row is locked first and
// the clock read afterwards: an update that waits for a row which its neighbour only locked is not decided
// anew, so "expires > clock_timestamp()" would be what it was before the wait and an expired claim would
// be revived. "materialized" keeps the planner from moving the comparison to before the lock.
const renewSQL = `
with mine as materialized (
    select scope, key, expires
    from {schema}.keys
    where scope = $1::text and key = $2::text
      and token = $3::bigint and attempt = $4::text
      and state = 1
    for update
)
update {schema}.keys k
set expires = clock_timestamp() + $5::bigint * interval '1 microsecond', changed = clock_timestamp()
from mine
where k.scope = mine.scope and k.key = mine.key
  and mine.expires > clock_timestamp()
`

// Linearization point of a completion: the update, conditional on token and attempt. Not on the expiry: a
// late result that nobody superseded still counts. Not on the state in flight alone: an owner that said
// "unknown" may learn better. A decided record stays as it is. In flight means let go: it expires now.
const completeSQL = `
update {schema}.keys
set state = $5::smallint, status = $6::integer, header = $7::bytea, body = $8::bytea,
    not_replayable = $9::boolean, changed = clock_timestamp(),
    expires = case $5::smallint when 1 then least(expires, clock_timestamp()) else expires end
where scope = $1::text and key = $2::text
  and token = $3::bigint and attempt = $4::text
  and state in (1, 3)
`

const findSQL = `
select {record}
from {schema}.keys k
where k.scope = $1::text and k.key = $2::text
`

// An answer, and nothing of any other record.
const answerFindSQL = `
select fingerprint, status::bigint, header, body, not_replayable
from {schema}.keys
where scope = $1::text and key = $2::text
  and state = 2
`

// The limits of a transaction of ours, for itself only ("true" is SET LOCAL): how long it may wait for a
// statement, and how long for the network.
const enterSQL = `
select set_config('idle_in_transaction_session_timeout', $1::text, true),
       set_config('tcp_user_timeout', $1::text, true)
`

// The same, and whether the key is ours alone for the length of the transaction. That nothing can be written,
// that the tables are those of an older program, and that a time-ordered key is outside of its window, is said
// before the work, not after it.
const enterKeySQL = `
select set_config('idle_in_transaction_session_timeout', $1::text, true),
       set_config('tcp_user_timeout', $1::text, true),
       pg_try_advisory_xact_lock($2::bigint), current_setting('transaction_read_only') = 'on',
       {floor} is null, clock_timestamp()
`

// The record is looked at in a statement of its own, behind the lock: its snapshot then has what the lock's
// last holder committed. For a record that is no answer findSQL follows.
const enterLookSQL = `
select state::bigint, token, fingerprint, attempt, owner, resume, coalesce(status, 0)::bigint, header, body, not_replayable
from {schema}.keys
where scope = $1::text and key = $2::text
`

// The guards of a claim that travels with the work's first statement. They fail (22P02) with this text, and the
// server then skips the rest of the message; the server's log shows it. The text is no constant of the statement,
// for a planner may evaluate a constant before it has looked at the condition.
const (
	guardLockName = "intx.lock"
	guardNewName  = "intx.new"
	refusedText   = "fifty: this idempotency key is in use or was used; the duplicate is told so"
)

// The limits of the transaction, and that the key is ours alone for its length. All that enterKeySQL says about
// why nothing can be done is asked again by that.
const guardLockSQL = `
select set_config('idle_in_transaction_session_timeout', $1::text, true),
       set_config('tcp_user_timeout', $1::text, true),
       (case when pg_try_advisory_xact_lock($2::bigint)
              and current_setting('transaction_read_only') = 'off'
              and {floor} is not null
              and {window}
        then '0' else '{refused}' end)::integer
`

// That the key has no record. In a statement of its own, behind the lock: its snapshot then has what the lock's
// last holder committed.
const guardNewSQL = `
select (case when exists (select from {schema}.keys where scope = $1::text and key = $2::text)
        then '{refused}' else '0' end)::integer
`

// Linearization point of InTx on a new key: the COMMIT that follows this insert. A plain insert: the
// unique index refuses a second answer (23505), and the work is then rolled back with it; so it is (22012) for
// the reasons of claimInsertSQL.
const answerSQL = `
insert into {schema}.keys as k
    (scope, key, fingerprint, state, token, attempt, owner, resume, status, header, body, not_replayable, made)
values
    ($1::text, $2::text, $3::bytea, 2, {floor} + 1, $4::text, $5::text,
     $6::boolean, $7::integer, $8::bytea, $11::bytea, $12::boolean, $9::timestamptz)
returning k.token / case when {above} and {window} then 1 else 0 end
`

// The same for a record that Judge lets this attempt take, or that is this attempt's own: on the condition
// that it is still the one that was seen.
const answerOverSQL = `
update {schema}.keys
set fingerprint = $3::bytea, state = 2, token = token + 1, attempt = $4::text, owner = $5::text,
    resume = $6::boolean, expires = null, status = $7::integer, header = $8::bytea, body = $9::bytea,
    not_replayable = $10::boolean, made = $11::timestamptz, changed = clock_timestamp()
where scope = $1::text and key = $2::text
  and token = $12::bigint and state = $13::bigint
  and (state <> 1 or expires <= clock_timestamp() or attempt = $4::text)
returning token
`

// Linearization point of a new secret: the insert into the primary key. Who comes later reads the first.
const secretInsertSQL = `
insert into {schema}.secrets (name, secret)
values ($1::text, $2::bytea)
on conflict do nothing
`

const settingsSQL = `
select current_setting('synchronous_commit'), current_setting('fsync'),
       current_setting('full_page_writes'), pg_is_in_recovery(),
       current_setting('default_transaction_read_only') = 'on'
`

// Read from the catalog's tables, not by to_regclass: that asks the session's cache, which may not have
// heard yet of what the lock's last holder made.
const migrationsTableSQL = `
select exists (
           select from pg_catalog.pg_namespace
           where nspname = $1::text
       ),
       exists (
           select from pg_catalog.pg_class c
           join pg_catalog.pg_namespace n on n.oid = c.relnamespace
           where n.nspname = $1::text and c.relname = 'migrations'
       )
`

const migrationsVersionSQL = `
select coalesce(max(version), 0)::bigint, coalesce(max(oldest), 0)::bigint
from {schema}.migrations
`

// One program migrates a schema at a time; the lock goes with its transaction. The form with two numbers
// is a space of its own, so no key's lock can be in the way. 50 is Fifty.
const migrationsLockSQL = `
select pg_advisory_xact_lock(50, hashtext($1::text))
`

const migrationsCreateSQL = `
create table {schema}.migrations (
    version integer primary key,
    name    text not null,
    oldest  integer not null, -- the oldest version of the program's own schema that still works with this
    applied timestamptz not null default clock_timestamp()
)
`

const migrationsAddSQL = `
insert into {schema}.migrations (version, name, oldest)
values ($1::integer, $2::text, $3::integer)
`
