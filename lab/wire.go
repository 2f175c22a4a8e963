package lab

import "encoding/json"

// lineMax bounds one message between the conductor and a host, in bytes.
const lineMax = 1 << 20

// order is what the conductor tells a host: one line of JSON on its standard input. The first one is the
// setup; when the input ends, so does the host.
type order struct {
	Setup *setup          `json:"setup,omitempty"`
	Call  int             `json:"call,omitempty"` // which call it is about
	Do    string          `json:"do,omitempty"`   // begin this action
	In    json.RawMessage `json:"in,omitempty"`
	Go    bool            `json:"go,omitempty"`    // go on from where the call is held
	Heard int             `json:"heard,omitempty"` // the step of that number is in the timeline
}

// setup tells a host who it is.
type setup struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	Number   int    `json:"number"` // 1 to n; 0 for a client
	World    world  `json:"world"`
}

// notice is what a host tells the conductor: one line of JSON on its standard output.
type notice struct {
	Ready bool            `json:"ready,omitempty"`
	Call  int             `json:"call,omitempty"`
	Step  *Step           `json:"step,omitempty"` // for the timeline
	Hear  int             `json:"hear,omitempty"` // the step's number, when the host waits until it was heard
	Held  string          `json:"held,omitempty"` // the call waits here for its release
	Done  bool            `json:"done,omitempty"` // the call has ended
	Out   json.RawMessage `json:"out,omitempty"`
	Error string          `json:"error,omitempty"` // of the call, or of the host when there is no call
}
