// Package postgres keeps Fifty's state in PostgreSQL 13 or newer, through pgx ([New]) or through
// database/sql ([NewDB], written for pgx's stdlib driver). Both run the same SQL.
//
//	store := postgres.New(pool, postgres.Config{})
//	if err := store.Migrate(ctx); err != nil { … }
//	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
//
// # What decides
//
// The unique index on (scope, key) decides who owns a key: the insert is the check. Scope and key are of
// collation "C", so they compare byte for byte in every database, and no upgrade of the host's collations
// can disorder the index. Every expiry is decided by clock_timestamp(), never by a host's clock and never
// by now(), which stands still in a transaction.
//
// A time-ordered key is compared with its window by the same clock, in the statement that writes the claim.
//
// Several claims are one insert, in the order of their keys; several renewals or completions are one statement that
// passes over rows that others have locked (idempotency.ErrAlone). It writes through the index's own conflict, row by
// row: with an update and a join, a plan that was made for an empty table would read all of one that has grown.
// Takeovers stay statements of their own.
//
// InTx and ClaimTx also take a transaction-level advisory lock named after the key. It does not guard the key:
// it is how a duplicate learns at once that a transaction works on it, instead of waiting for the index. Its
// number is the first eight bytes of SHA-256 over schema, NUL, scope, NUL, key. Two keys with one number
// would see each other as in flight for a moment, and no worse.
//
// # Steps, sweeps and decisions
//
// A step is written together with its key's row, and a decision of an operator in the statement after the one
// that locks the row. So a takeover, a freed key and a late owner always agree about the steps.
//
// A sweep never waits, and nobody waits for it longer than its one statement runs, which travels with its
// COMMIT (over database/sql it is a message of its own; a host that stops between the two is ended after 5 s).
// What others have locked it skips. One sweep at a time removes keys; the others only drop answers. A free key
// that is just being removed reads as in flight for that moment.
//
// Tokens outlive their keys. Before a key is removed its token is written into the sequence token_floor, which
// has no snapshots. A new record gets a token above that, and asks again once it is in the index: a record that
// a sweep removed until then had raised the floor before. So no claim, however old its transaction, misses it.
// In a caller's transaction a claim that finds the floor risen under it fails, as by a serialization failure
// (Classify says Retryable); that takes a sweep between two looks at one sequence within one statement.
//
// # Stock
//
// The row of a bucket is its lock. A transaction of ours locks all rows that it needs in one order, reads them in
// a later statement with the server's clock, lets an inventory.Batch decide, and writes in the message of COMMIT.
// What is simple is decided by one message instead. Orders whose ids are new, of one SKU or of several, are one
// statement whose conditions are asked again on each row that it waited for; it takes the rows in the same order. A
// batch that probably has known ids, or a sold-out one, is a statement behind the one that locks. When a condition
// fails nothing is written, and the Batch decides.
//
// That an id is new is not asked: the unique index fails the statement if it is not. The server logs that ("duplicate
// key value", holds_pkey), so after one such id the next ten thousand batches of this Store ask. A batch about several
// SKUs of which some are short and others are not fails in the same way ("division by zero"), when a SKU turns out
// to be short that was not remembered as such. Both are rolled back and decided anew at once; no caller sees them.
//
// An order that is decided by one statement is told its time to live as ExpiresIn; it expires within the second
// after that. Which SKUs are split, and which are short, is remembered as a hint.
//
// ReserveTx decides in one statement of the caller's transaction. Two transactions that reserve under one id in
// the same moment are one hold: the second fails, Classify says Retryable, and its next run finds the hold.
// Anything else is decided behind a savepoint, so that locks can be let go of and taken in order.
//
// Nobody waits for a row of the stock for longer than 5 s ([ErrLockTimeout]); in a caller's transaction its own
// lock_timeout counts. A Split into fewer buckets reads all holds. Sweep skips what is locked.
//
// # Plans
//
// A session keeps its plans while the tables grow. So the tables are made with some empty pages, which vacuum
// leaves to them (vacuum_truncate is off): no plan that is made for them reads a table whole. VACUUM FULL and
// CLUSTER take the pages away; run ANALYZE when the table has grown again after one.
//
// # What survives
//
// What was answered survives a crash and a restart of the server. It does not survive
//
//   - a failover to a standby that had not received it: with asynchronous replication the newest claims
//     and answers can be lost, and a key that was answered reads as new. Name synchronous standbys;
//   - a crash with synchronous_commit = off, fsync = off or full_page_writes = off.
//
// [Store.Check] reports such settings; call it at the start of a program. Logical replication does not carry
// sequences: set token_floor on the new server (setval, with two arguments) before it takes claims.
//
// # Upgrades and rights
//
// Migrations only add, so hosts of the version before go on working. Two things to know: an old host can give a
// key that was removed a token that it had before, so start sweeping when all hosts are upgraded; and claims
// wait while the two indexes of 0004 are built, about a second for a million keys. A role that only works on
// the tables needs select, insert, update and delete on the tables of the schema, and select and update on its
// sequences.
//
// # A host that stops without dying
//
// A transaction that Fifty opens sets idle_in_transaction_session_timeout and tcp_user_timeout to
// Config.IdleMax, for itself only. So a frozen or unreachable host lets go of its keys after that time.
// Nothing else is set, so a pooler in transaction mode is fine; prepared statements follow the pool's
// QueryExecMode.
//
// # Errors
//
// An error that is a fifty.ErrUnknownOutcome leaves it open whether the call took effect: its reply was
// lost. Any other error means that nothing changed. Classify tells which are worth another attempt.
//
// # Files
//
//   - store.go: Store and Config; check.go: settings that lose data; secret.go: secrets of the store
//   - statements.go, statements_steps.go, statements_batch.go, statements_stock*.go: all SQL; migrate.go and migrations/: the tables
//   - engine.go: what the rest needs of a driver; pgx.go, pgxtx.go and sql.go: the two drivers
//   - pgxlate.go, pgxopening.go: a claim that travels with the work; pgxpipe.go, pgxreply.go, pgxtexts.go: how
//   - errors.go: what an error means
//   - keys_batch.go, complete_batch.go: several at once
//   - keys.go: claims; complete.go: renewals and completions; keystx.go: the same within a transaction
//   - steps.go, sweep.go, operator.go: steps; what is old; what people decide
//   - record.go: a row as a record; header.go: how headers are stored
//   - txns.go: transactions and savepoints
//   - stock.go: what decides about stock; stock_look.go, stock_rows.go, stock_write.go: what it reads and writes;
//     stock_quick.go, stock_trip.go: what is simple; stock_layout.go: hints; stock_tx.go: within a transaction
//   - stock_supply.go, stock_sweep.go, stock_books.go: deliveries and splits; what is old; levels and audits
package postgres
