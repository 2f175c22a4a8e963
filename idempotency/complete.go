package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
)

// owner is the one arrival that runs the function: its claim, the heartbeat that keeps it, and all else that
// it needs until its work is done, in one piece of memory.
type owner struct {
	keys   *Keys
	asking asking
	sent   time.Time // when the claim went out, by this host's monotonic clock
	rec    *Record   // the claim, once it is won
	run    run
	beat   beat
	flight flight
	ending ending
}

// work runs fn under o's claim and records what became of it.
func (k *Keys) work(ctx context.Context, o *owner, fn func(o *owner) (Response, error)) (Result, error) {
	detached := context.WithoutCancel(ctx)
	now := wall.Runtime()
	o.run.token, o.run.causes, o.run.alone = o.rec.Token, true, true
	o.run.begin(detached, now.Add(k.cfg.WorkMax))
	defer o.run.end()

	lease, b := k.cfg.Lease, &o.beat
	b.o = o
	b.valid = o.sent.Add(lease - lease/leaseMargin)
	k.firsts.join(b, now, now.Add(lease/3))
	defer b.stop()

	returned := false
	defer func() {
		if !returned { // fn panicked or left its goroutine, maybe after the effect
			k.dropped(detached, o)
		}
	}()
	response, err := fn(o)
	returned = true

	return k.finish(ctx, detached, o, response, err)
}

// dropped gives up a claim whose function did not return: work made of steps may be resumed, all other is
// unresolved. If this is not recorded, the expiry says the same later.
func (k *Keys) dropped(ctx context.Context, o *owner) {
	state, event := Unknown, "idempotency.left_unknown"
	if o.rec.Resume {
		state, event = InFlight, "idempotency.let_go"
	}
	o.ending.completions[0] = Completion{Claim: o.rec.claim(), State: state}
	_, err := k.complete(ctx, &o.ending)
	k.observe(ctx, event, o.rec.Request, o.sent, err)
}

// finish records the outcome of fn and says what the caller gets. Nothing of the answer leaves before it is
// durable: a caller that has it must find every duplicate getting the same.
func (k *Keys) finish(ctx, detached context.Context, o *owner, r Response, fnErr error) (Result, error) {
	rec, began := o.rec, o.sent
	state, response, err := outcome(r, fnErr)
	c := &o.ending.completions[0]
	c.Claim, c.State = rec.claim(), state
	if state == Done {
		c.Response = k.kept(rec.Request, response)
	}
	decided, stored := k.complete(detached, &o.ending)
	if lost, ok := errors.AsType[*LostError](stored); ok {
		k.observe(ctx, "idempotency.superseded", rec.Request, began, lost)
		return k.superseded(ctx, rec.Request, decided, lost, err)
	}
	switch state {
	case Done:
		if stored != nil {
			k.observe(ctx, "idempotency.completion_failed", rec.Request, began, stored)
			return Result{}, &completionError{key: rec.Request.Key, cause: stored}
		}
		k.observe(ctx, doneEvent(fnErr != nil), rec.Request, began, nil)
		return Result{Response: response}, nil
	case Free:
		if stored != nil {
			k.observe(ctx, "idempotency.completion_failed", rec.Request, began, stored)
			return Result{}, fmt.Errorf("%w (its key could not be freed and will need an operator: %w)", err, stored)
		}
		k.observe(ctx, "idempotency.freed", rec.Request, began, err)
		return Result{}, err
	case InFlight:
		k.observe(ctx, "idempotency.let_go", rec.Request, began, err)
		return Result{}, err
	default:
		if held, ok := errors.AsType[*heldError](err); ok {
			k.observe(ctx, "idempotency.left_unknown", rec.Request, began, held.unresolved)
			return Result{}, held.unresolved
		}
		// Whether or not this was recorded, the key ends unresolved: by its state, or by its expiry.
		k.observe(ctx, "idempotency.left_unknown", rec.Request, began, err)
		return Result{}, &UnresolvedError{Request: rec.Request, Cause: err}
	}
}

// doneEvent names the event of an answer that was stored: the function's own, or a refusal.
func doneEvent(refused bool) string {
	if refused {
		return "idempotency.refused"
	}
	return "idempotency.completed"
}

// superseded answers an owner whose key was decided without it: it gets what every other arrival gets, so
// that all see one outcome.
func (k *Keys) superseded(ctx context.Context, req Request, decided Record, lost *LostError, fnErr error) (Result, error) {
	if decided.State == Done {
		return k.answer(ctx, req, decided)
	}
	return Result{}, errors.Join(lost, fnErr)
}

// complete stores a completion, trying again under the same claim while the store fails. For a claim that
// was superseded it returns a *LostError and the record that took its place, if that can be read.
func (k *Keys) complete(ctx context.Context, e *ending) (Record, error) {
	err := retry.Do(ctx, k.storePolicy(&e.first), func(ctx context.Context) error {
		limit := e.first.next(ctx, k.cfg.StoreMax/2)
		defer limit.end()
		return k.together.end(limit, e)
	})
	if !isLost(err) {
		return Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, k.cfg.StoreMax/2)
	defer cancel()
	claim := e.completions[0].Claim
	decided, findErr := k.store.Find(ctx, claim.Scope, claim.Key)
	if findErr != nil {
		return Record{}, err
	}
	return decided, err
}

// ending is a completion on its way to the store, and the time-out of the first try: see asking.
type ending struct {
	completions [1]Completion
	first       trial
}

func isLost(err error) bool { return errors.Is(err, ErrLost) }

// completionError is a fifty.ErrUnknownOutcome: the work was done, and its answer could not be stored.
type completionError struct {
	key   string
	cause error
}

func (e *completionError) Error() string {
	return fmt.Sprintf("the work of key %q is done, but its answer could not be stored and is withheld; ask again with the same key: %v", e.key, e.cause)
}

func (e *completionError) Unwrap() []error { return []error{fifty.ErrUnknownOutcome, e.cause} }

type tokenKey struct{}

// TokenFrom returns the fencing token of the claim that the function runs under. A later owner of the same
// key has a higher one, so a resource that remembers the highest it saw can refuse what comes late.
func TokenFrom(ctx context.Context) (token int64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(int64)
	return token, ok
}
