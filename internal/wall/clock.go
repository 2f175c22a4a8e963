//go:build !faultclock

package wall

import "time"

// Faulty tells whether this build heeds [Variable].
const Faulty = false

// Now is the host's time, with a monotonic reading.
func Now() time.Time { return time.Now() }

// Since is the time since a reading of [Now].
func Since(t time.Time) time.Duration { return time.Since(t) }

// Skew is how far [Now] is ahead of the host's clock.
func Skew() time.Duration { return 0 }
