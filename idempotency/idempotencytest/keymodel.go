package idempotencytest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/idempotency"
)

// keyState is what one key may be, as far as the calls so far tell. It is never changed, only replaced.
type keyState struct {
	exists bool
	KeyRecord

	// tokenLeast is a bound of Token, where that is not known (zero), and of what it may ever be again.
	tokenLeast int64

	// A claim in flight has not expired before from, and has at until, by the model's clock.
	from, until int64
}

// KeyModel is what a store may do about one key, for history.Check: the contract of idempotency.Store, and of
// Resolve, written down as a sequential object. It has no sweeps, no windows and no transactions.
//
// Whether a claim has expired is not a matter of order but of time, which the model takes from the stamps of
// the calls: a claim may have expired from its lease after its call on, and must have at its lease after its
// return. slack is how far the clock of the stamps and the store's may drift apart within a history; zero for
// a clock that the test moves.
func KeyModel(slack time.Duration) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{keyState{}} },
		Step: func(state, input, output any) []any {
			return step(state.(keyState), keyMove{input.(KeyCall), output, slack.Nanoseconds()})
		},
		Equal: func(a, b any) bool { return a.(keyState).equal(b.(keyState)) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v → %+v", input, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}

func (s keyState) equal(o keyState) bool {
	return s.exists == o.exists && s.State == o.State && s.Token == o.Token && s.tokenLeast == o.tokenLeast &&
		s.from == o.from && s.until == o.until && s.Attempt == o.Attempt && s.Fingerprint == o.Fingerprint &&
		s.Resume == o.Resume && s.Expired == o.Expired && s.Answer == o.Answer && slices.Equal(s.Steps, o.Steps)
}

// keyMove is a call, and its answer if that is known.
type keyMove struct {
	KeyCall
	output any
	slack  int64
}

// answer is what the caller was told; known is false when nobody was told anything.
func (m keyMove) answer() (a KeyAnswer, known bool) {
	a, known = m.output.(KeyAnswer)
	return a, known
}

// told says that the answer may be one of these.
func (m keyMove) told(any ...string) bool {
	a, known := m.answer()
	return !known || slices.Contains(any, a.Told)
}

// end is when the call was over, by the model's clock.
func (m keyMove) end() int64 {
	if a, known := m.answer(); known {
		return a.At
	}
	return math.MaxInt64
}

// after is t and d later, without an overflow.
func after(t int64, d time.Duration) int64 {
	if t > math.MaxInt64-d.Nanoseconds() {
		return math.MaxInt64
	}
	return t + d.Nanoseconds()
}

// step returns what the key may be after the call.
func step(s keyState, m keyMove) []any {
	var next []any
	for _, view := range s.views(m) {
		for _, became := range view.do(m) {
			became.Expired = false // a matter of the moment
			next = append(next, became)
		}
	}
	return next
}

func (s keyState) do(m keyMove) []keyState {
	switch m.Do {
	case "claim":
		return s.claim(m)
	case "renew":
		return s.renew(m)
	case "complete":
		return s.complete(m)
	case "step":
		return s.saveStep(m)
	case "find":
		return s.find(m)
	case "resolve":
		return s.resolve(m)
	default:
		return nil
	}
}

// views are the key with and without its claim expired at the moment of the call, as far as both may be.
func (s keyState) views(m keyMove) []keyState {
	if !s.exists || s.State != idempotency.InFlight {
		return []keyState{s}
	}
	var views []keyState
	if m.At < after(s.until, time.Duration(m.slack)) {
		live := s
		live.from = max(s.from, m.At)
		views = append(views, live)
	}
	if m.end() >= s.from-m.slack {
		expired := s
		expired.Expired, expired.until = true, min(s.until, m.end())
		views = append(views, expired)
	}
	return views
}

// owned says that the claim may be the owner's, and then returns the key with the token that it has.
func (s keyState) owned(m keyMove) (keyState, bool) {
	if !s.exists || s.Attempt == "" || s.Attempt != m.Attempt {
		return s, false
	}
	return s.withToken(m.Token)
}

// withToken says that the key may have the token, and then returns the key that has it.
func (s keyState) withToken(token int64) (keyState, bool) {
	if s.Token == 0 && token >= s.tokenLeast {
		s.Token, s.tokenLeast = token, token
	}
	return s, s.Token == token
}

// shows says that the answer may be the key's record, and then returns the key with the token that it has.
func (s keyState) shows(got KeyRecord, steps bool) (keyState, bool) {
	s, ok := s.withToken(got.Token)
	same := got.State == s.State && got.Attempt == s.Attempt && got.Fingerprint == s.Fingerprint &&
		got.Resume == s.Resume && got.Answer == s.Answer && got.Expired == s.Expired
	return s, ok && same && (!steps || slices.Equal(got.Steps, s.Steps))
}

// claim: a key that is new or free goes to whoever comes, and an expired claim on resumable work to whoever may
// resume it. An attempt that asks again has what it won. Everyone else is told what is there.
func (s keyState) claim(m keyMove) []keyState {
	same := matches(m.Fingerprint, s.Fingerprint)
	own := s.exists && s.Attempt == m.Attempt
	switch {
	case own && same && s.State == idempotency.InFlight && !s.Expired:
		return s.tell(m, "won", true)
	case !s.exists,
		!own && s.State == idempotency.Free,
		!own && same && s.State == idempotency.InFlight && s.Expired && s.Resume && m.Resume:
		return s.taken(m)
	default:
		return s.tell(m, "lost", false)
	}
}

// matches says that two fingerprints are of one intent, or of two versions.
func matches(a, b string) bool { return a == b || len(a) > 1 && len(b) > 1 && a[:2] != b[:2] }

// tell leaves the key as it is, and shows it.
func (s keyState) tell(m keyMove, as string, steps bool) []keyState {
	a, known := m.answer()
	if !known {
		return []keyState{s}
	}
	s, ok := s.shows(a.Record, steps)
	if !ok || a.Told != as {
		return nil
	}
	return []keyState{s}
}

// taken is the key of a new owner, with a higher token and the steps that are there.
func (s keyState) taken(m keyMove) []keyState {
	won := keyState{
		exists: true, tokenLeast: s.tokenLeast + 1, from: after(m.At, m.Lease), until: after(m.end(), m.Lease),
		KeyRecord: KeyRecord{
			State: idempotency.InFlight, Attempt: m.Attempt, Fingerprint: m.Fingerprint, Resume: m.Resume, Steps: s.Steps,
		},
	}
	a, known := m.answer()
	if !known {
		return []keyState{won}
	}
	won.Expired = a.Record.Expired // a short lease may be over before the answer is made
	won, ok := won.shows(a.Record, true)
	if !ok || a.Told != "won" {
		return nil
	}
	return []keyState{won}
}

// renew moves the expiry of its owner's claim that has not expired.
func (s keyState) renew(m keyMove) []keyState {
	was := s
	s, mine := s.owned(m)
	switch {
	case mine && s.State == idempotency.InFlight && !s.Expired:
		if !m.told("ok") {
			return nil
		}
		s.from, s.until = after(m.At, m.Lease), after(m.end(), m.Lease)
		return []keyState{s}
	case mine && (s.State == idempotency.InFlight || s.State == idempotency.Unknown):
		return s.when(m.told("expired"))
	case mine: // ended by the owner itself
		return s.when(m.told("superseded", "expired"))
	default:
		return was.when(m.told("superseded"))
	}
}

// when is the key as it is, if that may be.
func (s keyState) when(possible bool) []keyState {
	if !possible {
		return nil
	}
	return []keyState{s}
}

// complete ends its owner's claim, expired or not; what was said before counts as success.
func (s keyState) complete(m keyMove) []keyState {
	was := s
	s, mine := s.owned(m)
	switch {
	case !mine:
		return was.when(m.told("superseded"))
	case s.State == m.State && m.State != idempotency.InFlight:
		return s.when(m.told("ok"))
	case s.State != idempotency.InFlight && s.State != idempotency.Unknown:
		return s.when(m.told("superseded"))
	case !m.told("ok"):
		return nil
	}
	s.State, s.Answer = m.State, m.Answer
	if m.State == idempotency.InFlight { // let go: expired from now on, unless it was already
		s.from, s.until = min(s.from, m.At), min(s.until, m.end())
	}
	return []keyState{s}
}

// saveStep writes one step of its owner's claim in flight. One without a result never replaces a result.
func (s keyState) saveStep(m keyMove) []keyState {
	was := s
	s, mine := s.owned(m)
	if !mine || s.State != idempotency.InFlight {
		return was.when(m.told("superseded"))
	}
	if !m.told("ok") {
		return nil
	}
	s.Steps = slices.Clone(s.Steps)
	i := slices.IndexFunc(s.Steps, func(k KeyStep) bool { return k.Name == m.Step.Name })
	switch {
	case i < 0:
		s.Steps = append(s.Steps, m.Step)
	case m.Step.Result != "" || s.Steps[i].Result == "":
		s.Steps[i] = m.Step
	}
	return []keyState{s}
}

// find shows the record.
func (s keyState) find(m keyMove) []keyState {
	if !s.exists {
		return s.when(m.told("not found"))
	}
	return s.tell(m, "found", true)
}

// resolve decides a key that is unknown, or in flight and expired, on the condition of its token.
func (s keyState) resolve(m keyMove) []keyState {
	if !s.exists {
		return s.when(m.told("not found"))
	}
	decided := s
	open := s.State == idempotency.Unknown || s.State == idempotency.InFlight && s.Expired
	if open && m.Token != 0 {
		decided, open = s.withToken(m.Token)
	}
	var next []keyState
	if open && m.told("ok") {
		d := decided
		d.State, d.Answer, d.Attempt = m.State, m.Answer, ""
		d.Token, d.tokenLeast = 0, d.tokenLeast+1
		if m.State == idempotency.Free {
			d.Steps = nil
		}
		next = append(next, d)
	}
	// With a token that nobody was told yet, the condition may hold or not.
	if may := !open || m.Token != 0 && s.Token == 0; may && m.told("decided") {
		next = append(next, s)
	}
	return next
}
