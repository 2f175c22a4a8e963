package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/idempotency/idempotencyhttp"
)

// A route with unknown: retry sends a request again, for as long as its upstream knows a repeat by the key. Two
// steps of the request are written down for that.
const (
	stepSent = "first-sent"           // before the first byte is sent: under which key, and when
	stepLate = "upstream-window-over" // what is sent again from now on would be new to the upstream
)

// firstSent is the result of stepSent. Every later attempt forwards this key, whatever the spelling that the
// client then uses, and whatever the configuration says by then.
type firstSent struct {
	Key []string      `json:"key"`    // the lines of the header
	Age time.Duration `json:"age_ns"` // of the request's key at that time, at least
}

// errWindowOver is why a request is held.
var errWindowOver = errors.New("the upstream's window is over")

// sending is called with a connection at hand and no byte of r sent. It gives r the key of the first attempt,
// and refuses what the upstream may no longer know: from then on the request is held (H8).
func (rt *route) sending(r *http.Request) error {
	ctx := r.Context()
	s, ok := idempotency.StepsFrom(ctx)
	if !ok {
		return errors.New("the request has no steps")
	}
	again := true
	least, _ := s.Age()
	first, err := idempotency.Step(ctx, s, stepSent, func(context.Context, string) (firstSent, error) {
		again = false
		return firstSent{Key: r.Header[idempotencyhttp.KeyHeader], Age: least}, nil
	})
	if err != nil {
		return err
	}
	if _, now := s.Age(); again && now-first.Age >= rt.UpstreamWindow {
		_, err := idempotency.StepOnce(ctx, s, stepLate, func(context.Context, string) (bool, error) { return false, errWindowOver }, nil)
		return err
	}
	r.Header[idempotencyhttp.KeyHeader] = first.Key
	callFrom(ctx).sending(again)
	return nil
}

// answered looks at the upstream's answer to a request that was sent again. A 409 may say there that the first
// attempt is still at work; it is passed on and not kept, so that the outcome of that attempt can be.
func (rt *route) answered(resp *http.Response) error {
	ctx := resp.Request.Context()
	if resp.StatusCode == http.StatusConflict && callFrom(ctx).sentAgain() {
		idempotencyhttp.SetKeep(ctx, idempotencyhttp.Failed)
	}
	return nil
}

// SentKey is the key that a record's request was sent on with, where that is written down: on routes with unknown:
// retry, and not sealed. Otherwise it is nil.
func SentKey(rec idempotency.Record) []string {
	for _, step := range rec.Steps {
		var first firstSent
		if step.Name == stepSent && json.Unmarshal(step.Result, &first) == nil {
			return first.Key
		}
	}
	return nil
}

// notSent answers for a request of which this attempt sent nothing, because of cause.
func (rt *route) notSent(w http.ResponseWriter, r *http.Request, cause error) {
	ctx := r.Context()
	if errors.Is(cause, idempotency.ErrUnresolved) {
		idempotencyhttp.SetKeep(ctx, idempotencyhttp.Failed)
		rt.metrics.upstream.WithLabelValues(rt.Path, failureLate).Inc()
		rt.log.ErrorContext(ctx, "a request came again after the upstream's window; it is not sent again, its key is held", "route", rt.Path, "upstream", rt.Upstream.Host, "window", rt.UpstreamWindow)
		idempotencyhttp.WriteProblem(w, idempotencyhttp.ProblemOf(idempotency.ErrUnresolved))
		return
	}
	idempotencyhttp.SetKeep(ctx, idempotencyhttp.Freed)
	rt.log.WarnContext(ctx, "a request could not be written down before it was sent; nothing was sent", "route", rt.Path, "error", cause)
	if !errors.Is(cause, idempotency.ErrSealed) && !errors.Is(cause, idempotency.ErrLost) {
		cause = &idempotency.UnavailableError{Cause: cause}
	}
	idempotencyhttp.WriteProblem(w, idempotencyhttp.ProblemOf(cause))
}
