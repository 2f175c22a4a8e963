package idempotencytest

import (
	"context"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// Hook is called by a store just before each of its statements or locks (BEGIN and COMMIT are statements
// too), with the context of the call and on the goroutine of the caller. It may block, so a store must not
// hold a lock of its own process while it calls: what another caller of the store may wait for is at most
// what the statements themselves hold, in the database. point names the statement: "claim.insert".
type Hook func(ctx context.Context, point string)

// Features says how a store differs, each time with the reason. The zero value is a store with a real
// clock that can do everything.
type Features struct {
	// Advance moves the clock of every store that the test's newStore makes, at once. Nil means that the
	// store's clock is a real one; the suite then uses short leases and waits until the store says that
	// they ran out.
	Advance func(d time.Duration)

	// Now reads that clock. It is wanted with Advance, for keys that carry a time. Nil means that the store's
	// clock is about that of this process.
	Now func() time.Time

	// NoOperator is the reason why the store is no idempotency.OperatorStore. When it is empty, the store
	// must be one, and is checked as one.
	NoOperator string

	// DuplicateWaits is the reason why a duplicate of an InTx that is still running waits for its commit.
	// When it is empty, a duplicate must be told at once that the key is in flight.
	DuplicateWaits string

	// TxWaits is the reason why a transaction of the caller's does not begin while an InTx is still running. A
	// duplicate in one (DoTx) then gets the answer, also where others are told at once.
	TxWaits string

	// Grace is how long a caller may be silent before it counts as blocked in the database, by a lock that
	// another caller holds. It decides how the callers are interleaved, never whether a right store passes.
	// Too short a grace mixes up the order that catches a fault. Defaults to 25 ms.
	Grace time.Duration

	// Blocked, if the database can tell, says how many of the test's sessions wait for a lock now. It is
	// asked every 5 ms while a caller is silent, and spares both the grace and its guesswork.
	Blocked func(ctx context.Context) int

	// SchedulesMin is the least number of schedules that the races of a whole Run or RunTx must have gone
	// through: what the store went through when its hooks were last counted, less some for those that its
	// locks make vary. It keeps hooks from being lost unnoticed. Zero asks for no more than each race does.
	SchedulesMin int

	// Schedule replays the races under this one order, as a failure prints it, instead of under all.
	Schedule string

	schedules *int // that the races have gone through so far
}

// Run checks a store, each claim of the contract in a subtest. It calls newStore once per case, with the
// subtest, and never uses a scope twice, so that all of a test's stores may share one database; no other test
// may. The hook is never nil.
func Run(t *testing.T, newStore func(tb testing.TB, hook Hook) idempotency.Store, f Features) {
	t.Helper()
	run(t, cases(newStore, f), f)
}

// TxHarness is a store with transactions, with what the suite needs beside it to look at a business
// write. All of its parts share one database.
type TxHarness[Tx any] struct {
	Store idempotency.TxStore[Tx]
	Txns  txn.Store[Tx]

	// Effect writes one more effect called name in tx: a row in a table without a unique index.
	Effect func(ctx context.Context, tx Tx, name string) error

	// Effects counts the effects called name that are committed. It reads outside of any transaction.
	Effects func(ctx context.Context, name string) (int, error)

	// Break runs a statement in tx that fails, and returns its error: SELECT 1/0, say, after which Postgres
	// refuses every other statement of the transaction. Nil for a store without statements.
	Break func(ctx context.Context, tx Tx) error
}

// RunTx checks what a store does within transactions, each claim in a subtest. It calls newTx once per
// case, with the subtest, and never uses a scope or an effect's name twice. Run it beside Run, not instead.
func RunTx[Tx any](t *testing.T, newTx func(tb testing.TB, hook Hook) TxHarness[Tx], f Features) {
	t.Helper()
	run(t, txCases(newTx), f)
}
