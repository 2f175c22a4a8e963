package sqlite

import (
	"sync"
	"time"
)

// clock is the file's time as this process knows it, in microseconds since 1970. It starts from the host's
// clock and never goes back: not when that one is set back, and not below a mark that was read from the
// file. While the host's clock is behind, it goes on at the pace of the monotonic clock, so that leases
// still run out. It is safe for concurrent use.
type clock struct {
	host func() time.Time

	mu   sync.Mutex
	base time.Time // a reading of host
	at   int64     // the file's time at that reading; in nanoseconds, so that no step is lost
	last int64     // the latest time that was told
}

func newClock(host func() time.Time) *clock {
	base := host()
	return &clock{host: host, base: base, at: base.UnixNano(), last: base.UnixNano()}
}

// now returns the time, which is at least mark.
func (c *clock) now(mark int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := c.host()
	elapsed := host.Sub(c.base) // by the monotonic readings, where host has them
	if elapsed < 0 {
		c.base, c.at, elapsed = host, c.last, 0
	}
	told := max(c.at+int64(elapsed), c.last)
	if ahead := max(host.UnixNano(), mark*int64(time.Microsecond)); ahead > told {
		told = ahead
		c.base, c.at = host, told
	}
	c.last = told
	return micros(time.Duration(told))
}
