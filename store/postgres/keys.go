package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/txn"
)

var (
	_ idempotency.AnswerStore = Keys[pgx.Tx]{}
	_ idempotency.AnswerStore = Keys[*sql.Tx]{}
	_ idempotency.BatchStore  = Keys[pgx.Tx]{}
	_ idempotency.BatchStore  = Keys[*sql.Tx]{}
)

// Keys keeps the records of idempotency keys. It is safe for concurrent use.
type Keys[Tx any] struct{ store *Store[Tx] }

// Keys returns the store's idempotency keys.
func (s *Store[Tx]) Keys() Keys[Tx] { return Keys[Tx]{s} }

// Classify says what an error means; see Txns.Classify.
func (k Keys[Tx]) Classify(err error) txn.Class { return classify(err) }

// Claim decides for each attempt; see idempotency.Store. Several are decided by one statement where their keys are
// new.
func (k Keys[Tx]) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	if len(attempts) > 1 {
		return inBatches(ctx, attempts, k.claimMany)
	}
	answers := make([]idempotency.Claimed, len(attempts))
	for i, a := range attempts {
		claimed, err := k.claim(ctx, a)
		if err != nil {
			return nil, err
		}
		answers[i] = claimed
	}
	return answers, nil
}

// ofBatch is the error of a batch whose member i failed. Those before it took effect, so the outcome of
// the whole is open even if that of the member is not.
func ofBatch(i int, err error) error {
	if i == 0 || errors.Is(err, fifty.ErrUnknownOutcome) {
		return err
	}
	return &storeError{point: fmt.Sprintf("member %d of a batch", i), class: txn.Unknown, err: err}
}

// claim decides for one attempt: insert, else look, else take over what may be taken, and look again when
// another was quicker.
func (k Keys[Tx]) claim(ctx context.Context, a idempotency.Attempt) (idempotency.Claimed, error) {
	s := k.store.statements
	return k.pursue(ctx, k.asking(a, claimStatements{s.claimInsert, s.claimLook, s.claimTake}))
}

// pursue goes on with an attempt from what is to be tried next.
func (k Keys[Tx]) pursue(ctx context.Context, asked *asking) (idempotency.Claimed, error) {
	for range raceTries {
		if err := k.store.run(ctx, asked.act); err != nil {
			return idempotency.Claimed{}, err
		}
		if asked.isNew() {
			return asked.claimed()
		}
		if err := k.store.run(ctx, asked.look()); err != nil {
			if asked.won() {
				err = landed(err)
			}
			return idempotency.Claimed{}, err
		}
		if asked.tookOver() {
			return asked.inherited()
		}
		if settled, claimed, err := asked.judge(); settled || err != nil {
			return claimed, err
		}
	}
	return idempotency.Claimed{}, changing("claim")
}

// landed is the error of a claim that was made, but whose record could not be read: it is there all the same.
func landed(err error) error {
	if errors.Is(err, fifty.ErrUnknownOutcome) {
		return err
	}
	return &storeError{point: "after claim.take", class: txn.Unknown, err: err}
}

// changing is the error of one that lost every race. Nothing changed.
func changing(point string) error {
	err := fmt.Errorf("the record changed %d times while it was looked at", raceTries)
	return &storeError{point: point, class: txn.Retryable, err: err}
}

// claimStatements are the three of a claim: by itself, or in a transaction.
type claimStatements struct{ insert, look, take statement }

// asking is one attempt on its way to its key.
type asking struct {
	attempt idempotency.Attempt
	lock    int64 // the number of the key's lock
	texts   claimStatements
	act     *call // what is tried next: insert, or the takeover of what was seen

	token int64     // of the row that act wrote
	open  bool      // of the last look: no transaction holds the key
	now   time.Time // of the last look: the server's clock
	row   record    // of the last look
}

// asking begins with the insert.
func (k Keys[Tx]) asking(a idempotency.Attempt, texts claimStatements) *asking {
	q := &asking{attempt: a, lock: k.store.lockNumber(a.Request.Scope, a.Request.Key), texts: texts}
	q.act = q.insert()
	return q
}

// insert is a new row.
func (q *asking) insert() *call { return q.texts.insert.with(q.args()...).into(&q.token) }

// take is the takeover of the row that was seen.
func (q *asking) take() *call {
	return q.texts.take.with(append(q.args(), q.row.token, q.row.state)...).into(&q.token)
}

func (q *asking) args() []any {
	a := &q.attempt
	r := a.Request
	return append(make([]any, 0, 12), r.Scope, r.Key, []byte(r.Fingerprint), a.ID, a.Owner, a.Resume,
		a.Lease.Microseconds(), q.lock, madeArg(*a), a.Window.Microseconds())
}

func (q *asking) look() *call {
	r := q.attempt.Request
	return q.texts.look.with(r.Scope, r.Key, q.lock).into(append([]any{&q.open, &q.now}, q.row.columns()...)...)
}

// won says that act wrote the row.
func (q *asking) won() bool { return q.act.rows == 1 }

// isInsert says that act is for a key without a record.
func (q *asking) isInsert() bool { return q.act.name == q.texts.insert.name }

// isNew says that it wrote one, so that nothing is to be known of the key.
func (q *asking) isNew() bool { return q.won() && q.isInsert() }

// tookOver says that it did for a key with a record, and that the look behind it found it so.
func (q *asking) tookOver() bool {
	return q.won() && q.row.found() && q.row.token == q.token && q.row.attempt == q.attempt.ID
}

func (q *asking) claimed() (idempotency.Claimed, error) {
	return idempotency.Claimed{Won: true, Record: claimedBy(q.attempt, q.token)}, nil
}

// inherited is the claim with what earlier owners left: the steps, the age.
func (q *asking) inherited() (idempotency.Claimed, error) {
	rec, err := q.row.of(q.attempt.Request.Scope, q.attempt.Request.Key)
	if err != nil {
		return idempotency.Claimed{}, landed(err)
	}
	return idempotency.Claimed{Won: true, Record: rec}, nil
}

// judge decides about what the look found. When it is not settled, act is what to try next.
func (q *asking) judge() (settled bool, claimed idempotency.Claimed, err error) {
	verdict := idempotency.Take
	if q.row.found() {
		rec, err := q.row.of(q.attempt.Request.Scope, q.attempt.Request.Key)
		if err != nil {
			return true, idempotency.Claimed{}, err
		}
		verdict, claimed.Record = idempotency.Judge(rec, q.attempt), rec
	}
	switch {
	case verdict == idempotency.Mine:
		claimed.Won = true
		return true, claimed, nil
	case verdict == idempotency.Answer:
		return true, claimed, nil
	case !q.open:
		return true, idempotency.Claimed{Record: heldByTransaction(q.attempt)}, nil
	case !q.row.found() || claimed.Record.State == idempotency.Free:
		// The SQL has the same condition, and decides; this says why it refused.
		if claimed.Err = q.attempt.CheckWindow(q.now); claimed.Err != nil {
			return true, claimed, nil
		}
	}
	switch {
	case !q.row.found():
		q.act = q.insert()
	default:
		q.act = q.take()
	}
	return false, idempotency.Claimed{}, nil
}

// Find returns a record; see idempotency.Store.
func (k Keys[Tx]) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	row, err := k.find(ctx, scope, key)
	if err != nil {
		return idempotency.Record{}, err
	}
	if !row.found() {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return row.of(scope, key)
}

// FindAnswer returns the answer of a key that is done; see idempotency.AnswerStore.
func (k Keys[Tx]) FindAnswer(ctx context.Context, scope, key string) (idempotency.Record, error) {
	row := record{state: int64(idempotency.Done)}
	find := k.store.statements.answerFind.with(scope, key).into(&row.fingerprint, &row.status, &row.header, &row.body, &row.notReplayable)
	if err := k.store.run(ctx, find); err != nil {
		return idempotency.Record{}, err
	}
	if find.rows == 0 {
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return row.of(scope, key)
}

func (k Keys[Tx]) find(ctx context.Context, scope, key string) (record, error) {
	var row record
	err := k.store.run(ctx, k.store.statements.find.with(scope, key).into(row.columns()...))
	return row, err
}
