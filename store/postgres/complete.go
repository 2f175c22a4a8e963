package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Renew moves expiries; see idempotency.Store. Several are renewed by one statement, which passes over a row that
// is locked.
func (k Keys[Tx]) Renew(ctx context.Context, claims []idempotency.Claim, lease time.Duration) ([]error, error) {
	if len(claims) > 1 {
		return inBatches(ctx, claims, func(ctx context.Context, part []idempotency.Claim) ([]error, error) {
			return k.renewMany(ctx, part, lease)
		})
	}
	errs := make([]error, len(claims))
	for i, c := range claims {
		lost, err := k.renew(ctx, c, lease)
		if err != nil {
			return nil, err
		}
		if lost != nil {
			errs[i] = lost
		}
	}
	return errs, nil
}

func (k Keys[Tx]) renew(ctx context.Context, c idempotency.Claim, lease time.Duration) (*idempotency.LostError, error) {
	renew := k.store.statements.renew.with(c.Scope, c.Key, c.Token, c.Attempt, lease.Microseconds())
	for range raceTries {
		if err := k.store.run(ctx, renew); err != nil {
			return nil, err
		}
		if renew.rows == 1 {
			return nil, nil
		}
		row, err := k.find(ctx, c.Scope, c.Key)
		if err != nil {
			return nil, err
		}
		if lost := notRenewed(row, c); lost != nil {
			return lost, nil
		}
		// Its other renewal was in the way: ask again.
	}
	return nil, changing("renew")
}

// notRenewed says what a renewal that changed nothing has run into: nil when it should have changed what is there.
func notRenewed(row record, c idempotency.Claim) *idempotency.LostError {
	state := idempotency.State(row.state)
	switch {
	case !row.isOf(c) || (state != idempotency.InFlight && state != idempotency.Unknown):
		return &idempotency.LostError{Claim: c, Superseded: true}
	case state == idempotency.Unknown || row.expired():
		return &idempotency.LostError{Claim: c}
	default:
		return nil
	}
}

// Complete ends claims; see idempotency.Store. Several are ended by one statement, which passes over a row that is
// locked.
func (k Keys[Tx]) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	if len(completions) > 1 {
		return inBatches(ctx, completions, k.completeMany)
	}
	errs := make([]error, len(completions))
	for i, c := range completions {
		err := k.complete(ctx, c)
		if _, lost := errors.AsType[*idempotency.LostError](err); err != nil && !lost {
			return nil, err
		}
		errs[i] = err
	}
	return errs, nil
}

func (k Keys[Tx]) complete(ctx context.Context, c idempotency.Completion) error {
	complete, err := k.completion(c)
	if err != nil {
		return err
	}
	if err := k.store.run(ctx, complete); err != nil || complete.rows == 1 {
		return err
	}
	row, err := k.find(ctx, c.Claim.Scope, c.Claim.Key)
	if err != nil {
		return err
	}
	if lost := notCompleted(row, c); lost != nil {
		return lost
	}
	return nil
}

func (k Keys[Tx]) completion(c idempotency.Completion) (*call, error) {
	answer, err := answerArgs(c.Response)
	if err != nil {
		return nil, err
	}
	args := []any{c.Claim.Scope, c.Claim.Key, c.Claim.Token, c.Claim.Attempt, int64(c.State)}
	return k.store.statements.complete.with(append(args, answer...)...), nil
}

// notCompleted says what a completion that changed nothing has run into: nil when it was there already.
func notCompleted(row record, c idempotency.Completion) *idempotency.LostError {
	if row.isOf(c.Claim) && row.state == int64(c.State) {
		return nil
	}
	return &idempotency.LostError{Claim: c.Claim, Superseded: true}
}
