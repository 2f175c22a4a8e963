package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

// counted is a case of callers with points each, which tells its order to seen.
func counted(callers, points int, seen func(order string)) func(uint64) interleave.Case {
	return func(uint64) interleave.Case {
		var order strings.Builder
		c := interleave.Case{Check: func() error { seen(order.String()); return nil }}
		for id := range callers {
			c.Callers = append(c.Callers, steps(points, func(int) { fmt.Fprint(&order, id) }))
		}
		return c
	}
}

func TestASeedAlwaysGivesTheSameOrder(t *testing.T) {
	orders := map[string]bool{}
	var runs [2][]string
	for i := range runs {
		opts := interleave.Options{Runs: 50, Seed: 7, Grace: unhurried}
		report, err := interleave.Sample(t.Context(), opts, counted(5, 6, func(order string) {
			runs[i] = append(runs[i], order)
			orders[order] = true
		}))
		if err != nil {
			t.Fatal(err)
		}
		if report.Schedules != 50 || report.Different != len(orders) || !report.Sampled {
			t.Errorf("%+v", report)
		}
	}
	if fmt.Sprint(runs[0]) != fmt.Sprint(runs[1]) {
		t.Error("the second run of the same seeds took other orders")
	}
	if len(orders) < 45 {
		t.Errorf("50 seeds gave only %d different orders", len(orders))
	}
}

func TestSeedsReachEveryOrderOfASmallCase(t *testing.T) {
	orders := map[string]int{}
	opts := interleave.Options{Runs: 400, Grace: unhurried}
	if _, err := interleave.Sample(t.Context(), opts, counted(2, 3, func(order string) { orders[order]++ })); err != nil {
		t.Fatal(err)
	}
	if len(orders) != 20 {
		t.Errorf("400 seeds reached %d of 20 orders: %v", len(orders), orders)
	}
}

func TestSampledOrdersAreNotInterruptedMoreThanAllowed(t *testing.T) {
	orders := map[string]bool{}
	opts := interleave.Options{Runs: 200, PreemptionsMax: 1, Grace: unhurried}
	if _, err := interleave.Sample(t.Context(), opts, counted(2, 3, func(order string) { orders[order] = true })); err != nil {
		t.Fatal(err)
	}
	if len(orders) != 6 { // as TestPreemptionsAreBounded counts them
		t.Errorf("%d orders with at most one interruption, want 6: %v", len(orders), orders)
	}
}

func TestASampledFailureIsReplayedByItsSeedAndByItsSchedule(t *testing.T) {
	newCase := func(uint64) interleave.Case { return lostUpdate(0) }
	_, err := interleave.Sample(t.Context(), interleave.Options{Grace: unhurried}, newCase)
	failure, ok := errors.AsType[*interleave.Failure](err)
	if !ok || !failure.Seeded {
		t.Fatalf("the lost update went unnoticed: %v", err)
	}
	if failure.Command != "" {
		t.Errorf("a command without the test's name: %s", failure.Command)
	}
	for _, opts := range []interleave.Options{
		{Seed: failure.Seed, Runs: 1, Grace: unhurried}, {Schedule: failure.Schedule, Grace: unhurried},
	} {
		_, err := interleave.Sample(t.Context(), opts, newCase)
		again, ok := errors.AsType[*interleave.Failure](err)
		if !ok || again.Schedule != failure.Schedule || again.Err.Error() != failure.Err.Error() {
			t.Errorf("the replay gave %v, want %v", err, failure)
		}
	}
}

func TestACaseIsToldItsSeed(t *testing.T) {
	var seeds []uint64
	opts := interleave.Options{Runs: 3, Seed: 41, SchedulesMin: 1, Grace: unhurried}
	if _, err := interleave.Sample(t.Context(), opts, func(seed uint64) interleave.Case {
		seeds = append(seeds, seed)
		return lostless(seed)
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(seeds) != "[41 42 43]" {
		t.Errorf("the seeds are %v", seeds)
	}
}

// lostless is a case that never fails.
func lostless(uint64) interleave.Case {
	nothing := steps(2, func(int) {})
	return interleave.Case{Callers: []func(context.Context){nothing, nothing}}
}

func TestTheVariableRunsOneSeed(t *testing.T) {
	t.Setenv(interleave.SeedVariable, "18446744073709551615")
	runs := 0
	if _, err := interleave.Sample(t.Context(), interleave.Options{Grace: unhurried}, func(seed uint64) interleave.Case {
		if seed != 1<<64-1 {
			t.Errorf("the seed is %d", seed)
		}
		runs++
		return lostless(seed)
	}); err != nil || runs != 1 {
		t.Errorf("%d runs, %v", runs, err)
	}
	for _, wrong := range []string{"-1", "x", "1e3", "18446744073709551616"} {
		t.Setenv(interleave.SeedVariable, wrong)
		if _, err := interleave.Sample(t.Context(), interleave.Options{}, lostless); err == nil || !strings.Contains(err.Error(), interleave.SeedVariable) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestASampleWithoutPointsFails(t *testing.T) {
	nothing := func(context.Context) {}
	_, err := interleave.Sample(t.Context(), interleave.Options{}, func(uint64) interleave.Case {
		return interleave.Case{Callers: []func(context.Context){nothing, nothing}}
	})
	if err == nil || !strings.Contains(err.Error(), "only 1 different schedules") {
		t.Errorf("two callers without a point: %v", err)
	}
}

func TestAnEndedContextEndsTheSample(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	report, err := interleave.Sample(ctx, interleave.Options{Grace: unhurried}, func(seed uint64) interleave.Case {
		c := lostless(seed)
		c.Check = func() error {
			if seed == 2 {
				cancel()
			}
			return nil
		}
		return c
	})
	if !errors.Is(err, context.Canceled) || report.Schedules != 3 {
		t.Errorf("%v, %v, want three schedules and context.Canceled", report, err)
	}
}

// The command of a failure is taken from its text, as a person would, and given to a shell.
func TestThePrintedCommandReplaysTheSameFailure(t *testing.T) {
	command := func(line string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("%s: the planted race went unnoticed\n%s", line, out)
		}
		return string(out)
	}
	first := command("go test ./testdata/lostupdate")
	printed := regexp.MustCompile(`(?m)run it again: (.*)$`).FindStringSubmatch(first)
	if printed == nil {
		t.Fatalf("no command in:\n%s", first)
	}
	t.Log(printed[1])
	again := command(printed[1])
	failure := regexp.MustCompile(`(?s)six callers.*run it again: [^\n]*`)
	if want := failure.FindString(first); failure.FindString(again) != want {
		t.Errorf("the replay failed otherwise:\n%s\nwant\n%s", again, want)
	}
}
