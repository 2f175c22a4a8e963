package idempotency

import "errors"

type notDoneError struct{ err error }

func (e *notDoneError) Error() string { return e.err.Error() }
func (e *notDoneError) Unwrap() error { return e.err }

// NotDone says that the function did nothing that a repeat would double: the key becomes free, a retry
// runs afresh, and the call returns err. Use it only when that is certain; a peer that was reached and did
// not answer may have acted. NotDone(nil) is nil.
func NotDone(err error) error {
	if err == nil {
		return nil
	}
	return &notDoneError{err}
}

type refusalError struct{ response Response }

func (e *refusalError) Error() string { return "idempotency: refused" }

// Refuse is a definite refusal, such as a declined card: the work that was done in the transaction is
// rolled back, and r is stored and replayed as the answer. The call returns r as its Result, not an error.
func Refuse(r Response) error { return &refusalError{r} }

// outcome reads what a function returned.
func outcome(r Response, err error) (State, Response, error) {
	if err == nil {
		return Done, r, nil
	}
	if resumable, ok := errors.AsType[*resumableError](err); ok {
		return InFlight, Response{}, resumable.err
	}
	if refusal, ok := errors.AsType[*refusalError](err); ok {
		return Done, refusal.response, nil
	}
	if notDone, ok := errors.AsType[*notDoneError](err); ok {
		return Free, Response{}, notDone.err
	}
	return Unknown, Response{}, err
}
