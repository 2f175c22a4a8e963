package retry

import (
	"context"
	"errors"
	"time"

	"github.com/fiftyhosts/fifty"
)

// Do runs fn until it succeeds, its error forbids another attempt, a bound of p is reached or ctx ends.
// It never runs fn twice at once, and fn gets ctx as it is. nil means that the last attempt succeeded.
// Else the error is
//
//   - fn's own, as fn returned it, when it forbids another attempt;
//   - an *ExhaustedError when a bound ended the retries: it tells which;
//   - the context's error, its cause and the last attempt's error in one, when ctx ended. If ctx had
//     ended before, fn was not run;
//   - a *fifty.InvalidError for an impossible p: fn was not run.
//
// Whichever it is, it is a fifty.ErrUnknownOutcome if an attempt was, unless a Permanent error settled
// it: the operation may then have happened. A panic in fn passes through. Do is safe for concurrent use.
func Do(ctx context.Context, p Policy, fn func(ctx context.Context) error) error {
	if fn == nil {
		return &fifty.InvalidError{Field: "fn", Problem: "is nil; give the call to run"}
	}
	if err := p.check(); err != nil {
		return err
	}
	p = p.withDefaults()
	if err := ctx.Err(); err != nil {
		return stopped(ctx, err, 0, nil)
	}

	r := run{policy: p, began: p.Clock.Now()}
	p.Budget.deposit()
	for { // bounded by AttemptsMax, in next
		r.attempts++
		err := fn(ctx)
		if err == nil {
			return nil
		}
		if end := r.next(ctx, err); end != nil {
			return unsettled(end, r.unknown)
		}
		if errors.Is(err, fifty.ErrUnknownOutcome) {
			r.unknown = err
		}
	}
}

// Value is Do for a call that returns a value: the one of the attempt that succeeded, or else zero.
func Value[T any](ctx context.Context, p Policy, fn func(ctx context.Context) (T, error)) (T, error) {
	var value, zero T
	if fn == nil {
		return zero, Do(ctx, p, nil)
	}
	err := Do(ctx, p, func(ctx context.Context) (err error) {
		value, err = fn(ctx)
		return err
	})
	if err != nil {
		return zero, err
	}
	return value, nil
}

// run is one call of Do.
type run struct {
	policy   Policy
	began    time.Time
	attempts int
	unknown  error // of an earlier attempt whose outcome is unknown
}

// next waits for the next attempt after one that failed with err. It returns nil when that attempt is
// to start now, and otherwise the error that ends Do. All that can forbid an attempt is asked before
// the wait, the budget last: a token is only taken for a wait that begins.
func (r *run) next(ctx context.Context, err error) error {
	p := r.policy
	if !p.retryable(err) {
		return err
	}
	if by := ctx.Err(); by != nil {
		return stopped(ctx, by, r.attempts, err)
	}
	if r.attempts >= p.AttemptsMax {
		return r.exhausted(ErrAttemptsMax, 0, err)
	}
	pushBack := pushBackOf(err)
	wait, fits := p.wait(r.attempts-1, pushBack, p.ElapsedMax-r.elapsed())
	if !fits && pushBack > 0 {
		return r.exhausted(ErrPushBack, wait, err)
	}
	if !fits {
		return r.exhausted(ErrElapsedMax, wait, err)
	}
	if !p.Budget.withdraw() {
		return r.exhausted(ErrBudgetExhausted, wait, err)
	}
	if by := p.Clock.Sleep(ctx, wait); by != nil || ctx.Err() != nil {
		p.Budget.refund()
		return stopped(ctx, by, r.attempts, err)
	}
	if r.elapsed() > p.ElapsedMax { // the host stood still during the wait
		p.Budget.refund()
		return r.exhausted(ErrElapsedMax, wait, err)
	}
	return nil
}

// elapsed is never negative, even on a clock that went backwards.
func (r *run) elapsed() time.Duration {
	return max(r.policy.Clock.Now().Sub(r.began), 0)
}

func (r *run) exhausted(reason error, wait time.Duration, err error) error {
	return &ExhaustedError{Attempts: r.attempts, Elapsed: r.elapsed(), Wait: wait, Reason: reason, Err: err}
}
