// Package interleave runs a few concurrent callers in every possible order.
//
// A caller runs until it reaches a point that the code under test names with [Point], and waits there
// until it is its turn: exactly one goes at a time. [Explore] starts the same case over and over, each
// time with another order, until there is none left. A race that can happen between two points therefore
// happens, in each run of the test, and the order that showed it can be replayed.
//
// The number of orders grows fast: three callers with three points each have 1,680, with five 756,756. A case
// that is too large for [Explore] goes to [Sample], where a seed chooses at each step who runs. Some hundred
// seeds find most races and prove nothing about the others. A failure names its seed and prints the command
// that runs just that order again.
//
// Callers must not depend on anything but their turns: a random number or a clock of their own makes an order
// that can't be replayed. Where to put a Point: just before each act that others can see, with no lock held
// that another caller may want.
//
// A caller may also be stopped by something that this package does not see, such as a row lock in a
// database that another caller holds. It counts as blocked once it has been silent for a grace, or once
// [Options].Blocked says so; the others go on, and it joins them again at its next point.
//
// # Files
//
//   - explore.go: the orders, depth first
//   - sample.go: the orders that seeds choose
//   - schedule.go: one order, step by step
//   - point.go: how callers stop
//   - failure.go: what a failing order looks like
package interleave
