package idempotencytest_test

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

var errTxDone = errors.New("reference: the transaction has ended")

// refTx is a transaction: a log of what its commit will do, and the rows that it has locked.
type refTx struct {
	s    *reference
	log  []change
	held map[rowID]bool
	own  bool // it is that of an InTx
	done bool
}

// change is an effect, or a row.
type change struct {
	effect string
	key    rowID
	row    *row
	claim  bool // the row is that of a won claim
}

func (s *reference) begin() *refTx { return &refTx{s: s, held: map[rowID]bool{}} }

// heldBy says that a transaction other than tx has locked the row.
func (s *reference) heldBy(k rowID, tx *refTx) bool {
	holder := s.locks[k]
	return holder != nil && holder != tx
}

// wait waits until no other transaction holds the row.
func (s *reference) wait(k rowID, tx *refTx) error {
	if !s.heldBy(k, tx) {
		return nil
	}
	s.bench.waits(1)
	defer s.bench.waits(-1)
	over := false
	limit := time.AfterFunc(s.bench.lockWait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		over = true
		s.changed.Broadcast()
	})
	defer limit.Stop()
	for s.heldBy(k, tx) {
		if over {
			return errLockWait
		}
		s.changed.Wait()
	}
	return nil
}

// row is what tx sees.
func (s *reference) row(k rowID, tx *refTx) *row {
	if tx != nil {
		for i := len(tx.log) - 1; i >= 0; i-- {
			if tx.log[i].row != nil && tx.log[i].key == k {
				return tx.log[i].row
			}
		}
	}
	return s.rows[k]
}

func (s *reference) put(k rowID, r *row, tx *refTx) {
	if tx == nil || s.has(claimApart) {
		s.rows[k] = r
		if tx == nil {
			return
		}
	}
	if !s.has(txLocksNothing) {
		s.locks[k] = tx
	}
	tx.held[k] = true
	tx.log = append(tx.log, change{key: k, row: r, claim: true})
}

func (tx *refTx) effect(name string) {
	s := tx.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(effectApart) {
		s.effects[name]++
		return
	}
	tx.log = append(tx.log, change{effect: name})
}

func (tx *refTx) commit() {
	s := tx.s
	s.mu.Lock()
	for _, c := range tx.log {
		if c.row != nil {
			s.rows[c.key] = c.row
		} else {
			s.effects[c.effect]++
		}
	}
	s.mu.Unlock()
	tx.end()
}

// end lets go of the locks; what was not committed is gone.
func (tx *refTx) end() {
	s := tx.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range tx.held {
		if s.locks[k] == tx {
			delete(s.locks, k)
		}
		if !tx.done && s.has(rollbackDeletes) {
			delete(s.rows, k)
		}
	}
	tx.log, tx.done, tx.held = nil, true, nil
	s.changed.Broadcast()
}

func (tx *refTx) undo(mark int) { tx.log = tx.log[:mark] }

// Transact is a txn.Store's.
func (s *reference) Transact(ctx context.Context, _ txn.Options, fn func(ctx context.Context, tx *refTx) error) error {
	if err := s.step(ctx, "begin"); err != nil {
		return err
	}
	tx := s.begin()
	defer func() {
		if !tx.done && s.has(panicCommits) {
			tx.commit()
		}
		if !tx.done {
			tx.end()
		}
	}()
	switch err := fn(ctx, tx); {
	case err != nil && s.has(errorCommits):
		tx.commit()
		return err
	case err != nil:
		tx.end()
		if s.has(errorSwallowed) {
			return nil
		}
		return err
	}
	if err := s.step(ctx, "commit"); err != nil && !s.has(commitsAnyway) {
		return err
	}
	tx.commit()
	return nil
}

// Savepoint is a txn.Store's.
func (s *reference) Savepoint(ctx context.Context, tx *refTx, fn func(ctx context.Context) error) error {
	if tx.done {
		return errTxDone
	}
	mark := len(tx.log)
	err := fn(ctx)
	switch {
	case err == nil, s.has(savepointKeeps):
	case s.has(savepointUndoesAll):
		tx.undo(0)
	case s.has(savepointBreaks):
		tx.end()
	default:
		tx.undo(mark)
	}
	return err
}

// Classify is a txn.Store's.
func (s *reference) Classify(err error) txn.Class {
	if s.has(allRetryable) && err != nil {
		return txn.Retryable
	}
	return txn.Permanent
}

// InTx is an idempotency.TxStore's.
func (s *reference) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx *refTx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	var claimed idempotency.Claimed
	err := s.Transact(ctx, txn.Options{}, func(ctx context.Context, tx *refTx) error {
		var err error
		tx.own = true
		if claimed, err = s.ClaimTx(ctx, tx, a); err != nil || !claimed.Won {
			if err == nil && s.has(duplicateWorks) {
				_, _ = fn(ctx, tx)
			}
			return err
		}
		r, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		claimed.Record.State, claimed.Record.Response = idempotency.Done, r
		c := idempotency.Completion{State: idempotency.Done, Response: r, Claim: idempotency.Claim{
			Scope: a.Request.Scope, Key: a.Request.Key, Token: claimed.Record.Token, Attempt: a.ID,
		}}
		if s.has(answerForgotten) {
			return nil
		}
		return s.CompleteTx(ctx, tx, c)
	})
	if err != nil {
		return idempotency.Claimed{}, err
	}
	return claimed, nil
}

// ClaimTx is an idempotency.TxStore's.
func (s *reference) ClaimTx(ctx context.Context, tx *refTx, a idempotency.Attempt) (idempotency.Claimed, error) {
	if tx.done {
		return idempotency.Claimed{}, errTxDone
	}
	return s.claim(ctx, a, tx)
}

// CompleteTx is an idempotency.TxStore's.
func (s *reference) CompleteTx(ctx context.Context, tx *refTx, c idempotency.Completion) error {
	if err := s.step(ctx, "complete in tx"); err != nil {
		return err
	}
	if tx.done {
		return errTxDone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.idOf(c.Claim)
	if c.Undo && !s.has(undoIgnored) {
		mark := tx.claimOf(k) + 1
		if s.has(undoTooFar) {
			mark = 0
		}
		tx.undo(mark)
	}
	done, err := s.completed(s.row(k, tx), c)
	switch {
	case err != nil:
		return err
	case s.has(freeIgnored) && c.State == idempotency.Free:
		return nil
	case s.has(claimApart):
		s.rows[k] = done
	}
	tx.log = append(tx.log, change{key: k, row: done})
	return nil
}

// claimOf returns the number of the change that claimed k last.
func (tx *refTx) claimOf(k rowID) int {
	for i := len(tx.log) - 1; i >= 0; i-- {
		if tx.log[i].claim && tx.log[i].key == k {
			return i
		}
	}
	return len(tx.log) - 1
}
