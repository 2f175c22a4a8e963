package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/fiftyhosts/fifty/idempotency"
)

// SaveStep writes a step down; see idempotency.Store.
func (k Keys) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	var saved int64
	err := k.store.write(ctx, "step", func(ctx context.Context, tx *sql.Tx) error {
		var err error
		// Linearization point: the insert, which finds the owner's row or writes nothing. Of a takeover and
		// the step of the last owner one comes first: the step is in the successor's record, or it is refused.
		saved, err = k.store.session(tx, "step").exec(ctx, k.store.sql.step,
			c.Scope, c.Key, c.Token, c.Attempt, step.Name, step.Sent, result(step))
		return err
	})
	if err != nil {
		return err
	}
	if saved == 0 {
		return &idempotency.LostError{Claim: c, Superseded: true}
	}
	return nil
}

// result is NULL while a step is not known to be done.
func result(step idempotency.StepRecord) any {
	if len(step.Result) == 0 {
		return nil
	}
	return step.Result
}

// decodeSteps reads the steps of a record: a JSON array of [name, sent, result in hex], in order.
func decodeSteps(text []byte) ([]idempotency.StepRecord, error) {
	if bytes.Equal(text, []byte("[]")) {
		return nil, nil
	}
	var raw [][3]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	steps := make([]idempotency.StepRecord, len(raw))
	for i, part := range raw {
		step := &steps[i]
		var sent int
		var result string
		for at, into := range []any{&step.Name, &sent, &result} {
			if err := json.Unmarshal(part[at], into); err != nil {
				return nil, err
			}
		}
		step.Sent = sent != 0
		if result == "" {
			continue
		}
		var err error
		if step.Result, err = hex.DecodeString(result); err != nil {
			return nil, fmt.Errorf("step %q: %w", step.Name, err)
		}
	}
	return steps, nil
}
