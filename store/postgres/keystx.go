package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
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
// for it. Of a record that is done its steps and its age are not read.
//
// Over pgx, BEGIN and the claim of an attempt that was not seen lately travel with fn's first statement, if that is a
// select, insert, update, delete, merge, with or values by Exec with arguments, Query or QueryRow, and the pool
// executes by cached statements (the default). For anything else the claim goes first, a round trip more.
func (k Keys[Tx]) InTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	if !a.Seen {
		claimed, err := k.inTxLate(ctx, a, &fn)
		if !errors.Is(err, errLookAgain) {
			return claimed, err
		}
	}
	ran := false
	noted := func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		ran = true
		return fn(ctx, tx)
	}
	for range raceTries {
		claimed, err := k.inTx(ctx, a, noted)
		switch {
		case errors.Is(err, errLookAgain):
		case err != nil && !ran:
			return claimed, unclaimedError{err}
		default:
			return claimed, err
		}
	}
	return idempotency.Claimed{}, changing("intx")
}

// inTxLate lets fn begin before the key is known to be free: its first statement says so. Nothing of that is left
// unless the key was free. errLookAgain says that a closer look is needed; fn may have been replaced then by what
// it has returned already.
func (k Keys[Tx]) inTxLate(
	ctx context.Context, a idempotency.Attempt,
	fn *func(ctx context.Context, tx Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	r, s := a.Request, k.store.statements
	tx, err := k.store.engine.beginLate(ctx, s.enterLook,
		s.guardLock.with(k.store.cfg.idleMax(), k.store.lockNumber(r.Scope, r.Key), madeArg(a), a.Window.Microseconds()),
		s.guardNew.with(r.Scope, r.Key),
	)
	if err != nil {
		return idempotency.Claimed{}, err
	}
	if tx == nil {
		return idempotency.Claimed{}, errLookAgain
	}
	defer tx.rollback(ctx) // for a panic, too
	response, fnErr := (*fn)(ctx, tx.handle())
	switch fate, claimErr := tx.claim(); {
	case fate == refused:
		return k.refused(ctx, tx, a)
	case fate == undecided:
		return idempotency.Claimed{}, tx.abandon(ctx, claimErr)
	case fate == waiting && fnErr != nil:
		tx.rollback(ctx)
		*fn = func(context.Context, Tx) (idempotency.Response, error) { return response, fnErr }
		return idempotency.Claimed{}, errLookAgain
	case fnErr != nil:
		return idempotency.Claimed{}, tx.abandon(ctx, fnErr)
	}
	claimed, err := k.answer(ctx, tx, a, record{}, idempotency.Claimed{Won: true, Record: claimedBy(a, 0)}, response)
	if fate, _ := tx.claim(); fate == refused {
		return k.refused(ctx, tx, a)
	}
	return claimed, err
}

// refused reads the answer of a key that was not free. What is no answer needs a closer look.
func (k Keys[Tx]) refused(ctx context.Context, tx late[Tx], a idempotency.Attempt) (idempotency.Claimed, error) {
	var row record
	r := a.Request
	if err := tx.instead(ctx, k.store.statements.enterLook.with(r.Scope, r.Key).into(row.lookColumns()...)); err != nil {
		return idempotency.Claimed{}, errLookAgain
	}
	if row.state != int64(idempotency.Done) {
		return idempotency.Claimed{}, errLookAgain
	}
	rec, err := row.of(r.Scope, r.Key)
	if err == nil && idempotency.Judge(rec, a) != idempotency.Answer {
		err = errLookAgain
	}
	return idempotency.Claimed{Record: rec}, err
}

// errLookAgain says that the record changed between look and write. All was rolled back.
var errLookAgain = errors.New("postgres: the record changed")

func (k Keys[Tx]) inTx(
	ctx context.Context, a idempotency.Attempt,
	fn func(ctx context.Context, tx Tx) (idempotency.Response, error),
) (idempotency.Claimed, error) {
	r, s := a.Request, k.store.statements
	var idle, network string
	var locked, readOnly, tooOld bool
	var now time.Time
	var row record
	tx, err := k.store.engine.begin(ctx, txn.Options{},
		s.enterKey.with(k.store.cfg.idleMax(), k.store.lockNumber(r.Scope, r.Key)).into(&idle, &network, &locked, &readOnly, &tooOld, &now),
		s.enterLook.with(r.Scope, r.Key).into(row.lookColumns()...),
	)
	if err != nil {
		return idempotency.Claimed{}, err
	}
	defer tx.rollback(ctx) // for a panic, too
	var rec idempotency.Record
	if row.found() {
		if row.state != int64(idempotency.Done) { // all of it counts
			if err := tx.run(ctx, s.find.with(r.Scope, r.Key).into(row.columns()...)); err != nil {
				return idempotency.Claimed{}, err
			}
		}
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
	case tooOld:
		return idempotency.Claimed{}, &storeError{point: s.enterKey.name, class: txn.Permanent, err: ErrSchemaTooOld}
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
	won.Record.State, won.Record.ExpiresIn, won.Record.Response = idempotency.Done, 0, response

	if seen.found() {
		args = append(append(args, answer...), madeArg(a), seen.token, seen.state)
		over := k.store.statements.answerOver.with(args...).into(&won.Record.Token)
		if err := tx.run(ctx, over); err != nil {
			return idempotency.Claimed{}, err
		}
		if over.rows == 0 {
			return idempotency.Claimed{}, errLookAgain
		}
		err = tx.commit(ctx)
	} else {
		status, header, body, notReplayable := answer[0], answer[1], answer[2], answer[3]
		args = append(args, status, header, madeArg(a), a.Window.Microseconds(), body, notReplayable)
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
		if asked.isInsert() {
			then = append(then, asked.look())
		} else {
			try = append(try, asked.look()) // wanted whether it wins or not
		}
		if err := q.run(ctx, try...); err != nil {
			return idempotency.Claimed{}, err
		}
		switch {
		case asked.isNew():
			k.store.won.add(a.ID, asked.token)
			return asked.claimed()
		case asked.tookOver():
			k.store.won.add(a.ID, asked.token)
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
	// Claims in one transaction may be nested, so each takes its own savepoint away: in the same round trip when
	// it is known to stand, for a statement that fails would end the transaction.
	calls := []*call{complete}
	if k.store.won.take(c.Claim) {
		calls = append(calls, s.claimRelease.with())
	}
	if err := q.run(ctx, calls...); err != nil {
		return err
	}
	if complete.rows == 1 && len(calls) == 2 {
		return nil
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
	return q.run(ctx, s.claimRelease.with())
}

// winsMax bounds the claims that wins remembers. Those beyond cost a round trip more.
const winsMax = 1024

// wins are the claims that this process has won in callers' transactions and not yet ended.
type wins struct {
	mu sync.Mutex
	of map[string]int64 // the token, by attempt
}

func (w *wins) add(attempt string, token int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.of) < winsMax {
		w.of[attempt] = token
	}
}

// take forgets a claim, and says whether it was there.
func (w *wins) take(c idempotency.Claim) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	token, ok := w.of[c.Attempt]
	if !ok || token != c.Token {
		return false // a stranger's word takes nothing from the owner
	}
	delete(w.of, c.Attempt)
	return true
}
