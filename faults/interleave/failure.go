package interleave

import (
	"fmt"
	"strings"
)

// Failure is a case that went wrong under one schedule.
type Failure struct {
	Schedule string   // a letter per step; Options.Schedule replays it
	Trace    []string // what each step was
	Err      error    // what went wrong

	Seeded  bool   // a seed chose the schedule
	Seed    uint64 // that one
	Command string // runs it again; empty unless it is known which test to run
}

func (f *Failure) Error() string {
	text := fmt.Sprintf("%v\nunder the schedule %s:\n\t%s", f.Err, f.Schedule, strings.Join(f.Trace, "\n\t"))
	if f.Seeded {
		text += fmt.Sprintf("\nchosen by the seed %d", f.Seed)
	}
	if f.Command != "" {
		text += "\nrun it again: " + f.Command
	}
	return text
}

// Unwrap returns what went wrong.
func (f *Failure) Unwrap() error { return f.Err }

// letter names a caller: A, B, C.
func letter(id int) string { return string(rune('A' + id)) }
