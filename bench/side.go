package main

import (
	"context"
	"time"
)

// A Side is one way to do the work of a case.
type Side struct {
	// Name says in a few words what it is. Defaults to "ours" or "theirs".
	Name string

	// Op does the work once. worker is below the number of workers; one worker makes one call at a time.
	// An error ends the case.
	Op func(ctx context.Context, worker int) error

	// Batch is how often one call of Op does the work, for work that takes less than reading a clock.
	// Defaults to 1.
	Batch int64

	// Before runs before each slice, outside of what is measured: a VACUUM, a fill. Defaults to nothing.
	Before func(ctx context.Context) error
}

// Figures is what one side came to.
type Figures struct {
	Name      string        `json:"name"`
	Ops       int64         `json:"ops"`
	PerSecond []float64     `json:"per_second,omitempty"` // one for each round
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
}

// Ratio is ours against theirs: of operations per second, where more is better, or of latencies, where
// less is.
type Ratio struct {
	Kind    string    `json:"kind"` // "throughput" or "latency"
	Workers int       `json:"workers"`
	Rounds  []float64 `json:"rounds"` // one ratio for each round
	Median  float64   `json:"median"` // of Rounds; of a latency, the ratio of the p50s of all calls
	P99     float64   `json:"p99"`    // the ratio of the p99s of all calls
	Ours    Figures   `json:"ours"`
	Theirs  Figures   `json:"theirs"`           // the fastest
	Others  []Figures `json:"others,omitempty"` // the slower candidates
}

func (s Side) named(name string) Side {
	if s.Name == "" {
		s.Name = name
	}
	if s.Batch == 0 {
		s.Batch = 1
	}
	return s
}

func namedSides(ours Side, theirs []Side) []Side {
	all := []Side{ours.named("ours")}
	for _, t := range theirs {
		all = append(all, t.named("theirs"))
	}
	return all
}
