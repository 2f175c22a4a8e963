package memory

import (
	"context"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

// InTx claims, works and answers in one transaction; see idempotency.TxStore. A duplicate is told at once.
func (k Keys) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx *Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	var claimed idempotency.Claimed
	err := k.store.Txns().Transact(ctx, txn.Options{}, func(ctx context.Context, tx *Tx) error {
		var err error
		claimed, err = k.ClaimTx(ctx, tx, a)
		if err != nil || !claimed.Won {
			return err
		}
		r, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		c := idempotency.Completion{State: idempotency.Done, Response: r, Claim: idempotency.Claim{
			Scope: a.Request.Scope, Key: a.Request.Key, Token: claimed.Record.Token, Attempt: a.ID,
		}}
		claimed.Record.State, claimed.Record.Response = idempotency.Done, r
		return k.CompleteTx(ctx, tx, c)
	})
	if err != nil {
		return idempotency.Claimed{}, err
	}
	return claimed, nil
}

// ClaimTx claims within tx; see idempotency.TxStore. The key is taken at once, for others to see.
func (k Keys) ClaimTx(ctx context.Context, tx *Tx, a idempotency.Attempt) (idempotency.Claimed, error) {
	if err := k.store.step(ctx, "claim in tx"); err != nil {
		return idempotency.Claimed{}, err
	}
	if tx.done {
		return idempotency.Claimed{}, ErrTxDone
	}
	s := k.store
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := s.now()
	now := s.at(clock)
	id := idOf(a.Request)
	before := tx.last(id)
	var found idempotency.Claimed
	if before != nil { // this transaction has written the record itself
		found.Record = before.record(now)
		if idempotency.Judge(found.Record, a) != idempotency.Take {
			return found, nil
		}
	} else {
		e, take := k.look(&a, clock, &found)
		if !take {
			return found, nil
		}
		// Linearization point: the key is this transaction's from here to its end.
		e.tx, before = tx, &e.rec
		tx.held[id] = true
		s.taken++
	}
	rec := *before
	s.claim(&rec, &a, now)
	tx.log = append(tx.log, change{key: id, rec: &rec, claim: true})
	return idempotency.Claimed{Won: true, Record: rec.record(now)}, nil
}

// last returns what tx itself has written of a key that it holds.
func (tx *Tx) last(id keyID) *stored {
	for i := len(tx.log) - 1; i >= 0; i-- {
		if tx.log[i].rec != nil && tx.log[i].key == id {
			return tx.log[i].rec
		}
	}
	return nil
}

// CompleteTx ends a claim within tx; see idempotency.TxStore.
func (k Keys) CompleteTx(ctx context.Context, tx *Tx, c idempotency.Completion) error {
	if err := k.store.step(ctx, "complete in tx"); err != nil {
		return err
	}
	if tx.done {
		return ErrTxDone
	}
	id := keyID{c.Claim.Scope, c.Claim.Key}
	rec := tx.last(id)
	if rec == nil || !tx.held[id] || rec.Token != c.Claim.Token || rec.Attempt != c.Claim.Attempt {
		return &idempotency.LostError{Claim: c.Claim, Superseded: true}
	}
	if c.Undo {
		tx.undo(tx.claimOf(id) + 1)
		rec = tx.last(id)
	}
	done := *rec
	done.complete(&c, k.store.moment())
	tx.log = append(tx.log, change{key: id, rec: &done})
	return nil
}

// claimOf returns the number of the last change that claimed id.
func (tx *Tx) claimOf(id keyID) int {
	for i := len(tx.log) - 1; i >= 0; i-- {
		if tx.log[i].claim && tx.log[i].key == id {
			return i
		}
	}
	return len(tx.log) - 1
}
