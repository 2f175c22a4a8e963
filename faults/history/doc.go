// Package history records what concurrent callers asked and were told, and checks whether the answers could
// have come from one object that does one thing at a time (linearizability), with porcupine.
//
//	rec := history.NewRecorder[string, int](nil)
//	// in each caller, around each call:
//	op := rec.Begin(caller, key, "increment")
//	n, err := counter.Increment(ctx, key)
//	if err != nil {
//		op.Unknown() // it may have happened
//	} else {
//		op.End(n)
//	}
//	// at the end:
//	h, err := rec.History()
//	report, err := history.Check(h, history.Config{Model: model, Name: t.Name()})
//
// # What to record
//
// The caller's view: from before it asked until after it was told. Of a call that may have happened although
// its caller got an error, the outcome is unknown: its end lies at [Forever], and the model must accept it in
// any state. A call that certainly changed nothing and told nothing, such as a read that failed, is dropped.
//
// # What decides the time of a check
//
// The number of calls on one key whose intervals overlap. Each key is checked by itself, with a limit of its
// own; one that is not decided in time fails, never passes. Many short histories on many keys find more than
// a long one. An unknown outcome overlaps with everything that comes after it: some ten on one key are the most
// that can be decided.
//
// # Several processes
//
// On Linux stamps are those of CLOCK_MONOTONIC, which all processes of one host share, so their histories can
// be put together: see [Merge]. A process asks the kernel for it once, and goes on from there by Go's reading of
// the same clock; how far the two may be apart, some microseconds at most, is kept with the history. Each process gives its Recorder a file as log, to which each call is written
// before it begins: what a killed process was about is there, as unknown. A Recorder costs a call well below a
// microsecond without a log, and a write to the file twice with one.
//
// # Files
//
//   - recorder.go: Recorder and Pending
//   - history.go: History, Operation and Merge
//   - file.go: JSON lines; clock.go, clock_linux.go, clock_other.go: stamps
//   - check.go: Check
package history
