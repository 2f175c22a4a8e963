package idempotencytest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/idempotency"
)

// KeyCall is one call of a store about one key, as a history keeps it. At is a reading of the model's clock
// from before the call, in nanoseconds.
type KeyCall struct {
	Do          string            `json:"do"` // claim, renew, complete, step, find or resolve
	At          int64             `json:"at"`
	Attempt     string            `json:"attempt,omitempty"`
	Token       int64             `json:"token,omitempty"` // of the claim; of a decision, zero for any
	Fingerprint string            `json:"fingerprint,omitempty"`
	Resume      bool              `json:"resume,omitempty"`
	Lease       time.Duration     `json:"lease,omitempty"`
	State       idempotency.State `json:"state,omitempty"` // that a completion or a decision asks for
	Answer      string            `json:"answer,omitempty"`
	Step        KeyStep           `json:"step,omitzero"`
}

// KeyAnswer is what the caller was told. At is a reading of the model's clock from after the call.
type KeyAnswer struct {
	Told   string    `json:"told"` // won, lost, ok, expired, superseded, found, not found or decided
	At     int64     `json:"at"`
	Record KeyRecord `json:"record,omitzero"` // of a claim, and of what was found
}

// KeyRecord is what an answer shows of a record.
type KeyRecord struct {
	State       idempotency.State `json:"state"`
	Token       int64             `json:"token"`
	Attempt     string            `json:"attempt,omitempty"`
	Fingerprint string            `json:"fingerprint,omitempty"`
	Resume      bool              `json:"resume,omitempty"`
	Expired     bool              `json:"expired,omitempty"`
	Answer      string            `json:"answer,omitempty"`
	Steps       []KeyStep         `json:"steps,omitempty"`
}

// KeyStep is a step of a record.
type KeyStep struct {
	Name   string `json:"name,omitempty"`
	Sent   bool   `json:"sent,omitempty"`
	Result string `json:"result,omitempty"`
}

// KeyRecorder records calls of stores.
type KeyRecorder = history.Recorder[KeyCall, KeyAnswer]

// KeyHistory is what a KeyRecorder recorded.
type KeyHistory = history.History[KeyCall, KeyAnswer]

func answerText(r idempotency.Response) string {
	if r.Status == 0 && len(r.Body) == 0 && len(r.Header) == 0 && !r.NotReplayable {
		return ""
	}
	return fmt.Sprintf("%d %q %v %v", r.Status, r.Body, r.Header, r.NotReplayable)
}

func stepOf(s idempotency.StepRecord) KeyStep {
	return KeyStep{Name: s.Name, Sent: s.Sent, Result: string(s.Result)}
}

func recordOf(r idempotency.Record) KeyRecord {
	rec := KeyRecord{
		State: r.State, Token: r.Token, Attempt: r.Attempt, Fingerprint: r.Request.Fingerprint.String(),
		Resume: r.Resume, Expired: r.Expired(), Answer: answerText(r.Response),
	}
	for _, s := range r.Steps {
		rec.Steps = append(rec.Steps, stepOf(s))
	}
	return rec
}

// RecordedStore is a store whose calls are recorded, for one client of it. It is as safe for concurrent use as
// the store. It records what a single caller may know: an error that is a fifty.ErrUnknownOutcome leaves the
// outcome of a write open, and by the contract any other error means that nothing changed.
type RecordedStore struct {
	idempotency.Store
	rec    *KeyRecorder
	client int
	now    func() int64
}

// Recorded makes a RecordedStore. now is the model's clock: it need not be the store's, but must run at the
// same speed. Nil is history.Now, for a store with a real clock.
func Recorded(store idempotency.Store, rec *KeyRecorder, client int, now func() int64) *RecordedStore {
	if now == nil {
		now = history.Now
	}
	return &RecordedStore{store, rec, client, now}
}

// KeyName is how histories name a key.
func KeyName(scope, key string) string { return fmt.Sprintf("%q %q", scope, key) }

func (s *RecordedStore) begin(scope, key string, c KeyCall) *history.Pending[KeyCall, KeyAnswer] {
	c.At = s.now()
	return s.rec.Begin(s.client, KeyName(scope, key), c)
}

// failed records a call that returned err, and says whether it did.
func failed(p *history.Pending[KeyCall, KeyAnswer], err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, fifty.ErrUnknownOutcome):
		p.Unknown()
	default:
		p.Drop()
	}
	return true
}

// written records what an owner was told of a renewal, a completion or a step.
func (s *RecordedStore) written(p *history.Pending[KeyCall, KeyAnswer], err error) {
	if lost, ok := errors.AsType[*idempotency.LostError](err); ok {
		told := "expired"
		if lost.Superseded {
			told = "superseded"
		}
		p.End(KeyAnswer{Told: told, At: s.now()})
	} else if !failed(p, err) {
		p.End(KeyAnswer{Told: "ok", At: s.now()})
	}
}

// Claim records a call for each attempt.
func (s *RecordedStore) Claim(ctx context.Context, attempts []idempotency.Attempt) ([]idempotency.Claimed, error) {
	calls := make([]*history.Pending[KeyCall, KeyAnswer], len(attempts))
	for i, a := range attempts {
		calls[i] = s.begin(a.Request.Scope, a.Request.Key, KeyCall{
			Do: "claim", Attempt: a.ID, Fingerprint: a.Request.Fingerprint.String(), Resume: a.Resume, Lease: a.Lease,
		})
	}
	all, err := s.Store.Claim(ctx, attempts)
	for i, p := range calls {
		if failed(p, err) || failed(p, all[i].Err) {
			continue
		}
		told := "lost"
		if all[i].Won {
			told = "won"
		}
		p.End(KeyAnswer{Told: told, At: s.now(), Record: recordOf(all[i].Record)})
	}
	return all, err
}

// Renew records a call for each claim.
func (s *RecordedStore) Renew(ctx context.Context, claims []idempotency.Claim, lease time.Duration) ([]error, error) {
	calls := make([]*history.Pending[KeyCall, KeyAnswer], len(claims))
	for i, c := range claims {
		calls[i] = s.begin(c.Scope, c.Key, KeyCall{Do: "renew", Attempt: c.Attempt, Token: c.Token, Lease: lease})
	}
	all, err := s.Store.Renew(ctx, claims, lease)
	for i, p := range calls {
		if !failed(p, err) {
			s.written(p, all[i])
		}
	}
	return all, err
}

// Complete records a call for each completion.
func (s *RecordedStore) Complete(ctx context.Context, completions []idempotency.Completion) ([]error, error) {
	calls := make([]*history.Pending[KeyCall, KeyAnswer], len(completions))
	for i, c := range completions {
		calls[i] = s.begin(c.Claim.Scope, c.Claim.Key, KeyCall{
			Do: "complete", Attempt: c.Claim.Attempt, Token: c.Claim.Token, State: c.State, Answer: answerText(c.Response),
		})
	}
	all, err := s.Store.Complete(ctx, completions)
	for i, p := range calls {
		if !failed(p, err) {
			s.written(p, all[i])
		}
	}
	return all, err
}

// SaveStep records a call.
func (s *RecordedStore) SaveStep(ctx context.Context, c idempotency.Claim, step idempotency.StepRecord) error {
	p := s.begin(c.Scope, c.Key, KeyCall{Do: "step", Attempt: c.Attempt, Token: c.Token, Step: stepOf(step)})
	err := s.Store.SaveStep(ctx, c, step)
	s.written(p, err)
	return err
}

// Find records a call.
func (s *RecordedStore) Find(ctx context.Context, scope, key string) (idempotency.Record, error) {
	p := s.begin(scope, key, KeyCall{Do: "find"})
	rec, err := s.Store.Find(ctx, scope, key)
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		p.End(KeyAnswer{Told: "not found", At: s.now()})
	case err != nil:
		p.Drop()
	default:
		p.End(KeyAnswer{Told: "found", At: s.now(), Record: recordOf(rec)})
	}
	return rec, err
}

// Resolve records an operator's decision; the store must be an idempotency.OperatorStore.
func (s *RecordedStore) Resolve(ctx context.Context, r idempotency.Resolution) error {
	c := KeyCall{Do: "resolve", Token: r.Token, State: idempotency.Free}
	if r.Response != nil {
		c.State, c.Answer = idempotency.Done, answerText(*r.Response)
	}
	p := s.begin(r.Scope, r.Key, c)
	err := s.Store.(idempotency.OperatorStore).Resolve(ctx, r)
	switch {
	case errors.Is(err, idempotency.ErrNotFound):
		p.End(KeyAnswer{Told: "not found", At: s.now()})
	case errors.Is(err, idempotency.ErrDecided):
		p.End(KeyAnswer{Told: "decided", At: s.now()})
	case !failed(p, err):
		p.End(KeyAnswer{Told: "ok", At: s.now()})
	}
	return err
}
