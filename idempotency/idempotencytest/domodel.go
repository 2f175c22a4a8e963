package idempotencytest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// What a key may be for those who call Keys. A key that is sought may be claimed by a call that got no reply,
// whose function never ran: it will be free, or unresolved.
const (
	isNew        = "new"
	isRunning    = "running"
	isDone       = "done"
	isFree       = "free"
	isUnresolved = "unresolved"
	isSought     = "sought"
)

// doState is one key of DoModel. It is comparable, and never changed, only replaced.
type doState struct {
	is          string
	fingerprint string
	resume      bool
	answer      string
	token       int64 // of the latest run; a later one has a higher token

	from int64 // a run has not lost its lease before this, by the model's clock
}

// DoModel is what Do, DoSteps and operators may do about one key, for history.Check: the function runs for one
// caller at a time, and not again once it may have happened; all are told one answer.
//
// A heartbeat is not recorded, so a run that the model has seen no end of may hold its lease or have lost it
// at any time from its first lease on; before, it has not. slack is as for KeyModel. It has no sweeps, no
// erased answers and no transactions.
func DoModel(slack time.Duration) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{doState{is: isNew}} },
		Step: func(state, input, output any) []any {
			var next []any
			move := doMove{call: input.(DoCall), slack: slack.Nanoseconds()}
			move.got, move.known = output.(DoAnswer)
			for _, s := range state.(doState).do(move) {
				next = append(next, s)
			}
			return next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}

// doMove is a call and what it was told, if that is known.
type doMove struct {
	call  DoCall
	got   DoAnswer
	known bool
	slack int64
}

func (m doMove) told(what ...string) bool { return !m.known || slices.Contains(what, m.got.Told) }

func (m doMove) ended() int64 {
	if m.known {
		return m.got.At
	}
	return math.MaxInt64
}

func (s doState) do(m doMove) []doState {
	switch m.call.Do {
	case "ask":
		return s.ask(m)
	case "end":
		return s.end(m)
	case "resolve":
		return s.resolve(m)
	default:
		return nil
	}
}

// mayHaveLost says that the lease of a run may be over.
func (s doState) mayHaveLost(m doMove) bool { return m.ended() >= s.from-m.slack }

// ask: who comes first runs; everyone else is told what is there.
func (s doState) ask(m doMove) []doState {
	var next []doState
	same := matches(m.call.Fingerprint, s.fingerprint)
	open := s.is == isNew || s.is == isFree || s.is == isSought ||
		s.is == isRunning && s.resume && m.call.Resume && same && s.mayHaveLost(m)
	switch {
	case open && !m.known:
		sought := s
		sought.is, sought.fingerprint = isSought, m.call.Fingerprint
		return []doState{s, sought}
	case open && m.got.Told == "ran" && m.got.Token > s.token:
		return []doState{{
			is: isRunning, fingerprint: m.call.Fingerprint, resume: m.call.Resume, token: m.got.Token,
			from: after(m.call.At, time.Duration(m.call.Lease)),
		}}
	case !m.known:
		return []doState{s}
	}
	if s.is != isNew && s.is != isFree && s.tells(m, same) {
		next = append(next, s)
	}
	return next
}

// tells says whether one that may not run is told so.
func (s doState) tells(m doMove, same bool) bool {
	if !same {
		return m.got.Told == "mismatch"
	}
	switch m.got.Told {
	case "replay":
		return s.is == isDone && s.answer == m.got.Answer
	case "unresolved":
		return s.is == isUnresolved || s.is == isSought || s.is == isRunning && !s.resume && s.mayHaveLost(m)
	case "in flight":
		return s.is == isRunning || s.is == isSought
	default:
		return false
	}
}

// end: the run that is the latest decides, and no other.
func (s doState) end(m doMove) []doState {
	if mine := s.is == isRunning && s.token == m.call.Token; !mine {
		// It may learn of its own failure too.
		if m.told("superseded") || m.call.Failed && m.got.Told == "unresolved" ||
			m.got.Told == "replay" && s.is == isDone && s.answer == m.got.Answer ||
			m.got.Told == "mismatch" && s.is == isDone && !matches(m.call.Fingerprint, s.fingerprint) {
			return []doState{s}
		}
		return nil
	}
	var next []doState
	become := func(is, answer string) {
		s := s
		s.is, s.answer = is, answer
		next = append(next, s)
	}
	if m.known && m.got.Told == "stored" {
		become(isDone, m.got.Answer)
	}
	if !m.known && !m.call.Failed {
		become(isDone, m.call.Answer)
	}
	if m.call.Failed && m.told("unresolved") {
		become(isUnresolved, "")
	}
	if m.call.Failed && m.told("failed") {
		become(isFree, "")
	}
	if m.call.Failed && s.resume && m.told("failed", "superseded") { // let go, perhaps since it had lost its lease
		let := s
		let.from = min(s.from, m.call.At)
		next = append(next, let)
	}
	if !m.known {
		next = append(next, s)
	}
	return next
}

// resolve decides what is unresolved, or a run that has lost its lease.
func (s doState) resolve(m doMove) []doState {
	var next []doState
	open := s.is == isUnresolved || s.is == isSought || s.is == isRunning && s.mayHaveLost(m)
	if open && (m.call.Token == 0 || m.call.Token == s.token || s.is == isSought) && m.told("ok") {
		d := s
		d.is, d.answer, d.token = isFree, "", s.token+1
		if m.call.Answer != "" {
			d.is, d.answer = isDone, m.call.Answer
		}
		next = append(next, d)
	}
	if m.told("decided") && s.is != isNew || m.told("not found") && (s.is == isNew || s.is == isSought) {
		next = append(next, s)
	}
	return next
}
