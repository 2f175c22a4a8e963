package postgres

import (
	"context"

	"github.com/fiftyhosts/fifty/idempotency"
)

// SaveStep writes a step down; see idempotency.Store. It may wait for a transaction at work on the key.
func (k Keys[Tx]) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	save := k.store.statements.saveStep.with(c.Scope, c.Key, c.Token, c.Attempt, step.Name, step.Sent, nullable(step.Result))
	if err := k.store.run(ctx, save); err != nil {
		return err
	}
	if save.rows == 0 {
		return &idempotency.LostError{Claim: c, Superseded: true}
	}
	return nil
}
