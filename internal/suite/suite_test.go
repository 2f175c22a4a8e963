package suite

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

func TestARunWithTooFewSchedulesFails(t *testing.T) {
	for _, tc := range []struct {
		ran, min int
		fails    bool
	}{{0, 0, false}, {9, 10, true}, {10, 10, false}, {11, 10, false}} {
		if problem := hooksLost(tc.ran, tc.min); (problem != "") != tc.fails {
			t.Errorf("%d of at least %d schedules: %q", tc.ran, tc.min, problem)
		}
	}
}

func TestCatchNamesTheCasesThatFailHoweverTheyFail(t *testing.T) {
	races := &Races{}
	caught := Catch(t, []Case{
		{"fine", func(Reporter, testing.TB) {}},
		{"error", func(r Reporter, _ testing.TB) { r.Errorf("no") }},
		{"fatal", func(r Reporter, _ testing.TB) { r.Fatalf("no"); panic("it went on") }},
		{"panic", func(Reporter, testing.TB) { panic("no") }},
		{"race", func(r Reporter, _ testing.TB) {
			caller := func(ctx context.Context) { interleave.Point(ctx, "here") }
			races.Explore(r, Size{Min: 2, All: 10}, func() interleave.Case {
				return interleave.Case{
					Callers: []func(context.Context){caller, caller},
					Check:   func() error { return errors.New("no") },
				}
			})
		}},
	}, nil)
	if want := []string{"error", "fatal", "panic", "race"}; !slices.Equal(caught, want) {
		t.Errorf("caught %q, want %q", caught, want)
	}
}
