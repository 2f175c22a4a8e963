// Package wall is the host's clock.
//
// All of Fifty reads the time here and not by [time.Now], so that a test can run a host whose clock is wrong.
// In a usual build [Now] is time.Now. In a build with the tag faultclock it adds the duration that [Variable]
// gives in the environment, such as +4h or -90m; [Skew] is that duration. The variable is read once, before
// main; a value that is no duration ends the program with exit code 2.
//
// A skewed reading keeps its monotonic part, moved by the same duration: differences between two readings of
// one process are true. Timers and deadlines of contexts are the runtime's own and run at their usual speed.
package wall

// Variable names the environment variable that moves the clock of a build with the tag faultclock.
const Variable = "FIFTY_FAULT_CLOCK"
