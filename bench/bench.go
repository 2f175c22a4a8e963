package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// How long a measurement takes. A rough look takes a tenth, and none of its figures counts.
const (
	sliceDefault  = time.Second
	roundsDefault = 7
	callsDefault  = 2000
	sliceRough    = 200 * time.Millisecond
	roundsRough   = 3
	callsRough    = 200
)

// bench is what a case has while it runs. It is for the goroutine that runs the case.
type bench struct {
	// Slice, Rounds and Calls say how much throughput and latency measure; Calls is for each side. A case
	// may change them before it measures.
	Slice  time.Duration
	Rounds int
	Calls  int

	// Rough says that a rough look is wanted: a case that fills tables makes smaller ones.
	Rough bool

	servers  *servers
	profiles string // a folder, or empty
	stderr   io.Writer
	name     string // GROUP/NAME
	explains []string
	ratios   []Ratio
	notes    []string
	cleanups []func() error
}

func newBench(name string, o options, s *servers, stderr io.Writer) *bench {
	b := &bench{
		Slice: sliceDefault, Rounds: roundsDefault, Calls: callsDefault, Rough: o.rough,
		servers: s, profiles: o.profiles, stderr: stderr, name: name,
	}
	if o.rough {
		b.Slice, b.Rounds, b.Calls = sliceRough, roundsRough, callsRough
	}
	return b
}

// Explain adds text that is printed above the table, such as the SQL of the baseline.
func (b *bench) Explain(format string, args ...any) {
	b.explains = append(b.explains, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Note adds a few words to the case's line of the table.
func (b *bench) Note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// Cleanup runs end after the case, the latest first. An error of it fails the case.
func (b *bench) Cleanup(end func() error) { b.cleanups = append(b.cleanups, end) }

// Postgres returns the URL of an empty database on a real server with default durability: the one of --db,
// or a private one that ends with this process. The database is dropped after the case. Two sides that
// need equal tables take a database each.
func (b *bench) Postgres(ctx context.Context) (string, error) {
	url, drop, err := b.servers.database(ctx)
	if err == nil {
		b.Cleanup(drop)
	}
	return url, err
}

func (b *bench) measured(r Ratio) { b.ratios = append(b.ratios, r) }

// progress tells whoever watches what is under way.
func (b *bench) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(b.stderr, "%s: %s\n", b.name, fmt.Sprintf(format, args...))
}

func (b *bench) end() error {
	var all error
	for _, end := range slices.Backward(b.cleanups) {
		all = errors.Join(all, end())
	}
	return all
}

// outcome is what became of a case.
type outcome struct {
	group, name string
	goal        Goal
	what        string
	value       float64
	err         error
	rough       bool
	took        time.Duration
	explains    []string
	ratios      []Ratio
	notes       []string
	curve       string
	at          int
}

// run runs a case.
func run(ctx context.Context, groupName string, c Case, o options, s *servers, stderr io.Writer) outcome {
	b := newBench(groupName+"/"+c.Name, o, s, stderr)
	b.progress("%s", c.What)
	began := time.Now()
	value, err := c.Run(ctx, b)
	err = errors.Join(err, b.end())
	return outcome{
		group: groupName, name: c.Name, goal: c.Goal, what: c.What, value: value, err: err, rough: o.rough,
		took: time.Since(began), explains: b.explains, ratios: b.ratios, notes: b.notes,
		curve: c.Curve, at: c.At,
	}
}

// verdict is the last word of the case's line.
func (o outcome) verdict() string {
	switch {
	case o.err != nil:
		return "short" // a figure that can't be had is none that meets its goal
	case o.rough:
		return "rough"
	case o.goal.met(o.value):
		return "ok"
	default:
		return "short"
	}
}

// line is the case's line, in the form that scripts read.
func (o outcome) line() string {
	value := "none"
	if o.err == nil {
		value = o.goal.text(o.value)
	}
	return fmt.Sprintf("bench %s/%s value=%s goal=%s %s", o.group, o.name, value, o.goal, o.verdict())
}
