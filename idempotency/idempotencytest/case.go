package idempotencytest

import (
	"context"
	"fmt"
	"testing"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/idempotency"
)

// reporter is what a case needs of a *testing.T. Catch has another one, whose failures are noted only.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any) // ends the case; on its own goroutine only
	Context() context.Context
}

// testCase is one claim of the contract.
type testCase struct {
	name string
	// run proves the claim. Failures go to r; tb owns what the store needs.
	run func(r reporter, tb testing.TB, f Features)
}

// claim is a case on a store; txClaim one on a store with transactions.
type claim struct {
	name string
	run  func(w *world)
}

type txClaim[Tx any] struct {
	name string
	run  func(w *txWorld[Tx])
}

// cases are those of Run, with those about operators unless f says that the store has none.
func cases(newStore func(tb testing.TB, hook Hook) idempotency.Store, f Features) []testCase {
	var all []testCase
	groups := [][]claim{
		claimCases, expiryCases, completeCases, answerCases, batchCases, togetherCases, neighbourCases, raceCases, doCases,
		letGoCases, stepCases, stepRaceCases, doStepsCases, windowCases, sweepCases, sweepRaceCases,
		offerCases,
	}
	if f.NoOperator == "" {
		groups = append(groups, listCases, resolveCases, resolveRaceCases, eraseCases)
	}
	for _, group := range groups {
		for _, c := range group {
			all = append(all, testCase{c.name, func(r reporter, tb testing.TB, f Features) {
				r.Helper()
				c.run(newWorld(r, newStore(tb, interleave.Point), f))
			}})
		}
	}
	return all
}

func txCases[Tx any](newTx func(tb testing.TB, hook Hook) TxHarness[Tx]) []testCase {
	var all []testCase
	for _, group := range [][]txClaim[Tx]{
		txnCases[Tx](), inTxCases[Tx](), doTxCases[Tx](), txRaceCases[Tx](), txWindowCases[Tx](), txLateCases[Tx](),
	} {
		for _, c := range group {
			all = append(all, testCase{c.name, func(r reporter, tb testing.TB, f Features) {
				r.Helper()
				h := newTx(tb, interleave.Point)
				c.run(&txWorld[Tx]{newWorld(r, h.Store, f), h})
			}})
		}
	}
	return all
}

func run(t *testing.T, all []testCase, f Features) {
	t.Helper()
	schedules, ran := 0, 0
	f.schedules = &schedules
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			ran++
			c.run(t, t, f)
		})
	}
	t.Logf("%d schedules in all", schedules)
	if whole := ran == len(all) && f.Schedule == ""; whole {
		if problem := hooksLost(schedules, f.SchedulesMin); problem != "" {
			t.Error(problem)
		}
	}
}

// hooksLost says what a run with too few schedules means.
func hooksLost(schedules, schedulesMin int) string {
	if schedules >= schedulesMin {
		return ""
	}
	return fmt.Sprintf("the races went through %d schedules in all, want at least %d: are there hooks missing?", schedules, schedulesMin)
}
