// Package memory is the answer for one process, and the model that the other stores are checked against:
// a map behind one mutex, whose holder decides.
//
// State lives as long as the process. Nothing here is shared between hosts, so it is for services that
// run once, for tests, and for reading: each method shows the rule that the other stores express in SQL.
//
// A transaction is a [Tx]. What a transaction does to this store becomes visible at its commit, all at
// once; what it does to state of your own goes into [Tx.OnCommit], which runs within that same step.
//
//   - store.go: Store, its clock and its secrets
//   - tx.go: Tx and Txns, the transactions
//   - keys.go: the records of idempotency keys; keystx.go: the same within a transaction
//   - sweep.go, queue.go: what becomes of old records; operator.go: what people see and decide
package memory
