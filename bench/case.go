package main

import "context"

// A Case is one figure and the goal that it has to meet.
type Case struct {
	// Name is unique within its group: lower case, digits and hyphens.
	Name string

	// Goal decides between ok and short.
	Goal Goal

	// What says in a sentence or two what each side does.
	What string

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
