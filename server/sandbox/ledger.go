package sandbox

import (
	"context"
	"errors"
)

// ErrNotFound says that the ledger has no charge of that id.
var ErrNotFound = errors.New("no such charge")

// PageMax is the most charges that one List returns.
const PageMax = 1000

// Ledger keeps the charges. Implementations are safe for concurrent use.
type Ledger interface {
	// Add books one charge and returns when it is committed. It never looks for an equal one. After an
	// error the charge may be booked or not.
	Add(ctx context.Context, c Charge) error

	// Find returns a charge, or ErrNotFound.
	Find(ctx context.Context, id string) (Charge, error)

	// List returns charges in the order in which they were begun, the newest last. Charges that are booked
	// while pages are read may be missed by them: read the ledger at rest to count it.
	List(ctx context.Context, q Query) ([]Charge, error)
}

// Query selects a page of the ledger.
type Query struct {
	Account string // only this account's charges; empty means every account's
	After   string // the id of the last charge of the page before; ErrNotFound if there is none; empty means from the start
	Limit   int    // how many at most. Defaults to, and is at most, PageMax
}

func (q Query) limit() int {
	if q.Limit <= 0 || q.Limit > PageMax {
		return PageMax
	}
	return q.Limit
}
