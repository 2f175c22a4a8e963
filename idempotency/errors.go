package idempotency

import (
	"errors"
	"fmt"
	"time"
)

// What a call returns instead of an answer. The function was not run, unless the text says otherwise.
var (
	// ErrMismatch: the key was used with another fingerprint, so this is another intent under a used key: a
	// fault of the client, which must make a new key. See MismatchError.
	ErrMismatch = errors.New("this key was used for a different request")

	// ErrInFlight: the first arrival is still at work. Ask again with the same key. See InFlightError.
	ErrInFlight = errors.New("a request with this key is in progress")

	// ErrUnresolved: the work may or may not have happened, and nobody here can tell. It is not run again;
	// an operator resolves the key. See UnresolvedError.
	ErrUnresolved = errors.New("the outcome of this key's request is unresolved")

	// ErrNotReplayable: the work is done, and its answer was too large or streamed, so it was not kept.
	ErrNotReplayable = errors.New("the request is done, but its answer was not kept")

	// ErrExpired: the key is outside the window in which it is remembered. It is never run again.
	ErrExpired = errors.New("this key has expired")

	// ErrUnavailable: the store could not be asked for a claim. Nothing was run; ask again with the same
	// key. See UnavailableError.
	ErrUnavailable = errors.New("the key store can't be reached; nothing was run")

	// ErrUnclaimed: what a statement in the transaction of InTx gets when the key is not this call's. It did
	// nothing, and nothing in this transaction will: return the error. InTx answers for the duplicate.
	ErrUnclaimed = errors.New("the key is not claimed by this call, so nothing was done; return this error")

	// ErrLost: the claim is no longer this owner's. It is the cause of the function's context when another
	// owner or an operator has taken the key over. See LostError.
	ErrLost = errors.New("the claim on this key was lost")

	// ErrAlone is what a store answers a member of a batch that would make the others wait: for a lock, or for
	// a race that is decided one by one. Nothing happened for it; ask for it by itself. Keys does.
	ErrAlone = errors.New("this one can't be done together with others; ask for it by itself")

	// ErrNotFound: there is no record of this key.
	ErrNotFound = errors.New("no record of this key")
)

// MismatchError is an ErrMismatch.
type MismatchError struct{ Scope, Key string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("key %q was used for a different request; make a new key for a new intent", e.Key)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// InFlightError is an ErrInFlight.
type InFlightError struct {
	Key        string
	RetryAfter time.Duration // when it makes sense to ask again
}

func (e *InFlightError) Error() string {
	return fmt.Sprintf("a request with key %q is in progress; ask again with the same key in %v", e.Key, e.RetryAfter)
}

// Unwrap returns ErrInFlight.
func (e *InFlightError) Unwrap() error { return ErrInFlight }

// UnresolvedError is an ErrUnresolved. Cause is the error of the function when this very call ran it, and
// nil for a duplicate.
type UnresolvedError struct {
	Request Request
	Step    string // whose outcome is unknown, for work made of steps
	Cause   error
}

func (e *UnresolvedError) Error() string {
	what := "its work"
	if e.Step != "" {
		what = fmt.Sprintf("its step %q", e.Step)
	}
	text := fmt.Sprintf("the outcome of key %q is unresolved: %s may have happened; it is not run again, an operator must look", e.Request.Key, what)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns ErrUnresolved and the cause.
func (e *UnresolvedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrUnresolved}
	}
	return []error{ErrUnresolved, e.Cause}
}

// UnavailableError is an ErrUnavailable.
type UnavailableError struct{ Cause error }

func (e *UnavailableError) Error() string { return ErrUnavailable.Error() + ": " + e.Cause.Error() }

// Unwrap returns ErrUnavailable and the store's error.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Cause} }

// LostError is an ErrLost.
type LostError struct {
	Claim Claim
	// Superseded says that the key has another owner or was decided without this one, so this one's result
	// does not count. Otherwise the lease ran out and nobody came since: the result still counts.
	Superseded bool
}

func (e *LostError) Error() string {
	if e.Superseded {
		return fmt.Sprintf("the claim on key %q (token %d) was superseded; its result does not count", e.Claim.Key, e.Claim.Token)
	}
	return fmt.Sprintf("the lease on key %q (token %d) ran out", e.Claim.Key, e.Claim.Token)
}

// Unwrap returns ErrLost.
func (e *LostError) Unwrap() error { return ErrLost }
