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

// The outcomes of a request. Only the first five ran anything.
const (
	Executed      Outcome = "executed"       // run here, and the answer is kept
	Freed         Outcome = "freed"          // run or tried here; nothing was done, and the key is free
	Unknown       Outcome = "unknown"        // run here, and it is not known whether it took effect
	LetGo         Outcome = "let_go"         // run here, it is not known whether it took effect, and the next one sends it again
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
	sent    bool // on a route that sends again
	again   bool // and not for the first time
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

// sending notes that the request is sent, for the first time or again.
func (c *call) sending(again bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent, c.again = true, again
}

func (c *call) sentAgain() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}

// wasSent is only ever true on a route that sends again.
func (c *call) wasSent() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// doer is the Keys of a route, seen at work.
type doer struct {
	keys  *idempotency.Keys
	route *route
}

// Do is Keys.Do. It notes what became of the request.
func (d doer) Do(ctx context.Context, req idempotency.Request, fn work) (idempotency.Result, error) {
	return d.watch(ctx, req, fn, func(fn work) (idempotency.Result, error) { return d.keys.Do(ctx, req, fn) })
}

// DoSteps is Keys.DoSteps, watched in the same way.
func (d doer) DoSteps(
	ctx context.Context, req idempotency.Request, fn func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error),
) (idempotency.Result, error) {
	withSteps := func(ctx context.Context) (idempotency.Response, error) {
		s, _ := idempotency.StepsFrom(ctx)
		return fn(ctx, s)
	}
	return d.watch(ctx, req, withSteps, func(fn work) (idempotency.Result, error) {
		return d.keys.DoSteps(ctx, req, func(ctx context.Context, _ *idempotency.Steps) (idempotency.Response, error) { return fn(ctx) })
	})
}

// work is the function of a request.
type work = func(ctx context.Context) (idempotency.Response, error)

// watch runs do, and fn within it.
func (d doer) watch(ctx context.Context, req idempotency.Request, fn work, do func(fn work) (idempotency.Result, error)) (idempotency.Result, error) {
	c := callFrom(ctx)
	d.route.repeated(ctx, req)
	ran, ended := false, false
	defer func() {
		if !ended { // a panic or Goexit of fn
			c.set(req, openOutcome(c))
		}
	}()
	res, err := do(func(ctx context.Context) (idempotency.Response, error) {
		ran = true
		d.route.running(1)
		defer d.route.running(-1)
		return fn(ctx)
	})
	ended = true
	outcome := outcomeOf(res, err, ran)
	if outcome == Freed && c.wasSent() {
		outcome = LetGo
	}
	c.set(req, outcome)
	return res, err
}

// openOutcome is that of a run that did not return.
func openOutcome(c *call) Outcome {
	if c.wasSent() {
		return LetGo
	}
	return Unknown
}

// outcomeOf names what Keys.Do or Keys.DoSteps returned.
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
