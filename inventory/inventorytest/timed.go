package inventorytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/faults/history"
)

// timedState is all that one SKU may be, since nobody knows to the second when a call was decided.
type timedState []stockState

// TimedModel is Model for a store with a real clock, of calls that a Client has Stamped: each was decided in some
// second between its stamps, and later ones not in an earlier second. slack is how far the clock of the stamps and
// the store's may be apart. Times of holds are whole seconds. A look, which takes no lock, may be of any second
// between its stamps. There is no call "pass" in it. until is when the last answer came: see LastAnswer.
func TimedModel(until time.Time, slack time.Duration) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return timedState{{}} },
		Step: func(state, input, output any) (bool, any) {
			call, from, to := input.(Call), secondOf(input.(Call).At-int64(slack)), secondOf(until.UnixNano()+int64(slack))
			call.At = 0
			told, known := output.(Told)
			if known {
				to = secondOf(told.At + int64(slack))
				told.At = 0
			}
			if known && told.Answer == "failed" {
				return true, state
			}
			var next timedState
			for _, s := range state.(timedState) {
				if !known {
					to = max(to, s.now) // a step that nobody was told of is possible always
				}
				next = s.within(next, call, from, to, func(want Told) bool { return !known || told == want })
			}
			return len(next) > 0, next
		},
		Equal: func(a, b any) bool {
			x, y := a.(timedState), b.(timedState)
			return len(x) == len(y) && !slices.ContainsFunc(x, func(s stockState) bool { return !y.has(s) })
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// LastAnswer is when the last caller of a history was told something.
func LastAnswer(h History) time.Time {
	var last int64
	for _, op := range h.Operations {
		if op.Return != history.Forever {
			last = max(last, op.Output.At)
		}
	}
	return time.Unix(0, last)
}

func secondOf(nanoseconds int64) time.Duration {
	return time.Duration(nanoseconds).Truncate(time.Second)
}

// within adds to next what the SKU may be after a call that was decided in one of the seconds from from to to, and
// whose answer may be what told says yes to.
func (s stockState) within(next timedState, c Call, from, to time.Duration, told func(Told) bool) timedState {
	first := from
	if c.Do != "look" {
		first = max(from, s.now)
	}
	for second := first; second <= to; second += time.Second {
		// A moment within the second, and the very first one if that may have been: a hold that is made then expires
		// a whole second earlier.
		for _, now := range []time.Duration{second + 1, second} {
			if now == from {
				continue
			}
			n := s.clone()
			n.now = now
			want, ok := n.do(c)
			if !ok || !told(want) {
				continue
			}
			n.now = second
			if c.Do == "look" {
				n = s
			}
			if !next.has(n) {
				next = append(next, n)
			}
		}
	}
	return next
}

func (t timedState) has(s stockState) bool { return slices.ContainsFunc(t, s.equal) }
