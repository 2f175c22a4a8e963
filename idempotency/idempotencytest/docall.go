package idempotencytest

import (
	"context"
	"errors"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/idempotency"
)

// DoCall is a part of Do or DoSteps about one key, as a history keeps it: "ask" lasts from the call until its
// function starts, or until the call returns without it; "end" from the function's return until the call's.
// "resolve" is an operator's decision.
type DoCall struct {
	Do          string `json:"do"`
	At          int64  `json:"at"` // the model's clock before it, in nanoseconds
	Fingerprint string `json:"fingerprint,omitempty"`
	Resume      bool   `json:"resume,omitempty"` // DoSteps
	Lease       int64  `json:"lease,omitempty"`  // of the Keys, in nanoseconds
	Token       int64  `json:"token,omitempty"`  // of the run that ends; of a decision, zero for any
	Answer      string `json:"answer,omitempty"` // that the function or the operator gave, if any
	Failed      bool   `json:"failed,omitempty"` // the function returned an error
}

// DoAnswer is what came of it. Told is, of an ask: ran, replay, in flight, mismatch or unresolved; of an end:
// stored, replay (decided by another), mismatch (by another intent), superseded, unresolved or failed; of a decision: ok, decided or not
// found.
type DoAnswer struct {
	Told   string `json:"told"`
	At     int64  `json:"at"`
	Token  int64  `json:"token,omitempty"`  // of a run
	Answer string `json:"answer,omitempty"` // of one that is stored or replayed
}

// DoRecorder records calls of Keys.
type DoRecorder = history.Recorder[DoCall, DoAnswer]

// DoHistory is what a DoRecorder recorded.
type DoHistory = history.History[DoCall, DoAnswer]

type doPending = history.Pending[DoCall, DoAnswer]

// RecordedKeys is a Keys whose calls are recorded, for one client of it. It is safe for concurrent use.
type RecordedKeys struct {
	keys   *idempotency.Keys
	cfg    idempotency.Config
	rec    *DoRecorder
	client int
	now    func() int64
}

// RecordedDo makes a RecordedKeys over a store; cfg must have a Lease. now is as for Recorded.
func RecordedDo(store idempotency.Store, cfg idempotency.Config, rec *DoRecorder, client int, now func() int64) *RecordedKeys {
	if now == nil {
		now = history.Now
	}
	return &RecordedKeys{idempotency.New(store, cfg), cfg, rec, client, now}
}

// doRun is one call on its way: first its ask is pending, and then, if its function ran, its end.
type doRun struct {
	k       *RecordedKeys
	req     idempotency.Request
	pending *doPending
	ran     bool
}

func (k *RecordedKeys) begin(req idempotency.Request, c DoCall) *doPending {
	c.At = k.now()
	return k.rec.Begin(k.client, KeyName(req.Scope, req.Key), c)
}

func (k *RecordedKeys) ask(req idempotency.Request, resume bool) *doRun {
	return &doRun{k: k, req: req, pending: k.begin(req, DoCall{
		Do: "ask", Fingerprint: req.Fingerprint.String(), Resume: resume, Lease: k.cfg.Lease.Nanoseconds(),
	})}
}

// around runs the function between the end of the ask and the beginning of the end. What becomes of one that
// panics stays unknown.
func (r *doRun) around(ctx context.Context, fn func() (idempotency.Response, error)) (idempotency.Response, error) {
	token, _ := idempotency.TokenFrom(ctx)
	r.pending.End(DoAnswer{Told: "ran", At: r.k.now(), Token: token})
	r.ran = true
	end := DoCall{Do: "end", Fingerprint: r.req.Fingerprint.String(), Token: token, Failed: true} // unless it returns
	defer func() { r.pending = r.k.begin(r.req, end) }()
	response, err := fn()
	if end.Failed = err != nil; !end.Failed {
		end.Answer = answerText(response)
	}
	return response, err
}

// returned records what the call came to.
func (r *doRun) returned(res idempotency.Result, err error) {
	told := ""
	switch {
	case errors.Is(err, fifty.ErrUnknownOutcome), errors.Is(err, idempotency.ErrUnavailable):
		r.pending.Unknown()
		return
	case err == nil && res.Replayed, errors.Is(err, idempotency.ErrNotReplayable):
		told = "replay"
	case err == nil:
		told = "stored"
	case errors.Is(err, idempotency.ErrUnresolved):
		told = "unresolved"
	case errors.Is(err, idempotency.ErrLost):
		told = "superseded"
	case errors.Is(err, idempotency.ErrMismatch):
		told = "mismatch"
	case r.ran:
		told = "failed"
	case errors.Is(err, idempotency.ErrInFlight):
		told = "in flight"
	default: // refused before anything was asked
		r.pending.Drop()
		return
	}
	r.pending.End(DoAnswer{Told: told, At: r.k.now(), Answer: answerText(res.Response)})
}

// Do is that of idempotency.Keys, recorded.
func (k *RecordedKeys) Do(
	ctx context.Context, req idempotency.Request, fn func(ctx context.Context) (idempotency.Response, error),
) (idempotency.Result, error) {
	r := k.ask(req, false)
	res, err := k.keys.Do(ctx, req, func(ctx context.Context) (idempotency.Response, error) {
		return r.around(ctx, func() (idempotency.Response, error) { return fn(ctx) })
	})
	r.returned(res, err)
	return res, err
}

// DoSteps is that of idempotency.Keys, recorded.
func (k *RecordedKeys) DoSteps(
	ctx context.Context, req idempotency.Request,
	fn func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error),
) (idempotency.Result, error) {
	r := k.ask(req, true)
	res, err := k.keys.DoSteps(ctx, req, func(ctx context.Context, s *idempotency.Steps) (idempotency.Response, error) {
		return r.around(ctx, func() (idempotency.Response, error) { return fn(ctx, s) })
	})
	r.returned(res, err)
	return res, err
}

// Resolve is that of idempotency.Operator, recorded.
func (k *RecordedKeys) Resolve(ctx context.Context, operator *idempotency.Operator, r idempotency.Resolution) error {
	c := DoCall{Do: "resolve", Token: r.Token}
	if r.Response != nil {
		c.Answer = answerText(*r.Response)
	}
	p := k.begin(idempotency.Request{Scope: r.Scope, Key: r.Key}, c)
	err := operator.Resolve(ctx, r)
	told := "ok"
	switch {
	case errors.Is(err, idempotency.ErrDecided):
		told = "decided"
	case errors.Is(err, idempotency.ErrNotFound):
		told = "not found"
	case errors.Is(err, fifty.ErrUnknownOutcome):
		p.Unknown()
		return err
	case err != nil:
		p.Drop()
		return err
	}
	p.End(DoAnswer{Told: told, At: k.now()})
	return err
}
