package retry

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// After marks err with the push-back of a peer: the next attempt starts no sooner than wait from now,
// plus jitter. A wait that doesn't fit into what is left of Policy.ElapsedMax ends Do at once, with an
// error that is ErrPushBack. A negative wait counts as zero. Where errors with a push-back are nested,
// the outermost counts. After(wait, nil) is nil. The error unwraps to err.
func After(wait time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &pushBackError{wait: max(wait, 0), err: err}
}

// pushBackOf returns the wait that a peer asked for, or zero.
func pushBackOf(err error) time.Duration {
	if p, ok := errors.AsType[*pushBackError](err); ok {
		return p.wait
	}
	return 0
}

type pushBackError struct {
	wait time.Duration
	err  error
}

func (e *pushBackError) Error() string { return e.err.Error() }
func (e *pushBackError) Unwrap() error { return e.err }

// The three forms of an HTTP date (RFC 9110, section 5.6.7). All are in UTC; a literal GMT keeps
// time.Parse from guessing the offset of another zone's name.
var httpDates = [...]string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	"Mon Jan _2 15:04:05 2006",
}

// ParseAfter reads the value of an HTTP Retry-After header: a number of seconds, or a date, of which it
// returns the distance from now. A date in the past gives zero; a wait beyond what a time.Duration holds
// gives the longest one. It reports false for anything else, the empty value included.
func ParseAfter(header string, now time.Time) (wait time.Duration, ok bool) {
	header = strings.TrimSpace(header)
	if isDigits(header) {
		const secondsMax = uint64(math.MaxInt64 / int64(time.Second))
		seconds, err := strconv.ParseUint(header, 10, 64)
		if err != nil || seconds > secondsMax { // digits only, so err means too large
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	for _, form := range httpDates {
		if at, err := time.Parse(form, header); err == nil {
			return max(at.Sub(now), 0), true // Sub saturates
		}
	}
	return 0, false
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
