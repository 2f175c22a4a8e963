package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
)

var (
	// ErrExhausted says that another attempt was allowed by the error and forbidden by a bound of the
	// Policy. See ExhaustedError for which.
	ErrExhausted = errors.New("retries exhausted")

	// ErrAttemptsMax says that Policy.AttemptsMax attempts have failed.
	ErrAttemptsMax = errors.New("attempts used up")

	// ErrElapsedMax says that the next attempt would have started later than Policy.ElapsedMax.
	ErrElapsedMax = errors.New("time used up")

	// ErrPushBack says that the peer asked for a longer wait than Policy.ElapsedMax leaves. Try again
	// after ExhaustedError.Wait, or allow more time.
	ErrPushBack = errors.New("peer asked for a longer wait than is left")

	// ErrBudgetExhausted says that the Budget had no token: too many calls are failing. Don't retry on
	// another level; let the peer recover.
	ErrBudgetExhausted = errors.New("retry budget empty")
)

// ExhaustedError says which bound ended the retries, and after what. It is ErrExhausted and its Reason,
// and unwraps to the error of the last attempt.
type ExhaustedError struct {
	Attempts int           // how often fn ran
	Elapsed  time.Duration // from the call of Do to its end
	Wait     time.Duration // the wait that was not begun, or was not followed by an attempt; else zero
	Reason   error         // ErrAttemptsMax, ErrElapsedMax, ErrPushBack or ErrBudgetExhausted
	Err      error         // the error of the last attempt
}

func (e *ExhaustedError) Error() string {
	wait := ""
	if e.Wait > 0 {
		wait = fmt.Sprintf(" (next wait %v)", e.Wait)
	}
	return fmt.Sprintf("gave up after %s in %v: %v%s: %v", attempts(e.Attempts), e.Elapsed, e.Reason, wait, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *ExhaustedError) Unwrap() error { return e.Err }

// Is reports whether target is ErrExhausted or the Reason.
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted || target == e.Reason }

// Permanent marks err as the peer's answer, which no further attempt changes: Do returns it as it is.
// It also settles what an earlier attempt left unknown, so use it for an answer to this operation (a
// refused card). For an error that is only not worth repeating (credentials rejected before the peer
// looked at the id), let Policy.Retryable say no: an unknown outcome then stays unknown.
//
// An outer Do doesn't retry it either. Permanent(nil) is nil. The error unwraps to err.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

func isPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

// retryable reports whether an attempt's error allows another attempt, bounds aside.
func (p Policy) retryable(err error) bool {
	switch {
	case isPermanent(err), errors.Is(err, fifty.ErrInvalid), errors.Is(err, fifty.ErrUnsupported):
		return false
	case errors.Is(err, fifty.ErrUnknownOutcome) && !p.Idempotent:
		return false
	}
	return p.Retryable == nil || p.Retryable(err)
}

// stoppedError says that the caller's context ended the retries. It is the context's error, its cause
// and the last attempt's error at once.
type stoppedError struct {
	attempts int
	by       error // of the context or, without one, of Clock.Sleep
	cause    error // context.Cause; nil when it says no more than by
	last     error // nil when no attempt was made
}

func stopped(ctx context.Context, by error, attempts int, last error) error {
	e := &stoppedError{attempts: attempts, by: by, last: last}
	if err := ctx.Err(); err != nil {
		e.by = err
		if cause := context.Cause(ctx); cause != err { //nolint:errorlint // the same value, not a wrapping one
			e.cause = cause
		}
	}
	return e
}

func (e *stoppedError) Error() string {
	why := e.by.Error()
	if e.cause != nil {
		why += " (" + e.cause.Error() + ")"
	}
	if e.last == nil {
		return "not tried: " + why
	}
	return fmt.Sprintf("stopped after %s: %s: last error: %v", attempts(e.attempts), why, e.last)
}

func (e *stoppedError) Unwrap() []error {
	all := []error{e.by}
	for _, err := range []error{e.cause, e.last} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// unsettledError adds to what ended the retries that an earlier attempt may have taken effect.
type unsettledError struct{ ended, earlier error }

// unsettled returns ended so that it is also an ErrUnknownOutcome if an earlier attempt was and nothing
// has settled it since.
func unsettled(ended, earlier error) error {
	if earlier == nil || isPermanent(ended) || errors.Is(ended, fifty.ErrUnknownOutcome) {
		return ended
	}
	return &unsettledError{ended: ended, earlier: earlier}
}

func (e *unsettledError) Error() string {
	return fmt.Sprintf("%v; an earlier attempt: %v", e.ended, e.earlier)
}

func (e *unsettledError) Unwrap() []error { return []error{e.ended, e.earlier} }

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}
