// Package sqlite keeps Fifty's state in one SQLite file: for one host, with any number of processes, and
// without a server to run. The driver is modernc.org/sqlite, so no C compiler is needed.
//
//	store, err := sqlite.Open(ctx, "fifty.db", sqlite.Config{})
//	…
//	err = store.Migrate(ctx)
//	keys := idempotency.NewTx(store.Keys(), idempotency.Config{})
//
// # Your tables in the same file
//
// [Store.DB] gives connections for tables of your own. InTx hands its *sql.Tx to your function: what you
// write through it is committed together with the key and its answer, or not at all. DoTx takes a *sql.Tx
// that you began, from [Store.DB] or [Txns.Transact].
//
// # What holds
//
//   - What was acknowledged is durable: the file is in WAL mode with synchronous=FULL, so COMMIT returns
//     after the log was flushed. This is as good as the disk's own flush.
//   - The unique index on (scope, key), compared byte for byte, decides every claim. Every decision is a
//     transaction that holds the file's write lock from its first statement, so what it read stays true.
//   - A lost COMMIT is rare: a busy or full file proves that nothing was committed, and the end of a context
//     never interrupts one. Only an I/O error in COMMIT leaves the outcome unknown.
//   - SQLite rolls a transaction back by itself when a statement in it is interrupted or the disk is full.
//     Connections of a Store refuse every statement after that with [ErrUndone], since each would otherwise
//     commit on its own. A *sql.DB that you opened on the file yourself has no such guard: don't use its
//     transactions with DoTx.
//
// # The clock
//
// SQLite has no server, so its clock is the host's. A Store makes a clock of its own from it, that never
// goes back: the latest time that any claim, renewal, takeover or seen expiry was based on is kept in the
// file, in the same transaction, and later ones go by that time or a later one, in every process and after
// every restart. While the host's clock is behind it, time goes on at the pace of the monotonic clock.
//
// So a host clock that is set back never revives a claim that was seen to have expired. What is promised is
// safety, not liveness: a clock that jumps ahead lets claims expire early (which runs nothing twice: such a
// key is unresolved, or taken over with a higher token if its work is made of steps), and the file then
// stays ahead until the host has caught up. After a restart with the clock set back, time goes on from the
// last one written, so that a claim whose owner died may be held for longer than its lease, by what had
// passed since.
//
// Windows and sweeps go by the same time. A time-ordered key that was refused as too old, or whose tombstone
// was removed, stays refused whatever becomes of the host's clock. But a sweep can't tell a clock that jumped
// ahead by days from days that passed: it drops answers early, and past [idempotency.Config].Tombstone it forgets
// opaque keys. Keep the host's clock in step (NTP), and don't sweep where it may be wrong.
//
// # Sweeps
//
// [Keys.Sweep] works in transactions of at most 200 records or about 4 MiB; a claim waits for one at most. Between
// two of them it leaves the file alone: while others write for four times as long as the last one took, so that they
// keep four fifths of the writer's time, and else for a quarter of it. What it wrote to the log it carries into the
// file itself, beside the writer. Removing a tombstone costs more than a bare DELETE
// of many at once, for each small transaction writes the pages of the index again that its keys are spread over;
// docs/benchmarks/idempotency.md has the figures. The index that it goes by holds nothing in flight: it costs a claim with its
// completion about a tenth of their CPU time (25 of 250 µs), and the log 5.0 pages where it would have 4.6.
//
// A file does not shrink: pages that were freed are used again. What was erased or swept stays readable in
// them until then; see [Keys.Erase].
//
// # Stock
//
// [Store.Stock] keeps levels and holds in the same file, and [Stock.ReserveTx] takes a transaction that began on
// [Store.DB]: the order's row and its hold are committed together. The levels are checked by the tables: no SQL,
// not even yours, makes them add up to anything but the supply. Callers of one process share a transaction, so a
// hot SKU sells as many units per flush as there are callers. Nothing is indexed by time: a sweep finds old holds
// at the beginning of their table, and goes no further than those of the time to keep.
//
// # Upgrades
//
// A process of the version before goes on working on a migrated file. It knows no windows: a time-ordered key
// that it claims is kept for the tombstone's time from its completion, like any other.
//
// # Limits
//
//   - One writer at a time for the whole file. Callers of one Store queue for it in order of arrival; other
//     processes wait up to [Config].BusyTimeout, in no order, and then get a Retryable error. A function in
//     InTx holds the writer while it runs.
//   - A duplicate of an InTx under way is told at once within one Store, but for one in a transaction of yours
//     (DoTx): that waits for the writer, as every duplicate does across processes.
//   - Never on a network file system (NFS, SMB, most FUSE): WAL needs memory shared by all processes, and
//     file locks that work. Two hosts on one such file damage it. For many hosts there is store/postgres.
//   - The files NAME-wal and NAME-shm beside it belong to the database: copy, move or delete none of them
//     while it is open. To copy it, use VACUUM INTO.
//   - A reader that stays open for long (a transaction of DB) lets the log grow.
//
// # Files
//
//   - store.go: Open, Config and the connections; errors.go: what errors mean and leave behind
//   - migrate.go, migrations/: the tables
//   - statements.go: all the SQL that decides something
//   - writer.go: the process's turn at the writer, and its transactions; txns.go: the same for callers
//   - guard.go: connections that notice when SQLite has rolled back by itself
//   - clock.go: time that never goes back
//   - keys.go: the records of idempotency keys; keystx.go: the same within a transaction
//   - steps.go: the steps of a record; sweep.go: what becomes of old records; operator.go: what people see
//     and decide
//   - record.go: a record as a row; secret.go: secrets shared by all processes
//   - stock.go, stockquick.go: stock; stockstatements.go: its SQL; stockrows.go: its rows
//   - stockledger.go: its books, and splits; stocksweep.go: what becomes of old holds
package sqlite
