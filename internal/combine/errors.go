package combine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty"
)

var (
	// ErrBusy says that too many operations of the group are waiting. Nothing was sent: try later. The
	// detail is a *BusyError.
	ErrBusy = errors.New("too many operations are waiting; try later")

	// ErrTimeout is the cause with which the context of a batch ends after Config.Timeout.
	ErrTimeout = errors.New("combine: the batch has taken longer than Config.Timeout")
)

// BusyError is an ErrBusy. Nothing was sent.
type BusyError struct {
	Waiting int // operations of the group
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%d operations are waiting already; nothing was sent, try later", e.Waiting)
}

// Unwrap makes errors.Is(err, ErrBusy) true.
func (e *BusyError) Unwrap() error { return ErrBusy }

// NotSentError says that the caller's context ended before its operation was sent. Nothing happened. It is
// the context's error and its cause.
type NotSentError struct {
	Err   error // context.Canceled or context.DeadlineExceeded
	Cause error
}

func notSent(ctx context.Context) *NotSentError {
	return &NotSentError{Err: ctx.Err(), Cause: context.Cause(ctx)}
}

func (e *NotSentError) Error() string { return fmt.Sprintf("nothing was sent: %v", e.Cause) }

// Unwrap returns the context's error and its cause.
func (e *NotSentError) Unwrap() []error { return []error{e.Err, e.Cause} }

// LeftError is a fifty.ErrUnknownOutcome: the caller's context ended while its operation was under way. Ask
// again with the same id.
type LeftError struct {
	Err   error // context.Canceled or context.DeadlineExceeded
	Cause error
}

func left(ctx context.Context) *LeftError {
	return &LeftError{Err: ctx.Err(), Cause: context.Cause(ctx)}
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("the caller left before the outcome was there; ask again with the same id: %v", e.Cause)
}

// Unwrap returns fifty.ErrUnknownOutcome, the context's error and its cause.
func (e *LeftError) Unwrap() []error { return []error{fifty.ErrUnknownOutcome, e.Err, e.Cause} }

// TogetherError says that several operations failed in one call, and that the one that is the cause was not
// found or not looked for. Nothing happened for any of them.
type TogetherError struct {
	Members int // of the call that failed
	Err     error
}

func (e *TogetherError) Error() string {
	return fmt.Sprintf("%d operations failed together, none of them happened: %v", e.Members, e.Err)
}

// Unwrap returns the error of the call.
func (e *TogetherError) Unwrap() error { return e.Err }

// PanicError is a fifty.ErrUnknownOutcome: the function that ran the operation panicked, maybe after the
// effect.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("the operation's run panicked, it may have happened; ask again with the same id: %v", e.Value)
}

// Unwrap returns fifty.ErrUnknownOutcome, and the panic's value if it is an error.
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{fifty.ErrUnknownOutcome, err}
	}
	return []error{fifty.ErrUnknownOutcome}
}

// errGone is what the others get when run ended its goroutine.
var errGone = fmt.Errorf("combine: run left its goroutine (runtime.Goexit): %w", fifty.ErrUnknownOutcome)

func miscounted(got, want int) error {
	return fmt.Errorf("combine: run gave %d outcomes for %d operations: %w", got, want, fifty.ErrUnknownOutcome)
}

func unknown(err error) bool { return errors.Is(err, fifty.ErrUnknownOutcome) }
