package fifty

import (
	"errors"
	"fmt"
)

var (
	// ErrUnknownOutcome says that the operation may or may not have happened: its request was sent, and
	// its reply was lost. Ask again with the same id: the answer is then the one of the first attempt.
	// Never ask again with a new id.
	ErrUnknownOutcome = errors.New("outcome unknown: it may have happened; ask again with the same id")

	// ErrUnsupported says that the store can't do what was asked. Nothing was sent, nothing changed.
	ErrUnsupported = errors.New("not supported by this store")

	// ErrInvalid says that an argument was wrong. Nothing was sent, nothing changed, and the same call
	// will fail again: see InvalidError for the field.
	ErrInvalid = errors.New("invalid argument")
)

// InvalidError names the argument that was wrong. It is an ErrInvalid: nothing was sent, nothing changed.
type InvalidError struct {
	Field   string // the argument or field, as the caller spells it: "Request.Key"
	Problem string // what is wrong with it and what would be right: "is empty; name the caller"
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s %s", e.Field, e.Problem) }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Unwrap() error { return ErrInvalid }
