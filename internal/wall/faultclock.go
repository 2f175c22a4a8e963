//go:build faultclock

package wall

import (
	"fmt"
	"os"
	"time"
)

// Faulty tells whether this build heeds [Variable].
const Faulty = true

// skewMax bounds the skew, so that every time in reach can still be stored.
const skewMax = 100 * 365 * 24 * time.Hour

var skew = fromEnvironment()

// Now is the host's time moved by [Skew], with a monotonic reading.
func Now() time.Time { return time.Now().Add(skew) }

// Since is the time since a reading of [Now].
func Since(t time.Time) time.Duration { return Now().Sub(t) }

// Skew is how far [Now] is ahead of the host's clock.
func Skew() time.Duration { return skew }

func fromEnvironment() time.Duration {
	text := os.Getenv(Variable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d > skewMax || d < -skewMax {
		fmt.Fprintf(os.Stderr, "fifty: %s=%q is no duration within ±%v: set it to one such as +4h or -90m, or unset it\n",
			Variable, text, skewMax)
		os.Exit(2)
	}
	return d
}
