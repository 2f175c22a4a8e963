package txn

import "context"

// Isolation is how much a transaction sees of its neighbours. The zero value is the store's own default.
type Isolation int

// The isolation levels. A store that has no such level uses the next stronger one that it has.
const (
	DefaultIsolation Isolation = iota
	ReadCommitted
	RepeatableRead
	Serializable
)

// Options are those of one transaction. The zero value is a read-write transaction at the store's default
// isolation.
type Options struct {
	Isolation Isolation
	ReadOnly  bool
}

// Class is what an error means for the transaction that got it.
type Class int

const (
	// Permanent errors come back the same on another attempt. Nothing was committed.
	Permanent Class = iota
	// Retryable errors are lost races: a serialization failure, a deadlock's victim, a busy database.
	// Nothing was committed; the whole transaction may run again.
	Retryable
	// Unknown errors leave it open whether the transaction was committed: the connection was lost after
	// COMMIT was sent. Running it again may apply it twice, unless it carries an id that the store knows.
	Unknown
)

func (c Class) String() string {
	switch c {
	case Retryable:
		return "retryable"
	case Unknown:
		return "unknown"
	default:
		return "permanent"
	}
}

// Store opens transactions. Every store package with transactions has one. It is safe for concurrent use;
// a transaction is not.
type Store[Tx any] interface {
	// Transact runs fn in one transaction and commits it when fn returns nil. When fn returns an error the
	// transaction is rolled back and that error returned; a panic rolls back and goes on. ctx governs every
	// statement, COMMIT included. An error of COMMIT whose Class is Unknown wraps fifty.ErrUnknownOutcome.
	Transact(ctx context.Context, opts Options, fn func(ctx context.Context, tx Tx) error) error

	// Savepoint runs fn within tx. When fn returns an error, what it did in tx is undone, the rest of tx
	// stays as it was and usable, and the error is returned.
	Savepoint(ctx context.Context, tx Tx, fn func(ctx context.Context) error) error

	// Classify says what an error of this store means. Errors that are not the store's are Permanent.
	Classify(err error) Class
}
