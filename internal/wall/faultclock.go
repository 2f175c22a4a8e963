//go:build faultclock

package wall

import (
	"fmt"
	"os"
	"time"
)

// Faulty tells whether this build heeds [Variable].
const Faulty = true

var skew = fromEnvironment()

// Now is the host's time moved by [Skew], with a monotonic reading.
func Now() time.Time { return time.Now().Add(skew) }

// Skew is how far [Now] is ahead of the host's clock.
func Skew() time.Duration { return skew }

func fromEnvironment() time.Duration {
	text := os.Getenv(Variable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "fifty: %s=%q is no duration: set it to one such as +4h or -90m, or unset it\n", Variable, text)
		os.Exit(2)
	}
	return d
}
