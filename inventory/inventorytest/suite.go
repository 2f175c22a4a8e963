package inventorytest

import (
	"context"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/internal/suite"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// Hook is called by a store just before each of its statements or locks (BEGIN and COMMIT are statements
// too), with the context of the call and on the goroutine of the caller. It may block, so a store must not
// hold a lock of its own process while it calls: what another caller of the store may wait for is at most
// what the statements themselves hold, in the database. point names the statement: "reserve.lock".
type Hook func(ctx context.Context, point string)

// Features says how a store differs, each time with the reason. The zero value is a store with a real
// clock that can do everything.
type Features struct {
	// Advance moves the clock of every store that the test's newStore makes, at once. Nil means that the
	// store's clock is a real one; holds of a case then expire in the next second, and the suite waits for it.
	Advance func(d time.Duration)

	// NoLedger is the reason why the store is no inventory.LedgerStore. When it is empty, the store must be
	// one, and after each case its books must add up.
	NoLedger string

	// NoSplit is the reason why the store is no inventory.SplitStore. When it is empty, the store must be one.
	NoSplit string

	// TxWaits is the reason why a transaction of the caller's does not begin while another is still running.
	// When it is empty, two that share no SKU and no id must not wait for each other.
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

	// OrdersMax makes the races of a slow store brief: one that has more orders than this is run in those in
	// which at most one caller is interrupted once. Zero sets no such bound. A store is to be run without it
	// too, now and then.
	OrdersMax int

	// Schedule replays the races under this one order, as a failure prints it, instead of under all.
	Schedule string
}

func (f Features) races() *suite.Races {
	return &suite.Races{Grace: f.Grace, Blocked: f.Blocked, Schedule: f.Schedule, SchedulesMin: f.SchedulesMin, OrdersMax: f.OrdersMax}
}

// Run checks a store, each claim of the contract in a subtest. It calls newStore once per case, with the
// subtest, and never uses an id or a SKU twice, so that all of a test's stores may share one database; no
// other test may. The hook is never nil.
func Run(t *testing.T, newStore func(tb testing.TB, hook Hook) inventory.Store, f Features) {
	t.Helper()
	races := f.races()
	suite.Run(t, cases(newStore, f, races), races)
}

// Catch runs the cases of Run against a store that is broken on purpose, and returns the names of the
// cases that failed, in order: none means that the fault went unnoticed. Their failures are logged on t
// and don't fail it. With only, just the cases of these names run; a name that is none fails t.
func Catch(t *testing.T, newStore func(tb testing.TB, hook Hook) inventory.Store, f Features, only ...string) []string {
	t.Helper()
	return suite.Catch(t, cases(newStore, f, f.races()), only)
}

// TxHarness is a store with transactions, with what the suite needs beside it to look at a business
// write. All of its parts share one database.
type TxHarness[Tx any] struct {
	Store inventory.TxStore[Tx]
	Txns  txn.Store[Tx]

	// Effect writes one more effect called name in tx: a row in a table without a unique index.
	Effect func(ctx context.Context, tx Tx, name string) error

	// Effects counts the effects called name that are committed. It reads outside of any transaction.
	Effects func(ctx context.Context, name string) (int, error)
}

// RunTx checks what a store does within transactions, each claim in a subtest. It calls newTx once per
// case, with the subtest, and never uses an id, a SKU or an effect's name twice. Run it beside Run, not
// instead.
func RunTx[Tx any](t *testing.T, newTx func(tb testing.TB, hook Hook) TxHarness[Tx], f Features) {
	t.Helper()
	races := f.races()
	suite.Run(t, txCases(newTx, f, races), races)
}

// CatchTx is Catch for the cases of RunTx.
func CatchTx[Tx any](t *testing.T, newTx func(tb testing.TB, hook Hook) TxHarness[Tx], f Features, only ...string) []string {
	t.Helper()
	return suite.Catch(t, txCases(newTx, f, f.races()), only)
}

// claim is a case on a store; txClaim one on a store with transactions.
type claim struct {
	name string
	run  func(w *world)
}

type txClaim[Tx any] struct {
	name string
	run  func(w *txWorld[Tx])
}

// cases are those of Run, without those about what f says that the store has not.
func cases(newStore func(tb testing.TB, hook Hook) inventory.Store, f Features, races *suite.Races) []suite.Case {
	groups := [][]claim{
		supplyCases, reserveCases, batchCases, settleCases, expiryCases, sweepCases, stockCases, raceCases, expiredRaceCases,
	}
	if f.NoLedger == "" {
		groups = append(groups, ledgerCases)
	}
	if f.NoSplit == "" {
		groups = append(groups, splitCases, splitRaceCases)
	}
	var all []suite.Case
	for _, group := range groups {
		for _, c := range group {
			all = append(all, suite.Case{Name: c.name, Run: func(r suite.Reporter, tb testing.TB) {
				r.Helper()
				w := newWorld(r, newStore(tb, interleave.Point), f, races)
				c.run(w)
				w.sound()
			}})
		}
	}
	return all
}

func txCases[Tx any](newTx func(tb testing.TB, hook Hook) TxHarness[Tx], f Features, races *suite.Races) []suite.Case {
	var all []suite.Case
	for _, group := range [][]txClaim[Tx]{txStockCases[Tx](), txRaceCases[Tx]()} {
		for _, c := range group {
			all = append(all, suite.Case{Name: c.name, Run: func(r suite.Reporter, tb testing.TB) {
				r.Helper()
				h := newTx(tb, interleave.Point)
				w := &txWorld[Tx]{newWorld(r, h.Store, f, races), h}
				c.run(w)
				w.sound()
			}})
		}
	}
	return all
}
