// Package interleave runs a few concurrent callers in every possible order.
//
// A caller runs until it reaches a point that the code under test names with [Point], and waits there
// until it is its turn: exactly one goes at a time. [Explore] starts the same case over and over, each
// time with another order, until there is none left. A race that can happen between two points therefore
// happens, in each run of the test, and the order that showed it can be replayed.
//
// A caller may also be stopped by something that this package does not see, such as a row lock in a
// database that another caller holds. It counts as blocked once it has been silent for a grace, or once
// [Options].Blocked says so; the others go on, and it joins them again at its next point.
//
// # Files
//
//   - explore.go: the orders, depth first
//   - schedule.go: one order, step by step
//   - point.go: how callers stop
//   - failure.go: what a failing order looks like
package interleave
