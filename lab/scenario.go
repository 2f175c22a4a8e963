package lab

import (
	"context"
	"encoding/json"
	"fmt"
)

// Kind says how a run is written.
type Kind string

const (
	// Naive is code that a decent engineer writes for one host. It must show the fault.
	Naive Kind = "naive"
	// Fifty is the same work done with Fifty. It must not show the fault.
	Fifty Kind = "fifty"
	// Hand is code written by hand that is right. Only a show has it, for Fifty to be compared with.
	Hand Kind = "by hand"
)

// A Scenario shows one failure of the catalogue, and that Fifty prevents it. It is made in a file of its own
// and put into the list in catalogue.go.
type Scenario struct {
	Number int    // of the catalogue; two scenarios may show one entry, and a show has 0
	Name   string // what it is called by: lower case, with hyphens
	Title  string
	Wrong  string // what goes wrong, in one or two sentences
	Fix    string // what prevents it

	// Show says that it is no failure of the catalogue. It is played only when it is asked for by its name,
	// Wrong says what there is to see, and there is no Fix.
	Show bool

	// HostsMax is how many hosts it has a use for. Defaults to as many as were asked for.
	HostsMax int

	// Tables are statements that make its own tables, each time anew for each run. They must run on SQLite
	// and Postgres alike.
	Tables []string

	// Actions are what its hosts can be told to do.
	Actions map[string]Action

	// Runs are played in this order: naive ones first.
	Runs []Run
}

// A Run is one play of a scenario on fresh hosts and fresh tables.
type Run struct {
	Kind  Kind
	Title string

	// Play conducts it and says what came of it. It is given up when ctx ends.
	Play func(ctx context.Context, s *Stage) (Verdict, error)
}

// A Verdict is what a run came to, by what its tables and its answers say.
type Verdict struct {
	Fault   bool           // the fault of the catalogue showed
	Text    string         // what was counted: "8 charges for one order"
	Figures map[string]int // the same for programs
}

// as says whether the verdict is what a run of the kind must come to, and puts it in words.
func (v Verdict) as(k Kind) (ok bool, text string) {
	switch {
	case k == Naive && v.Fault:
		return true, v.Text + ": the fault shows, as it should"
	case k == Naive:
		return false, v.Text + ": the fault did not show, and it should have"
	case v.Fault:
		return false, v.Text + ": the fault shows, and must not"
	default:
		return true, v.Text
	}
}

// Tone is how an event is to be taken; it decides the colour.
type Tone string

// The tones.
const (
	Plain Tone = ""
	Good  Tone = "good"
	Bad   Tone = "bad"
	Wait  Tone = "wait" // nothing was done yet: held up, or told to come back
)

// A Step is what a host did and what it got for an answer.
type Step struct {
	Did  string `json:"did"`
	Said string `json:"said"`
	Tone Tone   `json:"tone,omitempty"`
}

// An Action is something that a host can be told to do. It runs in the host's process.
type Action func(ctx context.Context, a *Actor, in json.RawMessage) (out any, err error)

// action makes an Action of a function with types of its own.
func action[In, Out any](fn func(ctx context.Context, a *Actor, in In) (Out, error)) Action {
	return func(ctx context.Context, a *Actor, raw json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("its input: %w", err)
		}
		return fn(ctx, a, in)
	}
}
