package main

import (
	"math"
	"testing"
)

func TestGoalJudgesTheFigureThatIsPrinted(t *testing.T) {
	for _, c := range []struct {
		goal  Goal
		value float64
		text  string
		met   bool
	}{
		{atLeast(0.97), 0.97, "0.97", true},
		{atLeast(0.97), 0.9699, "0.96", false}, // never printed as the goal that it misses
		{atLeast(0.97), 1.0451, "1.04", true},
		{atMost(1.1), 1.1, "1.10", true},
		{atMost(1.1), 1.1001, "1.11", false},
		{atMost(1.1), 1.0001, "1.01", true},
		{atMost(8), 8, "8.00", true},
		{atMost(262144), 262144, "262144", true},
		{atMost(262144), 262144.5, "262145", false},
		{atMost(262144), 93.2, "94", true},
		{noGoal(), 0.4249, "0.42", true},
		{noGoal(), math.NaN(), "NaN", false},
		{atLeast(1), math.NaN(), "NaN", false},
		{atMost(1), math.NaN(), "NaN", false},
	} {
		if got := c.goal.text(c.value); got != c.text {
			t.Errorf("goal %v shows %v as %s, want %s", c.goal, c.value, got, c.text)
		}
		if got := c.goal.met(c.value); got != c.met {
			t.Errorf("goal %v met by %v: %v, want %v", c.goal, c.value, got, c.met)
		}
	}
}

func TestGoalIsPrintedAsARelationAndABound(t *testing.T) {
	for want, g := range map[string]Goal{">=0.97": atLeast(0.97), "<=1.10": atMost(1.1), "<=262144": atMost(262144), "none": noGoal()} {
		if got := g.String(); got != want {
			t.Errorf("goal is printed as %s, want %s", got, want)
		}
	}
}
