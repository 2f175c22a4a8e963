package inventorytest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/inventory"
)

// timedState is all that one SKU may be, since nobody knows to the second when a call was decided.
type timedState []stockState

// TimedModel is Model for a store with a real clock, of calls that a Client has Stamped: each was decided in some
// second between its stamps, and later ones not in an earlier second. slack is how far the clock of the stamps and
// the store's may be apart. Times of holds are whole seconds. A look, which takes no lock, may be of any second
// between its stamps. There is no call "pass" in it. until is when the last answer came: see LastAnswer. Make histories Dated before.
func TimedModel(until time.Time, slack time.Duration) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return timedState{{}} },
		Step: func(state, input, output any) (bool, any) {
			call := input.(Call)
			told, known := output.(Told)
			if known && told.Answer == "failed" {
				return true, state
			}
			first, last := call.At-int64(slack), until.UnixNano()+int64(slack)
			if known {
				last = told.At + int64(slack)
			}
			if call.On != 0 && (call.On < first || call.On > last) {
				return false, state
			}
			from, to := secondOf(first), secondOf(last)
			call.At, told.At = 0, 0
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
	if c.On != 0 {
		on := secondOf(c.On)
		if on < first {
			return next
		}
		first, to = on, on
	}
	for second := first; second <= to; second += time.Second {
		for _, now := range moments(c, second, from) {
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

// moments stand for those of a second in which a call may have been decided: the known one, or else one within it,
// and the very first one if that may have been, since a hold that is made then expires a whole second earlier.
func moments(c Call, second, from time.Duration) []time.Duration {
	switch {
	case c.On != 0 && time.Duration(c.On) > second:
		return []time.Duration{time.Duration(c.On)}
	case c.On == 0 && second == from:
		return []time.Duration{second + 1}
	default:
		return []time.Duration{second + 1, second}
	}
}

// Dated is h with the moment of each call that is known to have made, confirmed or released a hold, as the store
// remembers it. It spares the check a guess at every second of a call that took several. A call that can't have
// been then is not explained by any order.
func Dated(ctx context.Context, h History, ledger inventory.LedgerStore) (History, error) {
	dated := h
	dated.Operations = slices.Clone(h.Operations)
	whats := map[string]string{"reserve": "reserved", "confirm": "confirmed", "release": "released"}
	logs := map[string][]inventory.Entry{}
	for i, op := range dated.Operations {
		what := whats[op.Input.Do]
		if what == "" || op.Unknown() || op.Output.Answer != "yes" || op.Output.Replayed {
			continue
		}
		if _, known := logs[op.Input.ID]; !known {
			log, err := ledger.History(ctx, op.Input.ID)
			if err != nil {
				return h, fmt.Errorf("hold %s, which somebody was told of: %w", op.Input.ID, err)
			}
			logs[op.Input.ID] = log
		}
		for _, e := range logs[op.Input.ID] {
			if e.What == what {
				dated.Operations[i].Input.On = e.At.UnixNano()
			}
		}
	}
	return dated, nil
}

func (t timedState) has(s stockState) bool { return slices.ContainsFunc(t, s.equal) }
