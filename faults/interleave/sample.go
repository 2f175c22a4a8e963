package interleave

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// SeedVariable names the environment variable that makes Sample run the one schedule of that seed.
const SeedVariable = "FIFTY_SEED"

// Sample runs newCase's callers under opts.Runs schedules, each chosen step by step by a seed of its own, and
// stops at the first that goes wrong: the error is then a *Failure, with the seed and the command that runs
// it again. newCase is called once per schedule, with its seed, from which it takes what it chooses at random.
//
// With opts.PreemptionsMax the seeds choose among the schedules that have no more interruptions. Schedules
// that are all alike fail, as in Explore: the code under test has lost its points. opts.SchedulesMin counts
// the different ones.
func Sample(ctx context.Context, opts Options, newCase func(seed uint64) Case) (Report, error) {
	opts = opts.withDefaults()
	if opts.Schedule != "" {
		return replay(ctx, opts, func(int) Case { return newCase(opts.Seed) })
	}
	if text := os.Getenv(SeedVariable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return Report{}, fmt.Errorf("interleave: %s must be a whole number from 0 on: %w", SeedVariable, err)
		}
		opts.Seed, opts.Runs = seed, 1
	}
	report := Report{Sampled: true}
	different := map[string]struct{}{}
	for report.Schedules < opts.Runs {
		if err := ctx.Err(); err != nil {
			return report, fmt.Errorf("interleave: not sampled to the end: %w", err)
		}
		seed := opts.Seed + uint64(report.Schedules)
		s := newSchedule(opts, newCase(seed))
		s.pick = rand.New(rand.NewPCG(seed, 0)).IntN
		err := s.run(ctx)
		report.Schedules++
		report.Steps += len(s.steps)
		report.Blocked += s.blocked
		different[s.letters.String()] = struct{}{}
		report.Different = len(different)
		if failure, ok := errors.AsType[*Failure](err); ok {
			failure.Seeded, failure.Seed, failure.Command = true, seed, opts.command(seed)
		}
		if err != nil {
			return report, err
		}
	}
	if least := min(opts.SchedulesMin, opts.Runs); len(different) < least {
		return report, fmt.Errorf("interleave: only %d different schedules were run and at least %d must be: does the code under test name its points?", len(different), least)
	}
	return report, nil
}

// command is what runs one seed of the test again, for a shell.
func (o Options) command(seed uint64) string {
	if o.Test == "" {
		return ""
	}
	return fmt.Sprintf("%s=%d go test -run '%s' %s", SeedVariable, seed, runPattern(o.Test), testedPackage())
}

// runPattern matches just one test and its subtests, as go test -run reads it.
func runPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + quotePattern(part) + "$"
	}
	return strings.Join(parts, "/")
}

// quotePattern takes their meaning from the characters that a pattern gives one, without a quote or a
// backslash, which a shell would have to be told of.
func quotePattern(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\'' || r == '^' || r == '\\':
			b.WriteByte('.')
		case slices.Contains([]rune("$.*+?()[]{}|"), r):
			b.WriteString("[" + string(r) + "]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// testedPackage is the import path of the package whose tests this program runs, or the current folder.
func testedPackage() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasSuffix(info.Path, ".test") {
		return strings.TrimSuffix(info.Path, ".test")
	}
	return "."
}
