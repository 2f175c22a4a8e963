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
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%v\nunder the schedule %s:\n\t%s", f.Err, f.Schedule, strings.Join(f.Trace, "\n\t"))
}

// Unwrap returns what went wrong.
func (f *Failure) Unwrap() error { return f.Err }

// letter names a caller: A, B, C.
func letter(id int) string { return string(rune('A' + id)) }
