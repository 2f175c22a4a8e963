// Package retry runs a call again when it failed, bounded in attempts, in time and in load.
//
// The waits have full jitter: each is drawn from U(0, min(Cap, Base·2ⁿ)), so that clients that failed
// together don't come back together (Marc Brooker, "Exponential Backoff And Jitter", 2015). A [Budget],
// shared by the calls to one peer, keeps retries a small part of the traffic when that peer is down for
// all of them. A peer that says how long to stay away ([After], [ParseAfter]) is heard.
//
// # What is retried
//
// A call that arrives twice may take effect twice, so the error of an attempt decides:
//
//   - an error of [Permanent], [fifty.ErrInvalid] and [fifty.ErrUnsupported]: never;
//   - [fifty.ErrUnknownOutcome]: only with Policy.Idempotent, which promises that each attempt carries the
//     same id and that the peer knows a repeat by it;
//   - anything else: unless Policy.Retryable says no;
//   - nothing once the caller's context has ended.
//
// A lost reply must therefore reach Do as [fifty.ErrUnknownOutcome]. Do can't see it in a time-out or in
// a connection that broke: fn knows whether its request had been sent.
//
// # What an unknown outcome leaves behind
//
// When one attempt's reply was lost and a later attempt never reached the peer, the operation may still
// have happened. Do remembers that: whatever ends it, its error is then an [fifty.ErrUnknownOutcome] as
// well. Two things settle it: a success, and an error of [Permanent], which is the peer's answer.
//
// # Files
//
//   - policy.go: Policy, its defaults, the length of a wait
//   - do.go: Do, Value, the loop
//   - errors.go: Permanent and what Do returns
//   - after.go: push-back by the peer
//   - budget.go: Budget
//   - clock.go: Clock
package retry
