package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Operation is one call as its caller saw it.
type Operation[In, Out any] struct {
	Client int    // who asked
	Key    string // what it was about; each key is checked by itself
	Call   int64  // a stamp from before it was asked
	Return int64  // one from after it was told; Forever when the outcome is unknown
	Input  In
	Output Out // the zero value when the outcome is unknown
}

// Unknown says that nobody knows whether the operation happened.
func (o Operation[In, Out]) Unknown() bool { return o.Return == Forever }

// History is what was recorded, in the order of the calls.
type History[In, Out any] struct {
	Operations []Operation[In, Out]
	Clock      string // names the clock of the stamps; those of two clocks can't be compared
	Spread     int64  // each stamp may be late by so much, in nanoseconds, beside those of another process
}

// ErrClocks says that stamps can't be compared: the histories come from two hosts or two boots of one, or
// from two processes where these don't share a clock.
var ErrClocks = errors.New("history: the stamps come from different clocks and can't be compared")

// Merge puts the histories of several processes together. Their clients are numbered anew, so that those of
// two processes stay apart, and each call begins earlier by its history's Spread, so that none seems to come
// after another that it may have overlapped. It returns ErrClocks unless all stamps come from one clock.
func Merge[In, Out any](all ...History[In, Out]) (History[In, Out], error) {
	var merged History[In, Out]
	clients := 0
	for i, h := range all {
		if i == 0 {
			merged.Clock = h.Clock
		}
		if h.Clock != merged.Clock {
			return History[In, Out]{}, fmt.Errorf("%w: %q and %q", ErrClocks, merged.Clock, h.Clock)
		}
		number := map[int]int{}
		for _, op := range h.Operations {
			if _, ok := number[op.Client]; !ok {
				number[op.Client] = clients
				clients++
			}
			op.Client = number[op.Client]
			op.Call -= h.Spread
			merged.Operations = append(merged.Operations, op)
		}
	}
	merged.sort()
	return merged, nil
}

func (h History[In, Out]) sort() {
	slices.SortStableFunc(h.Operations, func(a, b Operation[In, Out]) int { return cmp.Compare(a.Call, b.Call) })
}

// byKey are the operations of each key, in the order of the keys.
func (h History[In, Out]) byKey() (keys []string, of map[string][]Operation[In, Out]) {
	of = map[string][]Operation[In, Out]{}
	for _, op := range h.Operations {
		if _, ok := of[op.Key]; !ok {
			keys = append(keys, op.Key)
		}
		of[op.Key] = append(of[op.Key], op)
	}
	slices.Sort(keys)
	return keys, of
}
