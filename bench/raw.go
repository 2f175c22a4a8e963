package main

import (
	"encoding/json"
	"os"
	"time"
)

// rawCase is a case in the file of raw figures.
type rawCase struct {
	Name   string        `json:"name"`
	Goal   string        `json:"goal"`
	Value  *float64      `json:"value"` // null when the case failed
	Result string        `json:"result"`
	Error  string        `json:"error,omitempty"`
	Took   time.Duration `json:"took_ns"`
	Ratios []Ratio       `json:"ratios,omitempty"`
	Notes  []string      `json:"notes,omitempty"`
}

// writeRaw writes all that was measured to a file, in place of what it held.
func writeRaw(file, server string, outcomes []outcome) error {
	raw := struct {
		Machine string    `json:"machine"`
		Server  string    `json:"server,omitempty"`
		Cases   []rawCase `json:"cases"`
	}{Machine: machine(), Server: server}
	for _, o := range outcomes {
		c := rawCase{
			Name: o.group + "/" + o.name, Goal: o.goal.String(), Result: o.verdict(), Took: o.took,
			Ratios: o.ratios, Notes: o.notes,
		}
		if o.err != nil {
			c.Error = o.err.Error()
		} else {
			c.Value = &o.value
		}
		raw.Cases = append(raw.Cases, c)
	}
	text, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // anyone may read figures
}
