package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty"
)

// naturalTries bounds Natural: each further try means that the row it lost to was deleted in between.
const naturalTries = 10

// Natural is the best form of idempotency where the domain has a rule of its own, such as one payment per
// invoice: no key, no table beside your own, no window. insert writes your row under its unique constraint,
// find reads the row that stands there.
//
// insert must be one statement that does nothing on a conflict ("insert … on conflict do nothing returning …")
// and return won = false then: the unique index decides between any number of hosts. find must be a statement
// of its own, because a statement can't see the row that it lost to, and return ErrNotFound when there is
// none.
//
// Natural returns the row and whether this call wrote it. On an error of either function it returns that; a
// fifty.ErrUnknownOutcome of insert is settled by calling Natural again. Run it outside of a transaction, or in
// one at READ COMMITTED: under a snapshot the row that won may stay out of sight.
func Natural[T any](
	ctx context.Context,
	insert func(ctx context.Context) (row T, won bool, err error),
	find func(ctx context.Context) (row T, err error),
) (row T, won bool, err error) {
	var zero T
	for range naturalTries {
		row, won, err = insert(ctx)
		if err != nil {
			return zero, false, err
		}
		if won {
			return row, true, nil
		}
		row, err = find(ctx)
		if err == nil {
			return row, false, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return zero, false, err
		}
	}
	return zero, false, fmt.Errorf("idempotency: natural key: %d times a row was there and gone when looked for; is find looking for the row of the constraint? %w", naturalTries, fifty.ErrInvalid)
}
