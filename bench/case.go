package main

import (
	"context"
	"slices"
)

// A Case is one figure and the goal that it has to meet.
type Case struct {
	// Name is unique within its group: lower case, digits and hyphens.
	Name string

	// Goal decides between ok and short.
	Goal Goal

	// What says in a sentence or two what each side does.
	What string

	// Curve and At place the figure in a plot: At is how many there are of what Curve names. Without a Curve it
	// is in none.
	Curve string
	At    int

	// Run measures and returns the figure. It has b to itself, cleans up with b.Cleanup and returns
	// ctx's error soon after ctx ends.
	Run func(ctx context.Context, b *bench) (float64, error)
}

// A group is the cases that go run . NAME measures.
type group struct {
	Name  string
	What  string
	Cases []Case
}

// grows tells whether it has something to draw.
func (g group) grows() bool {
	return slices.ContainsFunc(g.Cases, func(c Case) bool { return c.Curve != "" })
}
