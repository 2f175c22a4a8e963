// Package inventorytest proves that a store of stock keeps its contract: Run for every [inventory.Store],
// RunTx for every [inventory.TxStore]. A store package calls them from its tests:
//
//	func TestContract(t *testing.T) {
//		db := open(t)
//		inventorytest.Run(t, func(tb testing.TB, hook inventorytest.Hook) inventory.Store {
//			return newStore(db, hook)
//		}, inventorytest.Features{})
//	}
//
// Races are not left to luck. A store calls a [Hook] just before each of its statements; the suite stops
// each caller there, and runs the calls of two or three callers in every possible order. Where a store has so
// many statements that all orders would take minutes, it runs a number of them, and of the rest those in which
// nobody is interrupted more than twice in all, or once with three callers. A failure prints its order, for [Features].Schedule to replay. After
// each order every answer that was given must still stand, and the levels must be what the holds add up to.
//
// A suite that can't fail proves nothing, so a store package also breaks its own store on purpose, one
// condition at a time, and asserts with [Catch] or [CatchTx] that the suite notices each. Whether a fault
// is caught must not depend on how quick the machine is: give it [Features].Blocked, or a generous Grace.
//
// Cases that sweep work on all that is in the database. While a test of the suite runs, nothing else may work
// there: give each test a database of its own.
//
// For runs that no test controls, several processes on one database say, there is a [Model] of one SKU to check
// histories by, with package faults/history: [Client] records one, and [Work] makes it at random. [TimedModel] is the same
// for a real clock, on which holds expire by themselves.
//
// What the suite does not prove: that the store's clock, and not the host's, decides an expiry, unless that
// clock can be moved ([Features].Advance); and nothing about a store that is stopped, or a reply that is lost.
//
// # Files
//
//   - suite.go: Run, RunTx, Catch and CatchTx, and what they need
//   - world.go: what a case has at hand
//   - supply.go, reserve.go, batch.go, settle.go, expiry.go, sweep.go: cases of one caller
//   - ledger.go, split.go: those of an inventory.LedgerStore and an inventory.SplitStore
//   - stock.go: cases through inventory.Stock
//   - races.go, expiredraces.go: cases of several callers in every order
//   - tx.go, txraces.go: cases with transactions
//   - model.go, timed.go: histories of a SKU, for runs that no test controls
package inventorytest
