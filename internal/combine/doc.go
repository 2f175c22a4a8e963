// Package combine makes one call of many: concurrent operations of one process on one store go out
// together, and each caller gets its own outcome.
//
// # How a batch forms
//
// There is no timer, and nobody waits for company. Picture a ferry and a quay.
//
// The first caller finds the quay empty and the ferry there. It does not wait: it rows over by itself, on
// its own goroutine, with [Config].One if there is one. Whoever arrives while it is away queues on the
// quay. When the ferry is back, everybody who stands there boards, oldest first, up to [Config].BatchMax;
// the next ones queue meanwhile. So the batches grow by themselves with the load and with the time that
// one call takes, and without load there are none. When the ferry comes back to an empty quay it ties up:
// no goroutine is left, and no memory for the group.
//
// Passengers who were just set ashore are often back at once, with their next operation. Leaving in that
// moment would split them for ever into two halves that take turns. So the ferry first yields the
// processor, at most [Config].Yields times, until as many are there as it has set ashore and left behind.
//
// Others have something to do ashore, and come back in a wave when the ferry has tied up: whoever was claimed
// for together completes together. The first of them would leave alone, and the rest wait for its crossing. So
// after a crossing with several aboard, who finds the quay empty lets the ferry yield for as many.
//
// A [Config].Group has a quay and [Config].InFlight ferries of its own: groups never wait for each other.
// A [Combiner] is a lane. What must not wait behind other work, such as renewals behind claims, gets a
// Combiner of its own.
//
// # Who runs a batch
//
// A lone caller runs its own operation, on its own context. A batch of several runs on a goroutine that
// lives while somebody queues, and on a context of its own. One of the callers could run it instead, and
// save the switch; but a goroutine that is inside run can't leave when its own context ends, and then the
// caller would be late for its deadline for the sake of strangers. For the same reason nobody ever serves
// the others: what a caller waits for is its own batch.
//
// The context of a batch has no values: those of one member are not the others' business. So run must not
// look for any.
//
// # Outcomes
//
//   - no: run said so of the member, by its Out or by a definite error; or it was never sent
//     ([ErrBusy], [NotSentError]); or it failed together with others ([TogetherError]).
//   - unknown: an error that is a fifty.ErrUnknownOutcome. Run said so, of the whole call; or it panicked
//     ([PanicError]) or left its goroutine, maybe after the commit; or the caller left first ([LeftError]).
//     Nothing is sent again for it here: the caller asks again, with the same id.
//   - yes: everything else.
//
// A definite failure of several is bisected: nothing has happened, so each half is sent by itself, and so
// on, until the one that can't be done fails alone. The calls for that are bounded by [Config].CallsMax and
// [Config].Timeout.
//
// A panic of run does not go on to the callers, as it does in singleflight, where all of them asked for the
// same thing. Here 255 of 256 have nothing to do with it, and their requests may be committed: they must
// hear *unknown*, not break off. Nor does it end the process; it is counted, it is told to the Observer
// with its stack, and every member's error carries it.
//
// # What run must do
//
// It takes locks in one order, whatever the order of the batch ([Config].Compare can sort it), and knows
// that two members may be about one row or have one id. It keeps nothing of the slice that it was given. It
// ends soon after its context: until then its group waits, and its callers can only leave. It does not call
// its own Combiner, behind which it would wait for itself.
//
// There is no Close: a Combiner without callers has nothing that could be closed. A batch whose callers
// have all left still ends within Config.Timeout.
//
// # Files
//
//   - config.go: Config, its defaults
//   - combine.go: Combiner, a caller's way in and out
//   - group.go: a group and its queue
//   - flight.go: batches: when they form, what they are
//   - split.go: one batch's calls, and who gets which outcome
//   - stats.go: what is counted and told
//   - errors.go: the errors
package combine
