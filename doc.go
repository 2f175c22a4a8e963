// Package fifty is Go's sync package for services that run on many hosts.
//
// It answers one question for every write of a service: what if this arrives twice? Each problem is
// solved in one process first, with its linearization point named, and then relocated to a system that
// all hosts can see: a database row, a unique index, a conditional update.
//
// This package holds what all the others share: the three outcomes (yes, no, and [ErrUnknownOutcome]),
// the [Observer] that sees what an operator counts, and [Sweep], which tidies what expired. The
// primitives are packages of their own, such as idempotency; the systems that hold their state are the
// store packages, such as store/postgres.
package fifty
