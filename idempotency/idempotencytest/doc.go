// Package idempotencytest proves that a store of keys keeps its contract: Run for every
// [idempotency.Store], RunTx for every [idempotency.TxStore]. A store package calls them from its tests:
//
//	func TestContract(t *testing.T) {
//		db := open(t)
//		idempotencytest.Run(t, func(tb testing.TB, hook idempotencytest.Hook) idempotency.Store {
//			return newStore(db, hook)
//		}, idempotencytest.Features{})
//	}
//
// Races are not left to luck. A store calls a [Hook] just before each of its statements; the suite stops
// each caller there, and runs the calls of two or three callers in every possible order. What it says
// about a race, it has seen under each of those orders. Where a store has so many statements that all
// orders would take minutes, the suite runs as many as it says, and of the rest all those in which nobody
// is interrupted more than twice in all. A failure prints its order, for [Features].Schedule to replay.
//
// A suite that can't fail proves nothing, so a store package also breaks its own store on purpose, one
// condition at a time, and asserts with [Catch] or [CatchTx] that the suite notices each. Whether a fault
// is caught must not depend on how quick the machine is: give it [Features].Blocked, or a generous Grace.
//
// Cases that sweep work on all that is in the database, and count it. While a test of the suite runs, nothing
// else may work there: give each test a database of its own.
//
// For runs that no test controls, several processes on one database say, there are models of one key to check
// histories by, with package faults/history: [KeyModel] of a store's calls, which [Recorded] records and
// [KeyWork] makes at random, and [DoModel] of Keys, which [RecordedDo] records. How many random runs it takes
// until they show a fault, the tests of this package print: some need a hundred, and some show in none.
//
// What the suite does not prove: that the store's clock, and not the host's, decides an expiry, a window or the time
// of a sweep, and from when that time counts, unless the store's clock can be moved ([Features].Advance); and
// nothing about a store that is stopped, or a reply that is lost.
//
// # Files
//
//   - suite.go: Run, RunTx and what they need; catch.go: Catch and CatchTx
//   - case.go: what a case is; world.go, txworld.go: what it has at hand
//   - claims.go, expiry.go, complete.go, answers.go, batch.go, together.go, neighbours.go: cases of one caller
//   - races.go, racing.go: cases of several callers in every order
//   - do.go: cases through idempotency.Keys
//   - letgo.go, steps.go, stepraces.go, dosteps.go: cases of work made of steps
//   - window.go, sweep.go, sweepraces.go: cases of old keys
//   - list.go, resolve.go, resolveraces.go, erase.go: cases of an idempotency.OperatorStore
//   - keycall.go, keymodel.go, keywork.go: histories of stores; docall.go, domodel.go: of Keys
//   - txn.go, tx.go, dotx.go, txraces.go, txwindow.go, txlate.go: cases with transactions
package idempotencytest
