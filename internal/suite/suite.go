// Package suite is what the conformance suites of stores share: cases that are proved on any store, that a
// store broken on purpose must fail, and whose races run in every order.
//
//   - suite.go: Case and Run; catch.go: Catch; races.go: Races
package suite

import (
	"context"
	"testing"
)

// Reporter is what a case needs of a *testing.T. Catch has another one, whose failures are noted only.
type Reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any) // ends the case; on its own goroutine only
	Context() context.Context
}

// Case is one claim of a contract.
type Case struct {
	Name string

	// Run proves the claim. Failures go to r; tb owns what the store needs.
	Run func(r Reporter, tb testing.TB)
}

// Run proves each case in a subtest of its own. When all of them have run, it fails t if their races went
// through too few schedules.
func Run(t *testing.T, all []Case, races *Races) {
	t.Helper()
	ran := 0
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			ran++
			c.Run(t, t)
		})
	}
	t.Logf("%d schedules in all", races.schedules)
	if whole := ran == len(all) && races.Schedule == ""; whole {
		if problem := hooksLost(races.schedules, races.SchedulesMin); problem != "" {
			t.Error(problem)
		}
	}
}
