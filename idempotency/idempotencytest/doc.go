// Package idempotencytest proves that a store of keys keeps its contract: Run for every
// [idempotency.Store], RunTx for every [idempotency.TxStore]. A store package calls them from its tests.
//
// Races are not left to luck. A store calls a [Hook] just before each of its statements; the suite stops
// each caller there, and runs the calls of two or three callers in every possible order. What it says
// about a race, it has seen under each of those orders, and a failure prints the order, so that it can be
// run again.
//
// A suite that can't fail proves nothing, so a store package also breaks its own store on purpose, one
// condition at a time, and asserts with [Catch] or [CatchTx] that the suite notices each.
//
// # Files
//
//   - suite.go: Run, RunTx and what they need; catch.go: Catch and CatchTx
//   - case.go, world.go: what a case is, and what it has at hand
//   - claims.go, expiry.go, complete.go, answers.go, batch.go: cases of one caller
//   - races.go: cases of several callers in every order
//   - do.go: cases through idempotency.Keys
//   - tx.go, dotx.go, txraces.go, txn.go: cases with transactions
package idempotencytest
