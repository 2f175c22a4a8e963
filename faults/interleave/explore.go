package interleave

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds and defaults of Options.
const (
	callersMax          = 26 // a letter each
	stepsMax            = 10_000
	replaysMax          = 3 // tries at a schedule whose prefix could not be followed
	schedulesMaxDefault = 20_000
	runsDefault         = 200
	graceDefault        = 25 * time.Millisecond
	stuckDefault        = 10 * time.Second
	blockedPoll         = 5 * time.Millisecond
)

// Case is one run of the callers against fresh state.
type Case struct {
	// Callers run concurrently, each until its next Point when it is its turn. They use the context that
	// they are given; what they find out they keep for Check.
	Callers []func(ctx context.Context)

	// Check says what is wrong once all of them have returned.
	Check func() error
}

// Options say which schedules are run. The zero value runs all.
type Options struct {
	// PreemptionsMax leaves out the schedules that interrupt a caller which could go on more often than
	// this. Zero leaves out none. Most races need one or two.
	PreemptionsMax int

	// OrdersMax sets PreemptionsMax aside for as many schedules: a case that has no more is run in all of
	// them, and of a larger one only what is left then is bounded.
	OrdersMax int

	// SchedulesMin is the least number of schedules that must have been run: fewer mean that the code
	// under test has lost its points. Defaults to 2.
	SchedulesMin int

	// SchedulesMax is the most that are run; a case with more fails, since it was not explored. Defaults
	// to 20,000.
	SchedulesMax int

	// Grace is how long a caller may be silent before it counts as blocked. Defaults to 25 ms.
	Grace time.Duration

	// Blocked, if there is one, says how many callers are blocked now by something outside. It is asked
	// every 5 ms while a caller is silent, and makes the grace short where a caller is blocked and long
	// where it is only slow.
	Blocked func(ctx context.Context) int

	// Stuck is how long all may be silent before the schedule fails. Defaults to 10 s.
	Stuck time.Duration

	// Schedule replays one schedule, as a Failure names it, instead of running all.
	Schedule string

	// Runs is how many schedules Sample runs. Explore has no use for it. Defaults to 200.
	Runs int

	// Seed is that of Sample's first schedule; the next one has the next seed. Sample always finds what it
	// found before, unless this changes. The variable FIFTY_SEED sets it aside, and Runs too: one schedule runs.
	Seed uint64

	// Test is the name of the test that calls Sample, t.Name(), for the command that a failure prints.
	Test string
}

func (o Options) withDefaults() Options {
	if o.SchedulesMin == 0 {
		o.SchedulesMin = 2
	}
	if o.Runs == 0 {
		o.Runs = runsDefault
	}
	if o.SchedulesMax == 0 {
		o.SchedulesMax = schedulesMaxDefault
	}
	if o.Grace == 0 {
		o.Grace = graceDefault
	}
	if o.Stuck == 0 {
		o.Stuck = stuckDefault
	}
	return o
}

// Report says what was run.
type Report struct {
	Schedules int  // orders that were run
	Bounded   bool // some orders were left out, because of PreemptionsMax
	Steps     int  // turns in all of them
	Blocked   int  // how often a caller was blocked by something outside
	Diverged  int  // schedules that could not be followed to their end
	Sampled   bool // seeds chose the orders
	Different int  // of the sampled orders
}

func (r Report) String() string {
	which := "all"
	if r.Bounded {
		which = "the less interrupted"
	}
	if r.Sampled {
		which = fmt.Sprintf("sampled, %d different", r.Different)
	}
	return fmt.Sprintf("%d schedules (%s), %d steps, %d blocked, %d diverged", r.Schedules, which, r.Steps, r.Blocked, r.Diverged)
}

// node is one decision on the way to the schedule that is being run.
type node struct {
	choices     []int // callers that could go, the preferred one first
	at          int   // the choice that is being explored
	last        int   // who went before; -1 at the start
	preemptions int   // before this decision
}

func (n *node) choice() int { return n.choices[n.at] }

// cost is the number of preemptions once choice i is made.
func (n *node) cost(i int) int {
	if n.choices[i] != n.last && slices.Contains(n.choices, n.last) {
		return n.preemptions + 1
	}
	return n.preemptions
}

// Explore runs newCase's callers under every schedule that opts allow, and stops at the first that goes
// wrong: the error is then a *Failure. newCase is called once per schedule, with its number from 0.
func Explore(ctx context.Context, opts Options, newCase func(schedule int) Case) (Report, error) {
	opts = opts.withDefaults()
	if opts.Schedule != "" {
		return replay(ctx, opts, newCase)
	}
	var report Report
	var path []*node
	for {
		if report.Schedules == opts.SchedulesMax {
			return report, fmt.Errorf("interleave: not explored: there are more than %d schedules", opts.SchedulesMax)
		}
		var err error
		path, err = follow(ctx, opts, newCase, path, &report)
		if err != nil {
			return report, err
		}
		preemptionsMax := opts.PreemptionsMax
		if report.Schedules < opts.OrdersMax {
			preemptionsMax = 0
		}
		path = backtrack(path, preemptionsMax, &report)
		if len(path) == 0 {
			break
		}
	}
	if report.Schedules < opts.SchedulesMin {
		return report, fmt.Errorf("interleave: only %d schedules were run and at least %d must be: does the code under test name its points?", report.Schedules, opts.SchedulesMin)
	}
	return report, nil
}

// follow runs the schedule that begins as path says, and returns the whole path.
func follow(ctx context.Context, opts Options, newCase func(int) Case, path []*node, report *Report) ([]*node, error) {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("interleave: not explored: %w", err)
		}
		s := newSchedule(opts, newCase(report.Schedules))
		s.path = path
		err := s.run(ctx)
		report.Schedules++
		report.Steps += len(s.steps)
		report.Blocked += s.blocked
		if err != nil {
			return nil, err
		}
		if !s.diverged {
			return s.path, nil
		}
		if try == replaysMax {
			report.Diverged++
			return s.path, nil
		}
	}
}

// backtrack turns path to the next schedule: the last decision that has another choice takes it.
func backtrack(path []*node, preemptionsMax int, report *Report) []*node {
	for len(path) > 0 {
		n := path[len(path)-1]
		for n.at++; n.at < len(n.choices); n.at++ {
			if preemptionsMax == 0 || n.cost(n.at) <= preemptionsMax {
				return path
			}
			report.Bounded = true
		}
		path = path[:len(path)-1]
	}
	return nil
}

func replay(ctx context.Context, opts Options, newCase func(int) Case) (Report, error) {
	s := newSchedule(opts, newCase(0))
	for _, r := range strings.ToUpper(opts.Schedule) {
		id := int(r - 'A')
		if id < 0 || id >= len(s.callers) {
			return Report{}, errors.New("interleave: Schedule: each step is the letter of a caller")
		}
		s.path = append(s.path, &node{choices: []int{id}, last: -1})
	}
	err := s.run(ctx)
	report := Report{Schedules: 1, Steps: len(s.steps), Blocked: s.blocked}
	if s.diverged {
		report.Diverged = 1
	}
	return report, err
}
