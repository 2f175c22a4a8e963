package idempotency

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fiftyhosts/fifty"
)

// Bounds of an operator's calls.
const (
	listDefault = 100
	listMax     = 1000
	noteMax     = 1000 // bytes of Resolution.By and of Note
)

// ErrDecided says that a key is not open for an operator's decision: it is done, free, or its owner is at
// work. Nothing changed. See DecidedError.
var ErrDecided = errors.New("this key is not unresolved")

// DecidedError is an ErrDecided. Record is what the key was.
type DecidedError struct{ Record Record }

func (e *DecidedError) Error() string {
	return fmt.Sprintf("key %q is not unresolved: it is %v with token %d; look at it again", e.Record.Request.Key, e.Record.State, e.Record.Token)
}

// Unwrap returns ErrDecided.
func (e *DecidedError) Unwrap() error { return ErrDecided }

// OperatorStore is what a store offers to people and their tools.
type OperatorStore interface {
	// List returns records in the order of scope and key.
	List(ctx context.Context, f Filter) ([]Record, error)

	// Resolve decides a record that is Unknown, or in flight and expired; any other gets a *DecidedError, a
	// missing one ErrNotFound. It raises the token and takes the attempt away, so that an owner that comes
	// back late finds itself superseded, and writes the audit in the same transaction. With a Response the
	// record becomes Done, otherwise Free; the steps of a freed key are forgotten.
	Resolve(ctx context.Context, r Resolution) error

	// Erase takes answer and steps away from at most limit done records of a scope that still have them, and
	// returns how many: they stay done, and not replayable.
	Erase(ctx context.Context, scope string, limit int) (erased int, err error)

	// Audit returns the decisions about a key, oldest first.
	Audit(ctx context.Context, scope, key string) ([]Decision, error)
}

// Filter selects records. The zero value selects all, a page of 100 at a time.
type Filter struct {
	Scope      string        // only this scope; empty for all
	Unresolved bool          // only what an operator can resolve: unknown, or in flight and expired
	OlderThan  time.Duration // only what was first claimed at least so long ago
	Limit      int           // at most so many, up to 1,000. Defaults to 100

	AfterScope, AfterKey string // only what comes behind this one: the last of the page before
}

// Resolution is an operator's decision about an unresolved key.
type Resolution struct {
	Scope, Key string
	Token      int64     // of the record that the decision is about; another one is refused. Zero: any
	Response   *Response // the answer that every arrival gets from now on; nil frees the key
	By, Note   string    // who and why; both are kept
}

// Decision is one resolution as it was carried out.
type Decision struct {
	At       time.Time // by the store's clock
	By, Note string
	From, To State
	Token    int64 // after it
}

// Operator is for people who look after unresolved keys. It is safe for concurrent use.
type Operator struct{ store OperatorStore }

// NewOperator makes an Operator over a store.
func NewOperator(store OperatorStore) *Operator { return &Operator{store} }

// List returns records in the order of scope and key. A claim whose owner vanished, and which nobody may take
// over, reads as Unknown.
func (o *Operator) List(ctx context.Context, f Filter) ([]Record, error) {
	switch {
	case f.Limit < 0 || f.Limit > listMax:
		return nil, &fifty.InvalidError{Field: "Filter.Limit", Problem: fmt.Sprintf("is %d; it must be 1 to %d, or 0 for %d", f.Limit, listMax, listDefault)}
	case f.Limit == 0:
		f.Limit = listDefault
	}
	all, err := o.store.List(ctx, f)
	for i := range all {
		all[i].State = all[i].seen()
	}
	return all, err
}

// Resolve decides an unresolved key: it gives it the answer that every arrival gets from now on, or frees it,
// and then the next arrival runs. It writes down who did so and why. A key that is not unresolved, or whose
// token is not the one given, gets ErrDecided, an unknown one ErrNotFound, and nothing changes.
//
// Find out first whether the work happened. Freeing a key whose owner is only paused can still double the
// effect: the owner is refused when it completes, not when it acts. Stop it, or have its downstream refuse it.
func (o *Operator) Resolve(ctx context.Context, r Resolution) error {
	if err := ValidateScope(r.Scope); err != nil {
		return err
	}
	if err := ValidateKey(r.Key); err != nil {
		return err
	}
	for field, text := range map[string]string{"Resolution.By": r.By, "Resolution.Note": r.Note} {
		if text == "" || len(text) > noteMax || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("must be 1 to %d bytes of UTF-8 without a NUL: who decides and why is kept", noteMax)}
		}
	}
	return o.store.Resolve(ctx, r)
}

// Erase takes away all kept answers of a scope, as a customer may ask for, and returns how many; also with an
// error, and then what it did stays done. The keys stay used: a duplicate gets ErrNotReplayable and nothing
// runs again. Keys that are in flight or unresolved keep their steps until they are decided.
func (o *Operator) Erase(ctx context.Context, scope string) (erased int, err error) {
	if err := ValidateScope(scope); err != nil {
		return 0, err
	}
	for range sweepBatchesMax {
		n, err := o.store.Erase(ctx, scope, sweepBatch)
		erased += n
		if err != nil || n < sweepBatch {
			return erased, err
		}
	}
	return erased, nil
}

// Audit returns the decisions about a key, oldest first. A key that was never decided has none.
func (o *Operator) Audit(ctx context.Context, scope, key string) ([]Decision, error) {
	return o.store.Audit(ctx, scope, key)
}
