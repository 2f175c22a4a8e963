package main

import (
	"fmt"
	"math"
)

// largeMin is the bound from which a goal and its values are whole numbers: bytes, not ratios.
const largeMin = 1000

// A Goal is a bound on a figure. The zero Goal is met by every figure.
type Goal struct {
	relation string // ">=", "<=" or empty
	bound    float64
}

// atLeast is met by bound and above.
func atLeast(bound float64) Goal { return Goal{">=", bound} }

// atMost is met by bound and below.
func atMost(bound float64) Goal { return Goal{"<=", bound} }

// noGoal is met by every figure: it is shown, and nothing is claimed about it.
func noGoal() Goal { return Goal{} }

func (g Goal) String() string {
	if g.relation == "" {
		return "none"
	}
	return g.relation + g.number(g.bound)
}

// met says whether value meets the goal. It judges the value as it is printed.
func (g Goal) met(value float64) bool {
	switch shown := g.shown(value); g.relation {
	case ">=":
		return shown >= g.bound
	case "<=":
		return shown <= g.bound
	default:
		return !math.IsNaN(value)
	}
}

// shown is value with the digits that are printed, rounded towards missing the goal: a figure that reads as
// the goal has met it.
func (g Goal) shown(value float64) float64 {
	scale := 100.0
	if g.bound >= largeMin || g.relation == "" && value >= largeMin {
		scale = 1
	}
	// What a decimal fraction loses as a float must not tip the rounding.
	const slack = 1e-9
	switch g.relation {
	case ">=":
		return math.Floor(value*scale+slack) / scale
	case "<=":
		return math.Ceil(value*scale-slack) / scale
	default:
		return math.Round(value*scale) / scale
	}
}

// text is value as it is printed.
func (g Goal) text(value float64) string { return g.number(g.shown(value)) }

func (g Goal) number(n float64) string {
	if g.bound >= largeMin || n >= largeMin {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2f", n)
}
