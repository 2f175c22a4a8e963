package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

var (
	_ idempotency.TxStore[pgx.Tx]  = Keys[pgx.Tx]{}
	_ idempotency.TxStore[*sql.Tx] = Keys[*sql.Tx]{}
)

// InTx claims, works and answers in one transaction; see idempotency.TxStore. A duplicate is told at once.
// The row is written whole, at the end, in the round trip of COMMIT; until then an advisory lock stands
// for it.
func (k Keys[Tx]) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	for range raceTries {
		claimed, err := k.inTx(ctx, a, fn)
		if !errors.Is(err, errLookAgain) {
			return claimed, err
		}
	}
	return idempotency.Claimed{}, changing("intx")
}

// errLookAgain says that the record changed between look and write. All was rolled back.
var errLookAgain = errors.New("postgres: the record changed")

func (k Keys[Tx]) inTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	r, s := a.Request, k.store.statements
	var idle, network string
	var locked, readOnly bool
	var now time.Time
	var row record
	tx, err := k.store.engine.begin(ctx, txn.Options{},
		s.enterKey.with(k.store.cfg.idleMax(), k.store.lockNumber(r.Scope, r.Key)).into(&idle, &network, &locked, &readOnly),
		s.enterLook.with(r.Scope, r.Key).into(append([]any{&now}, row.columns()...)...),
	)
	if err != nil {
		return idempotency.Claimed{}, err
	}
	defer tx.rollback(ctx) // for a panic, too
	var rec idempotency.Record
	if row.found() {
		rec, err = row.of(r.Scope, r.Key)
		if err != nil || idempotency.Judge(rec, a) == idempotency.Answer {
			return idempotency.Claimed{Record: rec}, err
		}
	}
	switch {
	case !locked:
		return idempotency.Claimed{Record: heldByTransaction(a)}, nil
	case readOnly:
		return idempotency.Claimed{}, &storeError{point: s.enterKey.name, class: txn.Permanent, err: ErrReadOnly}
	case !row.found() || rec.State == idempotency.Free:
		if err := a.CheckWindow(now); err != nil {
			return idempotency.Claimed{Record: rec, Err: err}, nil
		}
	}
	response, err := fn(ctx, tx.handle())
	if err != nil {
		return idempotency.Claimed{}, tx.abandon(ctx, err)
	}
	won := idempotency.Claimed{Won: true, Record: claimedBy(a, 0)}
	won.Record.Age, won.Record.Steps = rec.Age, rec.Steps
	return k.answer(ctx, tx, a, row, won, response)
}

// answer writes the record of won over what was seen of it, and commits.
func (k Keys[Tx]) answer(
	ctx context.Context, tx session[Tx], a idempotency.Attempt, seen record, won idempotency.Claimed,
	response idempotency.Response,
) (idempotency.Claimed, error) {
	answer, err := answerArgs(response)
	if err != nil {
		return idempotency.Claimed{}, err
	}
	args := []any{a.Request.Scope, a.Request.Key, []byte(a.Request.Fingerprint), a.ID, a.Owner, a.Resume}
	args = append(append(args, answer...), madeArg(a))
	won.Record.State, won.Record.ExpiresIn, won.Record.Response = idempotency.Done, 0, response

	if seen.found() {
		over := k.store.statements.answerOver.with(append(args, seen.token, seen.state)...).into(&won.Record.Token)
		if err := tx.run(ctx, over); err != nil {
			return idempotency.Claimed{}, err
		}
		if over.rows == 0 {
			return idempotency.Claimed{}, errLookAgain
		}
		err = tx.commit(ctx)
	} else {
		err = tx.commit(ctx, k.store.statements.answer.with(args...).into(&won.Record.Token))
	}
	switch {
	case err == nil:
		return won, nil
	case !seen.found() && isAt(err, k.store.statements.answer) && isState(err, uniqueViolation, floorRose):
		return idempotency.Claimed{}, errLookAgain
	default:
		return idempotency.Claimed{}, err
	}
}

// isAt says that err is one of the statement st.
func isAt(err error, st statement) bool {
	e, ok := errors.AsType[*storeError](err)
	return ok && e.point == st.name
}

// ClaimTx claims within tx; see idempotency.TxStore. It never waits for another transaction that has
// claimed the key through this package. On an error tx can only be rolled back.
func (k Keys[Tx]) ClaimTx(ctx context.Context, tx Tx, a idempotency.Attempt) (idempotency.Claimed, error) {
	s := k.store.statements
	q := k.store.engine.in(tx)
	asked := k.asking(a, claimStatements{s.claimTxInsert, s.claimTxLook, s.claimTxTake})
	for range raceTries {
		try, then := []*call{asked.act, s.claimSavepoint.with()}, []*call{s.claimRelease.with()}
		if asked.act == asked.insert {
			then = append(then, asked.look)
		} else {
			try = append(try, asked.look) // wanted whether it wins or not
		}
		if err := q.run(ctx, try...); err != nil {
			return idempotency.Claimed{}, err
		}
		switch {
		case asked.isNew():
			return asked.claimed()
		case asked.tookOver():
			return asked.inherited()
		}
		if err := q.run(ctx, then...); err != nil {
			return idempotency.Claimed{}, err
		}
		settled, claimed, err := asked.judge()
		if claimed.Won { // by an earlier call with the same attempt, in the same transaction
			err = q.run(ctx, s.claimSavepoint.with())
		}
		if settled || err != nil {
			return claimed, err
		}
	}
	return idempotency.Claimed{}, changing("claimtx")
}

// CompleteTx ends a claim within tx; see idempotency.TxStore. The savepoint behind the claim is gone then.
func (k Keys[Tx]) CompleteTx(ctx context.Context, tx Tx, c idempotency.Completion) error {
	s := k.store.statements
	q := k.store.engine.in(tx)
	complete, err := k.completion(c)
	if err != nil {
		return err
	}
	if c.Undo {
		// By itself, since the transaction may have failed, and then takes nothing but this.
		if err := q.run(ctx, s.claimUndo.with()); err != nil {
			return err
		}
	}
	if err := q.run(ctx, complete); err != nil {
		return err
	}
	if complete.rows == 0 {
		var row record
		if err := q.run(ctx, s.find.with(c.Claim.Scope, c.Claim.Key).into(row.columns()...)); err != nil {
			return err
		}
		if lost := notCompleted(row, c); lost != nil {
			return lost // the savepoint stays: it is the owner's
		}
		return nil // said before, and the savepoint is gone since
	}
	// Claims in one transaction may be nested, so each takes its own savepoint away.
	return q.run(ctx, s.claimRelease.with())
}
