package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/retry"
)

// Bounds of a request's steps.
const (
	StepsMax    = 100 // per request
	StepNameMax = 100 // bytes
)

// Steps is the work of one request, cut where it may be resumed. It belongs to one run of the function that
// DoSteps calls and is not for concurrent use.
type Steps struct {
	keys  *Keys
	ctx   context.Context // the work's values; saving a step is never cancelled
	rec   Record
	beat  *beat
	sent  time.Time             // when this run's claim went out
	known map[string]StepRecord // what earlier runs left
	begun map[string]bool       // in this run
	held  *heldError            // by a step whose outcome nobody can tell
}

// Step runs fn as one step of a request and keeps its result: when the request is resumed later, perhaps on
// another host, fn is skipped and the result comes back. Give each step of a request a name of its own.
//
// fn gets a key that is the same for every run of this step of this intent, and must pass it downstream: the
// peer tells a repeat by it. So Step is right only for a peer that does; for another, see StepOnce. T goes
// through JSON. On an error of fn nothing is kept and Step returns it. When the claim was lost, fn is not
// started and the error is an ErrLost. When fn succeeded and its result could not be kept, the error is a
// fifty.ErrUnknownOutcome, and the step runs again under the same key when the request is resumed.
func Step[T any](ctx context.Context, s *Steps, name string, fn func(ctx context.Context, key string) (T, error)) (T, error) {
	var zero T
	before, err := s.begin(name)
	if err != nil {
		return zero, err
	}
	if before.done() {
		return decodeStep[T](s, before)
	}
	if err := s.beat.held(); err != nil {
		return zero, err
	}
	v, err := fn(ctx, StepKey(s.rec.Request, name))
	if err != nil {
		return zero, err
	}
	return keepStep(s, name, v)
}

// StepOnce is Step for a peer that can't tell a repeat. That it was sent is written down before send starts,
// so no later run sends it blindly.
//
// When an earlier run sent it and left no result, ask is called to find out from the peer: it returns the
// result and sent = true, or sent = false for certain not there, and then send is called after all. Beware
// of an earlier owner that is only paused: it may send after ask looked. ask closes that gap when its "no"
// is itself a write at the peer that makes the late one fail; otherwise the gap is as long as a pause.
//
// With a nil ask nobody can find out: the request is held, its key becomes unresolved (ErrUnresolved), and an
// operator decides. The same holds when send fails. An error that send marks as NotDone says that nothing
// was sent; the step is then open again.
func StepOnce[T any](
	ctx context.Context, s *Steps, name string,
	send func(ctx context.Context, key string) (T, error),
	ask func(ctx context.Context, key string) (result T, sent bool, err error),
) (T, error) {
	var zero T
	before, err := s.begin(name)
	if err != nil {
		return zero, err
	}
	if before.done() {
		return decodeStep[T](s, before)
	}
	key := StepKey(s.rec.Request, name)
	if before.Sent {
		if ask == nil {
			return zero, s.hold(name, nil)
		}
		v, sent, err := ask(ctx, key)
		if err != nil {
			return zero, err
		}
		if sent {
			return keepStep(s, name, v)
		}
	} else if err := s.save(StepRecord{Name: name, Sent: true}); err != nil {
		return zero, err
	}
	if err := s.beat.held(); err != nil { // writing down took its time
		return zero, errors.Join(err, s.reopen(name, before))
	}
	v, err := send(ctx, key)
	if err == nil {
		return keepStep(s, name, v)
	}
	if _, ok := errors.AsType[*notDoneError](err); ok {
		return zero, errors.Join(err, s.reopen(name, before))
	}
	if ask == nil {
		return zero, s.hold(name, err)
	}
	return zero, err
}

// Age is how long ago the key was first claimed, by whichever owner, within bounds: least is the store's word of
// when this run took it, and most adds this host's time since. Only a host whose clock stands still while it
// sleeps makes most too small. A peer remembers the key of a step for some time only: keep least in a step
// before the first sending, and send again only while most, less that, is below the peer's window.
func (s *Steps) Age() (least, most time.Duration) {
	return s.rec.Age, s.rec.Age + wall.Since(s.sent)
}

// StepKey is the key that a step passes downstream: the same for every run of this step of this intent, on
// any host, and no other's. 43 characters of base64url.
func StepKey(r Request, step string) string {
	sum := sha256.New()
	for _, part := range []string{"fifty step 1", r.Scope, r.Key, step} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:])
		sum.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
}

// begin checks the name of a step and returns what is known of it.
func (s *Steps) begin(name string) (StepRecord, error) {
	const field = "name"
	switch {
	case s.held != nil:
		return StepRecord{}, s.held.unresolved
	case name == "" || len(name) > StepNameMax || ValidateKey(name) != nil:
		return StepRecord{}, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("of a step must be 1 to %d printable ASCII characters", StepNameMax)}
	case s.begun[name]:
		return StepRecord{}, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("%q names a second step of one request; steps are told apart by name", name)}
	case len(s.begun) >= StepsMax:
		return StepRecord{}, &fifty.InvalidError{Field: field, Problem: fmt.Sprintf("%q is one step too many; a request has at most %d", name, StepsMax)}
	}
	s.begun[name] = true
	return s.known[name], nil
}

// hold ends the request as unresolved: what this step did, nobody can tell.
func (s *Steps) hold(name string, cause error) error {
	s.held = &heldError{&UnresolvedError{Request: s.rec.Request, Step: name, Cause: cause}}
	return s.held.unresolved
}

// reopen takes back that a step was sent, unless an earlier run had said so.
func (s *Steps) reopen(name string, before StepRecord) error {
	if before.Sent {
		return nil
	}
	return s.save(StepRecord{Name: name})
}

// save writes a step down, trying again while the store fails. It has the condition of a completion: a late
// owner that nobody superseded still tells what it knows.
func (s *Steps) save(step StepRecord) error {
	k, kept := s.keys, step
	kept.Result = k.cfg.Seal.sealStep(s.rec.Request, step.Name, step.Result)
	err := retry.Do(s.ctx, k.storePolicy(nil), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, k.cfg.StoreMax/2)
		defer cancel()
		return k.store.SaveStep(ctx, s.rec.claim(), kept)
	})
	if err == nil {
		s.known[step.Name] = step
	}
	return err
}

func keepStep[T any](s *Steps, name string, v T) (T, error) {
	var zero T
	text, err := json.Marshal(v)
	if err != nil {
		return zero, fmt.Errorf("idempotency: step %q: its result has no JSON: %w", name, err)
	}
	if most := s.keys.cfg.ResponseMax; len(text) > most {
		return zero, &fifty.InvalidError{Field: "result", Problem: fmt.Sprintf("of step %q has %d bytes of JSON; at most %d can be kept", name, len(text), most)}
	}
	if err := s.save(StepRecord{Name: name, Sent: true, Result: text}); err != nil {
		if isLost(err) {
			return zero, err
		}
		return zero, &completionError{key: s.rec.Request.Key, cause: fmt.Errorf("step %q: %w", name, err)}
	}
	return v, nil
}

func decodeStep[T any](s *Steps, r StepRecord) (T, error) {
	var v T
	text, err := s.keys.cfg.Seal.openStep(s.rec.Request, r.Name, r.Result)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("idempotency: step %q: its kept result does not fit: %w", r.Name, err)
	}
	return v, nil
}

// DoSteps is Do for work that may be resumed. What finished as a Step or StepOnce is not done again; what is
// outside of one may run more than once. After a failure, and after the lease of an owner that vanished, the
// next arrival of the key takes over and goes on behind the last finished step.
//
//   - A Response, Refuse(r): as in Do.
//   - NotDone(err): the key is free and DoSteps returns err; but if a step has finished, as below.
//   - A step that can't be settled (see StepOnce): the key is unresolved.
//   - Any other error, or a panic: the next arrival resumes. DoSteps returns the error.
//
// While an owner is at work a duplicate gets ErrInFlight. An owner whose lease ran out starts no further
// step, and what it sent already runs on; its result counts unless another has taken over, and then it
// answers as that one did.
func (k *Keys) DoSteps(ctx context.Context, req Request, fn func(ctx context.Context, s *Steps) (Response, error)) (Result, error) {
	a := k.attempt(req)
	a.Resume = true
	return k.do(ctx, a, func(o *owner) (Response, error) {
		s := &Steps{
			keys: k, ctx: context.WithoutCancel(ctx), rec: *o.rec, beat: &o.beat, sent: o.sent,
			known: make(map[string]StepRecord, len(o.rec.Steps)), begun: map[string]bool{},
		}
		for _, step := range o.rec.Steps {
			s.known[step.Name] = step
		}
		o.run.steps = s
		r, err := fn(&o.run, s)
		return r, s.outcome(err)
	})
}

// outcome turns what the function returned into what becomes of the key.
func (s *Steps) outcome(err error) error {
	if err == nil {
		return nil
	}
	if s.held != nil {
		return s.held
	}
	if _, ok := errors.AsType[*refusalError](err); ok {
		return err
	}
	if notDone, ok := errors.AsType[*notDoneError](err); ok {
		if !s.anySent() {
			return err
		}
		err = notDone.err
	}
	return &resumableError{err}
}

// anySent says that some step was sent, now or earlier: the key must remember it.
func (s *Steps) anySent() bool {
	for _, step := range s.known {
		if step.Sent {
			return true
		}
	}
	return false
}

// heldError makes the key unresolved because of a step.
type heldError struct{ unresolved *UnresolvedError }

func (e *heldError) Error() string { return e.unresolved.Error() }
func (e *heldError) Unwrap() error { return e.unresolved }

// resumableError lets the claim go, for the next arrival to resume.
type resumableError struct{ err error }

func (e *resumableError) Error() string { return e.err.Error() }
func (e *resumableError) Unwrap() error { return e.err }

type stepsKey struct{}

// StepsFrom returns the steps of the request that a handler works on, where it was started by DoSteps.
func StepsFrom(ctx context.Context) (*Steps, bool) {
	s, ok := ctx.Value(stepsKey{}).(*Steps)
	return s, ok
}
