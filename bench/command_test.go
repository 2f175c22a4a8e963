package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// figures are groups whose cases return what they are told.
func figures() []group {
	value := func(v float64, err error) func(context.Context, *bench) (float64, error) {
		return func(_ context.Context, b *bench) (float64, error) {
			b.Explain("theirs:\n  insert into t values ($1)")
			return v, err
		}
	}
	return []group{
		{Name: "good", What: "all is well", Cases: []Case{
			{Name: "fast", Goal: atLeast(0.97), What: "more is better", Run: value(1.04, nil)},
			{Name: "small", Goal: atMost(4096), What: "less is better", Run: value(2000, nil)},
			{Name: "shown", What: "only shown", Run: value(0.5, nil)},
		}},
		{Name: "bad", What: "not all is well", Cases: []Case{
			{Name: "slow", Goal: atLeast(0.97), What: "more is better", Run: value(0.9699, nil)},
			{Name: "broken", Goal: atMost(1), What: "it can't be had", Run: value(0, errors.New("no disk"))},
		}},
	}
}

func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = command(t.Context(), args, figures(), &out, &errs)
	return code, out.String(), errs.String()
}

func lines(stdout string) []string {
	var found []string
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "bench ") {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

func TestEachCaseHasALineThatScriptsCanRead(t *testing.T) {
	code, stdout, _ := runCommand(t, "good", "bad")
	want := []string{
		"bench good/fast value=1.04 goal=>=0.97 ok",
		"bench good/small value=2000 goal=<=4096 ok",
		"bench good/shown value=0.50 goal=none ok",
		"bench bad/slow value=0.96 goal=>=0.97 short",
		"bench bad/broken value=none goal=<=1.00 short",
	}
	if got := strings.Join(lines(stdout), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the lines are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if code != exitShort {
		t.Errorf("exit code %d, want %d", code, exitShort)
	}
	if !strings.Contains(stdout, "bad/broken failed: no disk") {
		t.Errorf("the reason of a case without a figure is missing in\n%s", stdout)
	}
}

func TestExitCodeIsZeroWhenEachGoalIsMet(t *testing.T) {
	if code, _, _ := runCommand(t, "good"); code != exitFine {
		t.Errorf("exit code %d, want %d", code, exitFine)
	}
}

func TestWhatIsComparedStandsAboveTheTableOnce(t *testing.T) {
	_, stdout, _ := runCommand(t, "good")
	sql, table := strings.Index(stdout, "insert into t"), strings.Index(stdout, "min–max")
	if sql < 0 || table < sql || strings.Count(stdout, "insert into t") != 1 {
		t.Errorf("the baseline is not above the table, once:\n%s", stdout)
	}
}

func TestARoughLookCountsForNothing(t *testing.T) {
	code, stdout, _ := runCommand(t, "good", "bad", "--quick", "--only", "[fs][al]*")
	want := "bench good/fast value=1.04 goal=>=0.97 rough\nbench bad/slow value=0.96 goal=>=0.97 rough"
	if got := strings.Join(lines(stdout), "\n"); got != want || code != exitFine {
		t.Errorf("exit code %d, lines\n%s\nwant %d and\n%s", code, got, exitFine, want)
	}
}

func TestListNamesGroupsCasesGoalsAndWhatTheyMeasure(t *testing.T) {
	code, stdout, _ := runCommand(t, "--list")
	for _, want := range []string{"good: all is well", "good/fast  goal >=0.97", "more is better", "bad/broken  goal <=1.00", "it can't be had"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the list lacks %q:\n%s", want, stdout)
		}
	}
	if code != exitFine || len(lines(stdout)) != 0 {
		t.Errorf("exit code %d, lines %v: a list measures nothing", code, lines(stdout))
	}
}

func TestBadArgumentsAreUsageErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"name a group":                      {},
		`there is no group "goood"`:         {"good", "goood"},
		`no case matches --only "fastest"`:  {"good", "--only", "fastest"},
		"syntax error in pattern":           {"good", "--only", "["},
		"flag provided but not defined: -x": {"good", "-x"},
	} {
		code, stdout, stderr := runCommand(t, args...)
		if code != exitUsage || !strings.Contains(stderr, want) || !strings.Contains(stderr, "all is well") || stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr\n%s\nwant %d and %q with the list of groups", args, code, stdout, stderr, exitUsage, want)
		}
	}
}

func TestRawFiguresAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "raw.json")
	if code, _, stderr := runCommand(t, "good", "--json", file); code != exitFine {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		Machine string
		Cases   []rawCase
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	if raw.Machine == "" || len(raw.Cases) != 3 || raw.Cases[0].Name != "good/fast" || *raw.Cases[0].Value != 1.04 {
		t.Errorf("raw figures are %s", text)
	}
}

func TestWhatIsNeededIsTriedBeforeAnythingIsMeasured(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "raw.json")
	for want, args := range map[string][]string{
		"--db wants a URL": {"good", "--db", "mysql://root:secret@localhost/x"},
		"missing":          {"good", "--json", missing},
	} {
		code, stdout, stderr := runCommand(t, args...)
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Contains(stderr, "secret") || stdout != "" {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q; want %d and %q", args, code, stdout, stderr, exitUsage, want)
		}
	}
}

func TestAnInterruptedRunShowsNoFigureOfTheCaseThatItBrokeOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cleaned := false
	all := []group{{Name: "g", Cases: []Case{
		{Name: "whole", Run: func(context.Context, *bench) (float64, error) { return 1, nil }},
		{Name: "broken-off", Run: func(ctx context.Context, b *bench) (float64, error) {
			b.Cleanup(func() error { cleaned = true; return nil })
			cancel()
			return 0, ctx.Err()
		}},
		{Name: "never", Run: func(context.Context, *bench) (float64, error) {
			t.Error("a case began after the interrupt")
			return 1, nil
		}},
	}}}
	var out, errs bytes.Buffer
	code := command(ctx, []string{"g"}, all, &out, &errs)
	if got := lines(out.String()); code != exitInterrupted || len(got) != 1 || !cleaned {
		t.Errorf("exit code %d, lines %q, cleaned %v; want %d, the whole case alone, and a clean-up", code, got, cleaned, exitInterrupted)
	}
}

func TestNamesOfCasesAreUniqueAndPlain(t *testing.T) {
	for _, g := range groups() {
		seen := map[string]bool{}
		for _, c := range g.Cases {
			plain := c.Name != "" && strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
			if seen[c.Name] || !plain || c.What == "" || c.Run == nil {
				t.Errorf("case %s/%s: its name is taken or not plain, or it lacks What or Run", g.Name, c.Name)
			}
			seen[c.Name] = true
		}
	}
}
