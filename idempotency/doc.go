// Package idempotency makes a request that arrives twice take effect once, and gives every arrival the
// same answer.
//
// # In one process
//
// A map from key to request state and one putIfAbsent: whoever's put finds nothing owns the execution,
// everyone else is a duplicate. The linearization point is that put. Package store/memory is this form.
//
// # On fifty hosts
//
// There is no shared map, so the atomic act is borrowed from a system that every host can see. The unique
// index on (scope, key) is the linearization point: the insert is the check, and the violation is the
// answer, not an error. The claim is made before the work, so that no work is ever without evidence.
//
// # Which form to use
//
// [TxKeys.InTx] when the work is a write to the database that also holds the keys: claim, work and answer
// are one commit. [TxKeys.DoTx] is the same in a transaction of yours. [Keys.Do] when the work reaches
// elsewhere: it never starts its function twice, and an owner that vanished leaves the key unresolved.
// [Keys.DoSteps] when such work has parts that can be told apart: the next arrival goes on behind the last
// part that finished.
//
// # Files
//
//   - request.go: the request's identity, and what is a valid one
//   - fingerprint.go: what tells two bodies under one key apart
//   - response.go: the answer that is kept
//   - store.go: what a store must do; judge.go: what it decides about a key that is there already
//   - keep.go, seal.go: in which form an answer is kept; natural.go: when no key is needed
//   - keys.go: Do; claim.go, complete.go and beat.go: its three conversations with the store
//   - together.go: what many callers ask of the store at the same time
//   - limited.go, firsts.go: contexts and first heartbeats that cost a timer only when somebody waits for them
//   - wait.go: how a duplicate waits; lately.go and storm.go: when an arrival reads before it claims
//   - perattempt.go: the sign of a client that makes a key per attempt
//   - window.go, sweep.go: how long a key is remembered; operator.go: what people decide
//   - tx.go: InTx and DoTx; steps.go: DoSteps, Step and StepOnce
//   - outcome.go, errors.go: what a function may return, and what callers get
//
// # Events
//
// An Observer in Config sees: idempotency.claimed, .replayed, .in_flight, .mismatch, .unresolved,
// .completed, .refused, .freed, .let_go, .rolled_back, .left_unknown, .completion_failed,
// .lease_lost, .superseded, .sweep_failed, .key_per_attempt. It also sees combine.batch for each call of the store
// with several members, with its lane (idempotency.claims, .completions, .renewals), its size, and how many calls it
// took to find a member that could not be done; and combine.panicked.
package idempotency
