package history

import (
	"crypto/rand"
	"fmt"
	"math"
	"os"
)

// Forever is the return stamp of an operation whose outcome is unknown.
const Forever int64 = math.MaxInt64

// Now is the time of the clock that stamps operations, in nanoseconds. It never goes backwards and no change
// of the date moves it. On Linux all processes of a host read the same clock; elsewhere each its own.
func Now() int64 { return now() }

// processOrigin names a clock that no other process shares.
func processOrigin() string { return fmt.Sprintf("process %d %s", os.Getpid(), rand.Text()) }
