// Package txn says what a transaction is to the other packages: how a store opens one, how it undoes a
// part of one, and which of its errors are conflicts, which are final and which leave the outcome unknown.
//
// In one process the counterpart is one lock around a compound operation. Across hosts the database's
// transaction is that lock, and it has a third outcome that a lock has not: a connection lost after COMMIT
// was sent. That outcome is never retried blindly (see [Unknown]).
package txn
