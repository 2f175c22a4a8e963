package server

import (
	"context"
	"errors"
	"sync"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
)

// Outcome is what became of a request, for metrics and the access log.
type Outcome string

// The outcomes of a request. Only the first three and unknown ran anything.
const (
	Executed      Outcome = "executed"       // run here, and the answer is kept
	Freed         Outcome = "freed"          // run or tried here; nothing was done, and the key is free
	Unknown       Outcome = "unknown"        // run here, and it is not known whether it took effect
	Unprotected   Outcome = "unprotected"    // passed through; a repeat runs again
	Passed        Outcome = "passed"         // passed through; its method changes nothing
	Replayed      Outcome = "replayed"       // the kept answer of an earlier one
	InFlight      Outcome = "in_flight"      // an earlier one is still at work
	Mismatch      Outcome = "mismatch"       // its key belongs to another request
	Unresolved    Outcome = "unresolved"     // an earlier one's outcome is unknown, and it is held
	NotReplayable Outcome = "not_replayable" // an earlier one is done, and its answer was not kept
	Expired       Outcome = "expired"        // its key is outside the window
	Unavailable   Outcome = "unavailable"    // the store could not be asked
	Refused       Outcome = "refused"        // no scope, no key, too large: nothing was asked
)

// call is what is learnt of one keyed request on its way. The heartbeat's goroutine may be in it too.
type call struct {
	mu      sync.Mutex
	req     idempotency.Request
	outcome Outcome
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *call) set(req idempotency.Request, o Outcome) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.req, c.outcome = req, o
}

func (c *call) get() (idempotency.Request, Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.req, c.outcome
}

// doer is the Keys of a route, seen at work.
type doer struct {
	keys  *idempotency.Keys
	route *route
}

// Do is Keys.Do. It notes what became of the request.
func (d doer) Do(ctx context.Context, req idempotency.Request, fn func(ctx context.Context) (idempotency.Response, error)) (idempotency.Result, error) {
	c := callFrom(ctx)
	d.route.repeated(ctx, req)
	ran, ended := false, false
	defer func() {
		if !ended { // a panic or Goexit of fn
			c.set(req, Unknown)
		}
	}()
	res, err := d.keys.Do(ctx, req, func(ctx context.Context) (idempotency.Response, error) {
		ran = true
		d.route.running(1)
		defer d.route.running(-1)
		return fn(ctx)
	})
	ended = true
	c.set(req, outcomeOf(res, err, ran))
	return res, err
}

// outcomeOf names what Keys.Do returned.
func outcomeOf(res idempotency.Result, err error, ran bool) Outcome {
	switch {
	case err == nil && res.Replayed:
		return Replayed
	case err == nil:
		return Executed
	case ran && (errors.Is(err, idempotency.ErrUnresolved) || errors.Is(err, idempotency.ErrLost) || errors.Is(err, fifty.ErrUnknownOutcome)):
		return Unknown
	case ran:
		return Freed
	case errors.Is(err, idempotency.ErrMismatch):
		return Mismatch
	case errors.Is(err, idempotency.ErrInFlight):
		return InFlight
	case errors.Is(err, idempotency.ErrUnresolved):
		return Unresolved
	case errors.Is(err, idempotency.ErrNotReplayable):
		return NotReplayable
	case errors.Is(err, idempotency.ErrExpired):
		return Expired
	case errors.Is(err, fifty.ErrInvalid):
		return Refused
	default:
		return Unavailable
	}
}
