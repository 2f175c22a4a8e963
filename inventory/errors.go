package inventory

import (
	"errors"
	"fmt"
)

// What a call returns instead of a hold. Nothing changed, unless the text says otherwise.
var (
	// ErrSoldOut: there is not enough. The refusal is recorded: the same id gets it again, also when there is
	// stock again; a new intent has a new id. See SoldOutError.
	ErrSoldOut = errors.New("sold out")

	// ErrHoldExpired: the hold's time is over and its units were given to others. For good: no later confirm
	// of it succeeds, so refund what was paid. See HoldExpiredError.
	ErrHoldExpired = errors.New("the hold has expired and its units are gone")

	// ErrMismatch: the id was used with other items. See MismatchError.
	ErrMismatch = errors.New("this id was used for something else")

	// ErrState: the hold is in a state in which this can't be done. See StateError.
	ErrState = errors.New("not possible in the hold's state")

	// ErrNotFound: there is no hold of this id.
	ErrNotFound = errors.New("no hold with this id")

	// ErrUnknownSKU: this SKU was never supplied. See UnknownSKUError.
	ErrUnknownSKU = errors.New("unknown SKU")

	// ErrBusy: too many wait already, or too many refusals are remembered. Try later, with the same id.
	ErrBusy = errors.New("too busy; try later with the same id")

	// ErrUnavailable: the store could not be asked, and nothing was done. Ask again with the same id. See
	// UnavailableError.
	ErrUnavailable = errors.New("the stock can't be reached; nothing was done")
)

// SoldOut says of which SKU there was not enough.
type SoldOut struct {
	SKU               string
	Wanted, Available int64 // at the moment of the refusal
}

// SoldOutError is an ErrSoldOut.
type SoldOutError struct {
	SoldOut
	Replayed bool // the refusal was given before
}

func (e *SoldOutError) Error() string {
	return fmt.Sprintf("%q is sold out: %d wanted, %d available; the refusal stays, a new order needs a new id", e.SKU, e.Wanted, e.Available)
}

// Unwrap returns ErrSoldOut.
func (e *SoldOutError) Unwrap() error { return ErrSoldOut }

// HoldExpiredError is an ErrHoldExpired.
type HoldExpiredError struct {
	Hold  Hold
	Short SoldOut // what there was not enough of, after a confirm
}

func (e *HoldExpiredError) Error() string {
	if e.Hold.State != Lapsed {
		return fmt.Sprintf("hold %q has expired; it can't be extended", e.Hold.ID)
	}
	return fmt.Sprintf("hold %q has expired and %q is sold out; it can't be confirmed any more, refund what was paid", e.Hold.ID, e.Short.SKU)
}

// Unwrap returns ErrHoldExpired.
func (e *HoldExpiredError) Unwrap() error { return ErrHoldExpired }

// MismatchError is an ErrMismatch.
type MismatchError struct {
	ID    string
	First Items // with which the id was used first
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("id %q was used for %v; make a new id for a new intent", e.ID, e.First)
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// StateError is an ErrState.
type StateError struct {
	Wanted string // confirm, release or extend
	Hold   Hold
}

func (e *StateError) Error() string {
	return fmt.Sprintf("can't %s hold %q: it is %s", e.Wanted, e.Hold.ID, e.Hold.State)
}

// Unwrap returns ErrState.
func (e *StateError) Unwrap() error { return ErrState }

// UnknownSKUError is an ErrUnknownSKU.
type UnknownSKUError struct{ SKU string }

func (e *UnknownSKUError) Error() string {
	return fmt.Sprintf("unknown SKU %q; supply it first", e.SKU)
}

// Unwrap returns ErrUnknownSKU.
func (e *UnknownSKUError) Unwrap() error { return ErrUnknownSKU }

// UnavailableError is an ErrUnavailable.
type UnavailableError struct{ Cause error }

func (e *UnavailableError) Error() string { return ErrUnavailable.Error() + ": " + e.Cause.Error() }

// Unwrap returns ErrUnavailable and the store's error.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Cause} }
