package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
	"github.com/fiftyhosts/fifty/txn"
)

// txTries bounds how often InTx runs its transaction: each one but the last lost a race and was rolled back.
const txTries = 5

// TxKeys is Keys over a store with transactions of type Tx. It has the methods of Keys too: Do, Find. It is
// safe for concurrent use.
type TxKeys[Tx any] struct {
	*Keys
	store TxStore[Tx]
}

// NewTx makes a TxKeys over a store. It panics when cfg is not valid: see Config.Validate.
func NewTx[Tx any](store TxStore[Tx], cfg Config) *TxKeys[Tx] {
	return &TxKeys[Tx]{Keys: New(store, cfg), store: store}
}

// InTx claims the key, runs fn and stores its answer in one transaction that it opens and commits: effect
// and answer are there together or not at all, and a crash leaves nothing. It needs no lease. Prefer it
// whenever the work is a write to the database of the keys.
//
// fn may run again after a lost race (a serialization failure, a deadlock) or a commit whose reply was lost;
// what it did in tx before was rolled back, or the key stops the second run. So fn must act through tx only.
//
// fn may also begin for a duplicate, where the store claims with fn's first statement to save a round trip. That
// statement then fails with an ErrUnclaimed before it does anything, and so do all that follow. Return the error;
// whatever fn returns, nothing is committed, and InTx returns what the duplicate is to get.
//
//   - A Response is committed with the work.
//   - Refuse(r): the work is rolled back, and r is committed as the answer.
//   - Any other error: all is rolled back, the key is as it was, and InTx returns the error. NotDone is
//     unwrapped.
//
// When the key is not its own, InTx returns what Do returns. A duplicate that arrives during the work gets
// ErrInFlight at once where the store can tell, instead of waiting for the commit; the store's page says.
// When the commit's reply was lost and asking again did not settle it, the error is a
// fifty.ErrUnknownOutcome: ask again with the same key. Do not send any of the answer before InTx returns.
func (k *TxKeys[Tx]) InTx(ctx context.Context, req Request, fn func(ctx context.Context, tx Tx) (Response, error)) (Result, error) {
	req = k.named(req)
	if err := req.Validate(); err != nil {
		return Result{}, err
	}
	k.spot(ctx, req)
	seen := k.saw(req)
	if rec, ok := k.answered(ctx, req, seen); ok {
		return k.duplicate(ctx, req, rec)
	}
	began := wall.Now()
	t := txCall[Tx]{keys: k, attempt: k.attempt(req), fn: fn}
	t.attempt.Seen = seen
	claimed, err := k.await(ctx, req, func(ctx context.Context) (*Claimed, error) {
		claimed, err := retry.Value(ctx, t.policy(), t.try)
		return &claimed, err
	})
	if err != nil {
		return Result{}, t.failed(ctx, err)
	}
	done := claimed.Record.State == Done
	ours := claimed.Won || done && claimed.Record.Attempt == t.attempt.ID // an earlier try committed, and its reply was lost
	k.learn(seen, done && !ours)
	if ours {
		k.observe(ctx, doneEvent(t.refused), req, began, nil)
		return Result{Response: t.answer}, nil
	}
	if t.unknown != nil {
		// An earlier try may still be committing, and holds the key.
		if _, err := judged(req, claimed.Record); errors.Is(err, ErrInFlight) {
			return Result{}, t.unknown
		}
	}
	return k.duplicate(ctx, req, claimed.Record)
}

// txCall is one call of InTx over its tries.
type txCall[Tx any] struct {
	keys    *TxKeys[Tx]
	attempt Attempt
	fn      func(ctx context.Context, tx Tx) (Response, error)

	answer    Response // what fn answered, in the last try
	refused   bool     // and that it was a refusal
	ran       bool     // fn was started with the key claimed, in any try
	committed bool     // fn succeeded in the last try: an error is one of the commit
	unknown   error    // of a try whose commit may have happened
}

func (t *txCall[Tx]) policy() retry.Policy {
	return retry.Policy{
		AttemptsMax: txTries,
		ElapsedMax:  t.keys.cfg.StoreMax,
		Idempotent:  true, // the key stops a second run
		Retryable: func(err error) bool {
			switch t.keys.store.Classify(err) {
			case txn.Retryable:
				return true
			case txn.Unknown:
				return t.committed // what fn returned is not ours to repeat
			default:
				return false
			}
		},
	}
}

// try runs the transaction once, and a second one for a refusal.
func (t *txCall[Tx]) try(ctx context.Context) (Claimed, error) {
	t.committed, t.refused = false, false
	ran := t.ran
	claimed, err := t.keys.store.InTx(ctx, t.attempt, t.run)
	// Only the first try may let fn begin for nothing: once it may have committed, fn must not make another answer.
	t.attempt.Seen = true
	if errors.Is(err, ErrUnclaimed) {
		t.ran, t.committed = ran, false
	}
	if refusal, ok := errors.AsType[*refusalError](err); ok {
		// The work is undone. The refusal claims the key anew; whoever was quicker has decided instead.
		t.refused, t.committed = true, true
		t.answer = refusal.response
		again := t.attempt
		again.Seen = false // the answer is made, so it can go with the claim
		claimed, err = t.keys.store.InTx(ctx, again, func(context.Context, Tx) (Response, error) {
			return t.kept(), nil
		})
	}
	if err == nil {
		err = claimed.Err
	}
	if err != nil && t.committed && t.keys.store.Classify(err) == txn.Unknown {
		t.unknown = err
	}
	return claimed, err
}

func (t *txCall[Tx]) run(ctx context.Context, tx Tx) (Response, error) {
	if t.keys.cfg.Wait {
		var w flight
		t.keys.flights.start(&w, t.attempt.Request)
		defer t.keys.flights.end(&w, t.attempt.Request)
	}
	t.ran = true
	r, err := t.fn(ctx, tx)
	if err != nil {
		return Response{}, err
	}
	t.answer, t.committed = r, true
	return t.kept(), nil
}

func (t *txCall[Tx]) kept() Response { return t.keys.kept(t.attempt.Request, t.answer) }

// failed is what the caller gets when no try came through.
func (t *txCall[Tx]) failed(ctx context.Context, err error) error {
	if !t.ran && !refused(err) {
		return &UnavailableError{Cause: err}
	}
	if t.unknown != nil && !errors.Is(err, fifty.ErrUnknownOutcome) {
		err = errors.Join(t.unknown, err)
	}
	if notDone, ok := errors.AsType[*notDoneError](err); ok {
		err = notDone.err
	}
	k := t.keys
	if !t.committed && t.unknown == nil {
		k.observe(ctx, "idempotency.rolled_back", t.attempt.Request, time.Time{}, err)
		return err
	}
	k.observe(ctx, "idempotency.completion_failed", t.attempt.Request, time.Time{}, err)
	return err
}

// DoTx is InTx within a transaction of yours: claim, work and answer are committed when you commit, and
// gone when you roll back. Send none of the answer before your commit has succeeded. On an error roll back;
// should you commit all the same, the work that fn did is undone and the key is free.
//
//   - A Response is the answer.
//   - Refuse(r): what fn did in tx is undone, r is the answer, and you commit.
//   - Any other error is returned, NotDone unwrapped.
//
// Without running fn, DoTx returns what InTx returns for a key that is not its own. A claim is not retried here: on a serialization
// failure run your whole transaction again.
func (k *TxKeys[Tx]) DoTx(ctx context.Context, tx Tx, req Request, fn func(ctx context.Context, tx Tx) (Response, error)) (Result, error) {
	req = k.named(req)
	if err := req.Validate(); err != nil {
		return Result{}, err
	}
	k.spot(ctx, req)
	began := wall.Now()
	claimed, err := k.store.ClaimTx(ctx, tx, k.attempt(req))
	if err == nil {
		err = claimed.Err
	}
	if err != nil {
		return Result{}, err
	}
	if !claimed.Won {
		return k.duplicate(ctx, req, claimed.Record)
	}
	claim := claimed.Record.claim()
	giveUp := func() {
		// The transaction is probably broken already, and the caller rolls back; if neither, this frees the key.
		_ = k.store.CompleteTx(context.WithoutCancel(ctx), tx, Completion{Claim: claim, State: Free, Undo: true})
	}
	returned := false
	defer func() {
		if !returned { // a panic, which the caller may survive and commit
			giveUp()
		}
	}()
	r, fnErr := fn(ctx, tx)
	returned = true

	state, r, err := outcome(r, fnErr)
	if state != Done {
		giveUp()
		k.observe(ctx, "idempotency.rolled_back", req, began, err)
		return Result{}, err
	}
	c := Completion{Claim: claim, State: Done, Response: k.kept(req, r), Undo: fnErr != nil}
	if err := k.store.CompleteTx(ctx, tx, c); err != nil {
		return Result{}, err
	}
	k.observe(ctx, doneEvent(fnErr != nil), req, began, nil)
	return Result{Response: r}, nil
}
