package retry

import (
	"math/rand/v2"
	"time"

	"github.com/fiftyhosts/fifty"
)

// What the zero Policy means. Both bounds always hold: no Policy retries for ever.
const (
	baseDefault        = 50 * time.Millisecond
	capDefault         = 5 * time.Second
	elapsedMaxDefault  = 30 * time.Second
	attemptsMaxDefault = 5
)

// Policy says when and how often to try again. The zero value works. A Policy is only read: one may be
// used by any number of calls at once, if the functions in it may.
type Policy struct {
	// Base is the longest first wait; each further one may be twice as long. Defaults to 50 ms.
	Base time.Duration

	// Cap bounds every drawn wait; what a peer asks for by After comes on top. A Cap below Base bounds
	// the first wait too. Defaults to 5 s, or to Base if that is longer.
	Cap time.Duration

	// ElapsedMax bounds the time from the call of Do to the start of the last attempt: no wait begins
	// that would end later, and no attempt begins later. An attempt that runs is not interrupted: bound
	// it by the context. Defaults to 30 s.
	ElapsedMax time.Duration

	// AttemptsMax bounds the attempts, the first one included: 1 never retries. Defaults to 5.
	AttemptsMax int

	// Budget bounds the retries of all calls that share it. Defaults to none.
	Budget *Budget

	// Idempotent promises that every attempt carries the same id and that the peer knows a repeat by
	// it; it allows to retry after fifty.ErrUnknownOutcome. Defaults to false.
	Idempotent bool

	// Retryable reports whether an attempt's error is worth another attempt. It is asked only about
	// errors that may be retried at all (see the package's doc), so it can only forbid. Defaults to yes.
	Retryable func(error) bool

	// Jitter draws a wait from 0 to max, which is above 0. What it returns is held within those bounds.
	// Defaults to a uniform draw.
	Jitter func(max time.Duration) time.Duration

	// Clock tells the time and waits. Defaults to the system's monotonic clock.
	Clock Clock
}

// check refuses what can only be a mistake.
func (p Policy) check() error {
	switch {
	case p.Base < 0:
		return &fifty.InvalidError{Field: "Policy.Base", Problem: "is negative; leave it zero for the default"}
	case p.Cap < 0:
		return &fifty.InvalidError{Field: "Policy.Cap", Problem: "is negative; leave it zero for the default"}
	case p.ElapsedMax < 0:
		return &fifty.InvalidError{Field: "Policy.ElapsedMax", Problem: "is negative; there is no unbounded retry, leave it zero for the default"}
	case p.AttemptsMax < 0:
		return &fifty.InvalidError{Field: "Policy.AttemptsMax", Problem: "is negative; there is no unbounded retry, leave it zero for the default"}
	}
	return nil
}

// withDefaults fills in what is zero.
func (p Policy) withDefaults() Policy {
	if p.Base == 0 {
		p.Base = baseDefault
	}
	if p.Cap == 0 {
		p.Cap = max(capDefault, p.Base)
	}
	if p.ElapsedMax == 0 {
		p.ElapsedMax = elapsedMaxDefault
	}
	if p.AttemptsMax == 0 {
		p.AttemptsMax = attemptsMaxDefault
	}
	if p.Jitter == nil {
		p.Jitter = uniform
	}
	if p.Clock == nil {
		p.Clock = systemClock{}
	}
	return p
}

// uniform draws from 0 to max, both included.
func uniform(max time.Duration) time.Duration {
	return time.Duration(rand.Uint64N(uint64(max) + 1)) // max is not negative, so neither sum nor result overflows
}

// ceiling returns min(limit, base·2ⁿ) for base and limit above 0. It divides the limit instead of
// multiplying the base: a shift of the base would overflow, to a wait of zero just when a peer has
// been down the longest.
func ceiling(base, limit time.Duration, n int) time.Duration {
	if base > limit>>n { // a large n leaves nothing of the limit, and so always lands here
		return limit
	}
	return base << n
}

// wait draws how long to wait after failed attempt n, counted from 0, when the peer asked for pushBack
// and remaining is left of ElapsedMax. fits is false when the wait would end too late.
//
// A push-back is a least wait: jitter comes on top, or all the clients that a peer sent away would
// return at one moment. The jitter is drawn from what remains, so a push-back that fits is never
// refused for its jitter.
func (p Policy) wait(n int, pushBack, remaining time.Duration) (wait time.Duration, fits bool) {
	if pushBack > remaining {
		return pushBack, false
	}
	most := ceiling(p.Base, p.Cap, n)
	if pushBack > 0 {
		most = min(most, remaining-pushBack)
	}
	var drawn time.Duration
	if most > 0 {
		drawn = min(max(p.Jitter(most), 0), most)
	}
	if drawn > remaining-pushBack {
		return drawn, false
	}
	return pushBack + drawn, true
}
