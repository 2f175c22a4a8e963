package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/inventory"
)

// Call is one call about one SKU, as a history keeps it.
type Call struct {
	Do    string        `json:"do"` // reserve, confirm, release, extend, supply, withdraw, look, or pass: time does
	ID    string        `json:"id,omitempty"`
	Units int64         `json:"units,omitempty"` // of a confirm: of a part, or zero for all
	Time  time.Duration `json:"time,omitempty"`  // until a hold expires, or that passes
	At    int64         `json:"at,omitempty"`    // when it was made, in Unix nanoseconds; see TimedModel
	On    int64         `json:"on,omitempty"`    // when it was decided, by the store's clock, where that is known; see Dated
}

// Told is what the caller was told.
type Told struct {
	Answer   string          `json:"answer"` // yes, sold out, mismatch, wrong state, expired, not found, invalid, or failed: nothing was done
	State    inventory.State `json:"state,omitempty"`
	Sold     int64           `json:"sold,omitempty"`
	Replayed bool            `json:"replayed,omitempty"`
	Level    inventory.Level `json:"level,omitzero"` // of a look
	At       int64           `json:"at,omitempty"`   // when, in Unix nanoseconds; see TimedModel
}

// Recorder records calls about SKUs. The keys of its history are SKUs.
type Recorder = history.Recorder[Call, Told]

// History is what a Recorder has recorded.
type History = history.History[Call, Told]

// Client calls a store about one SKU, and records what it was told.
type Client struct {
	Store    inventory.Store
	Recorder *Recorder
	Number   int
	SKU      string
	Advance  func(d time.Duration) // lets time pass; nil where no call says so
	Stamped  bool                  // by this host's clock, for TimedModel
}

// Do makes one call. Its result is for the history to judge.
func (c *Client) Do(ctx context.Context, call Call) {
	if c.Stamped {
		call.At = wall.Now().UnixNano()
	}
	p := c.Recorder.Begin(c.Number, c.SKU, call)
	told, err := c.Ask(ctx, call)
	if c.Stamped {
		told.At = wall.Now().UnixNano()
	}
	switch {
	case errors.Is(err, fifty.ErrUnknownOutcome):
		p.Unknown()
	case err != nil:
		p.End(Told{Answer: "failed"})
	default:
		p.End(told)
	}
}

// Ask makes one call that is not recorded. The second result is an error of the store.
func (c *Client) Ask(ctx context.Context, call Call) (Told, error) {
	items := inventory.Items{c.SKU: call.Units}
	a := inventory.Ask{ID: call.ID, Items: items, TTL: call.Time, RefusalsMax: refusalsMax}
	settle := c.Store.Settle
	switch call.Do {
	case "pass":
		c.Advance(call.Time)
		return Told{Answer: "yes"}, nil
	case "look":
		levels, err := c.Store.Availability(ctx, []string{c.SKU})
		if err != nil {
			return Told{}, err
		}
		levels[0].SKU = ""
		return Told{Answer: "yes", Level: levels[0]}, nil
	case "supply", "withdraw":
		err := c.Store.Supply(ctx, inventory.Delivery{ID: call.ID, Items: items, Away: call.Do == "withdraw"})
		return toldOf(inventory.Answer{Err: err}, c.SKU)
	case "reserve":
		a.Act, settle = inventory.Reserve, c.Store.Reserve
	case "confirm":
		a.Act = inventory.Confirm
		if call.Units == 0 {
			a.Items = nil
		}
	case "release":
		a.Act = inventory.Release
	case "extend":
		a.Act = inventory.Extend
	}
	answers, err := settle(ctx, []inventory.Ask{a})
	if err != nil {
		return Told{}, err
	}
	return toldOf(answers[0], c.SKU)
}

// toldOf is an answer as a history keeps it. The second result is an error of the store.
func toldOf(a inventory.Answer, sku string) (Told, error) {
	told := Told{State: a.Hold.State, Sold: a.Hold.Sold[sku], Replayed: a.Hold.Replayed}
	if a.Err == nil {
		told.Answer = "yes"
		return told, nil
	}
	for answer, kind := range map[string]error{
		"sold out": inventory.ErrSoldOut, "mismatch": inventory.ErrMismatch, "wrong state": inventory.ErrState,
		"expired": inventory.ErrHoldExpired, "not found": inventory.ErrNotFound, "invalid": fifty.ErrInvalid,
	} {
		if errors.Is(a.Err, kind) {
			return Told{Answer: answer, State: told.State}, nil
		}
	}
	return Told{}, a.Err
}

// stockState is what one SKU may be, by definition: who has what until when. It is never changed, only replaced.
type stockState struct {
	now    time.Duration
	supply int64
	byID   map[string]modelHold
	known  map[string]int64 // deliveries; below zero what was withdrawn
}

type modelHold struct {
	units, sold int64
	state       inventory.State
	expires     time.Duration // the first second in which it is expired
}

// Model is what a store may do about one SKU that was never split, for history.Check: the contract of
// inventory.Store, written down as a sequential object. Time is a part of it, and passes only by calls "pass":
// for a clock that the test moves and that begins at a whole second, or for holds that don't expire within a history. There are no sweeps in it.
func Model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return stockState{} },
		Step: func(state, input, output any) (bool, any) {
			s := state.(stockState).clone()
			want, ok := s.do(input.(Call))
			told, known := output.(Told)
			if known && told.Answer == "failed" {
				return true, state
			}
			return ok && (!known || told == want), s
		},
		Equal: func(a, b any) bool {
			return a.(stockState).equal(b.(stockState))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func (s stockState) equal(o stockState) bool {
	return s.now == o.now && s.supply == o.supply && maps.Equal(s.byID, o.byID) && maps.Equal(s.known, o.known)
}

func (s stockState) clone() stockState {
	s.byID, s.known = maps.Clone(s.byID), maps.Clone(s.known)
	if s.byID == nil {
		s.byID, s.known = map[string]modelHold{}, map[string]int64{}
	}
	return s
}

// level is how the units are shared out. What has expired counts as available.
func (s stockState) level() inventory.Level {
	l := inventory.Level{Supply: s.supply}
	for _, h := range s.byID {
		if h.state == inventory.Held && h.expires > s.now {
			l.Held += h.units
		}
		l.Sold += h.sold
	}
	l.Available = l.Supply - l.Held - l.Sold
	return l
}

// do makes one call. ok is false for one that there is not.
func (s *stockState) do(c Call) (told Told, ok bool) {
	switch c.Do {
	case "pass":
		s.now += c.Time
		return Told{Answer: "yes"}, true
	case "look":
		return Told{Answer: "yes", Level: s.level()}, true
	case "supply", "withdraw":
		return s.deliver(c), true
	case "reserve":
		return s.reserve(c), true
	}
	h, known := s.byID[c.ID]
	if !known {
		return Told{Answer: "not found"}, true
	}
	shown := h.state
	if h.state == inventory.Held && h.expires <= s.now {
		shown = inventory.Expired
	}
	switch c.Do {
	case "confirm":
		return s.confirm(c, h, shown), true
	case "release":
		return s.release(c, h, shown), true
	case "extend":
		return s.extend(c, h, shown), true
	}
	return Told{}, false
}

func (s *stockState) deliver(c Call) Told {
	units := c.Units
	if c.Do == "withdraw" {
		units = -units
	}
	if first, known := s.known[c.ID]; known {
		if first != units {
			return Told{Answer: "mismatch"}
		}
		return Told{Answer: "yes"}
	}
	if s.level().Available+units < 0 {
		return Told{Answer: "sold out"}
	}
	s.supply += units
	s.known[c.ID] = units
	return Told{Answer: "yes"}
}

func (s *stockState) reserve(c Call) Told {
	if h, known := s.byID[c.ID]; known {
		shown := h.state
		if h.state == inventory.Held && h.expires <= s.now {
			shown = inventory.Expired
		}
		switch {
		case h.units != c.Units:
			return Told{Answer: "mismatch", State: shown}
		case h.state == inventory.Refused:
			return Told{Answer: "sold out", State: shown}
		}
		return Told{Answer: "yes", State: shown, Sold: h.sold, Replayed: true}
	}
	h := modelHold{units: c.Units, state: inventory.Held, expires: (s.now + c.Time + time.Second - 1).Truncate(time.Second)}
	told := Told{Answer: "yes", State: inventory.Held}
	if s.level().Available < c.Units {
		h.state, told = inventory.Refused, Told{Answer: "sold out", State: inventory.Refused}
	}
	s.byID[c.ID] = h
	return told
}

func (s *stockState) confirm(c Call, h modelHold, shown inventory.State) Told {
	units := c.Units
	if units == 0 {
		units = h.units
	}
	switch {
	case h.state == inventory.Confirmed && h.sold == units:
		return Told{Answer: "yes", State: shown, Sold: h.sold, Replayed: true}
	case h.state == inventory.Confirmed:
		return Told{Answer: "mismatch", State: shown}
	case h.state == inventory.Lapsed:
		return Told{Answer: "expired", State: shown}
	case h.state != inventory.Held:
		return Told{Answer: "wrong state", State: shown}
	case units > h.units:
		return Told{Answer: "invalid", State: shown}
	}
	told := Told{Answer: "yes", State: inventory.Confirmed, Sold: units}
	h.state, h.sold = inventory.Confirmed, units
	if shown == inventory.Expired && s.level().Available < units {
		h.state, h.sold, told = inventory.Lapsed, 0, Told{Answer: "expired", State: inventory.Lapsed}
	}
	s.byID[c.ID] = h
	return told
}

func (s *stockState) release(c Call, h modelHold, shown inventory.State) Told {
	switch h.state {
	case inventory.Held:
		h.state = inventory.Released
		s.byID[c.ID] = h
		return Told{Answer: "yes", State: inventory.Released}
	case inventory.Released, inventory.Lapsed:
		return Told{Answer: "yes", State: shown, Replayed: true}
	default:
		return Told{Answer: "wrong state", State: shown}
	}
}

func (s *stockState) extend(c Call, h modelHold, shown inventory.State) Told {
	switch shown {
	case inventory.Held:
		h.expires = max(h.expires, (s.now + c.Time + time.Second - 1).Truncate(time.Second))
		s.byID[c.ID] = h
		return Told{Answer: "yes", State: inventory.Held}
	case inventory.Expired, inventory.Lapsed:
		return Told{Answer: "expired", State: shown}
	default:
		return Told{Answer: "wrong state", State: shown}
	}
}

// Work is a client that calls at random about a few holds, rightly and wrongly.
type Work struct {
	Rand   *rand.Rand // whose seed decides all that the client does
	Client *Client
	IDs    []string        // of holds, shared by all clients
	Times  []time.Duration // until a hold expires, one of them at random
}

// Run makes so many calls.
func (w *Work) Run(ctx context.Context, calls int) {
	acts := []string{"reserve", "reserve", "reserve", "confirm", "confirm", "release", "extend", "look"}
	if w.Client.Advance != nil {
		acts = append(acts, "pass")
	}
	for range calls {
		if ctx.Err() != nil {
			return
		}
		c := Call{Do: acts[w.Rand.IntN(len(acts))], ID: w.IDs[w.Rand.IntN(len(w.IDs))]}
		switch c.Do {
		case "look":
			c.ID = ""
		case "pass":
			c.ID, c.Time = "", time.Second
		case "confirm":
			c.Units = w.Rand.Int64N(3)
		case "reserve":
			c.Units = 1 + int64(len(c.ID)%2)
			if w.Rand.IntN(10) == 0 {
				c.Units++
			}
			c.Time = w.Times[w.Rand.IntN(len(w.Times))]
		case "extend":
			c.Time = w.Times[w.Rand.IntN(len(w.Times))]
		}
		w.Client.Do(ctx, c)
	}
}
