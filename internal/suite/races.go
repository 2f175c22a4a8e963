package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

// Races runs those of a whole suite, and counts their schedules. It is not safe for concurrent use.
type Races struct {
	// Grace, Blocked and Schedule are those of interleave.Options.
	Grace    time.Duration
	Blocked  func(ctx context.Context) int
	Schedule string

	// SchedulesMin is the least number of schedules that all races together must have gone through. It keeps
	// hooks from being lost unnoticed. Zero asks for no more than each race does.
	SchedulesMin int

	// OrdersMax, if it is set, bounds the sizes of all races: of one with more orders, those are run in which
	// one caller at most is interrupted, once.
	OrdersMax int

	schedules int
}

// Size is how many orders a race has.
type Size struct {
	Min int // with the plainest right store: a hook per call
	All int // up to so many orders all are run, and then those with few interruptions
	Few int // how many these are; defaults to 2
}

const fewDefault = 2

// Explore runs the callers of newCase in every order, or in those of their size. A failure goes to r.
func (x *Races) Explore(r Reporter, size Size, newCase func() interleave.Case) {
	r.Helper()
	if size.Few == 0 {
		size.Few = fewDefault
	}
	if x.OrdersMax > 0 {
		size.All, size.Few = min(size.All, x.OrdersMax), 1
	}
	report, err := interleave.Explore(r.Context(), interleave.Options{
		SchedulesMin: size.Min, OrdersMax: size.All, PreemptionsMax: size.Few,
		Grace: x.Grace, Blocked: x.Blocked, Schedule: x.Schedule,
	}, func(int) interleave.Case { return newCase() })
	if err != nil {
		r.Errorf("%v", err)
	}
	r.Logf("%v", report)
	x.schedules += report.Schedules
}

// hooksLost says what a run with too few schedules means.
func hooksLost(schedules, schedulesMin int) string {
	if schedules >= schedulesMin {
		return ""
	}
	return fmt.Sprintf("the races went through %d schedules in all, want at least %d: are there hooks missing?", schedules, schedulesMin)
}
