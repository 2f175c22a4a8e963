// Package wall is the host's clock.
//
// All of Fifty reads the time here and not by [time.Now], so that a test can run a host whose clock is wrong.
// In a usual build [Now] is time.Now. In a build with the tag faultclock it adds the duration that [Variable]
// gives in the environment, such as +4h or -90m; [Skew] is that duration. The variable is read once, before
// main; a value that is no duration ends the program with exit code 2.
//
// A skewed reading keeps its monotonic part, moved by the same duration: differences between two readings of
// one process are true. What the Go runtime does with time is not skewed, as it would not be by a clock that
// was set long ago: timers, and the deadlines of contexts and connections. A time that is given to it, or
// compared with one that it gave, is made from [Runtime].
package wall

import "time"

// Variable names the environment variable that moves the clock of a build with the tag faultclock.
const Variable = "FIFTY_FAULT_CLOCK"

// Runtime is the time by which the Go runtime judges deadlines, in every build. It is the host's time too, but
// never the one to store, to send or to judge an expiry by.
func Runtime() time.Time { return time.Now() }

// Left is how long it is, by the time of [Runtime], until a time that was made from it. It costs half of a reading.
func Left(until time.Time) time.Duration { return time.Until(until) }
