package fifty

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sweeper tidies what expired. It is never needed for correctness, only for space, and may run on any
// number of hosts at once.
type Sweeper interface {
	Sweep(ctx context.Context) (removed int, err error)
}

// Sweep runs the sweepers one after another, about every so often, until ctx is done, and returns the
// cause. Run it on every host. The rounds of many hosts spread by themselves: each wait is drawn between half
// and one and a half of every. A sweeper's error does not stop the rounds; the sweepers report it to their
// Observer. It returns an ErrInvalid at once when every is not positive.
func Sweep(ctx context.Context, every time.Duration, sweepers ...Sweeper) error {
	if every <= 0 {
		return &InvalidError{Field: "every", Problem: "must be positive: a minute, say"}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(every/2 + rand.N(every))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		for _, s := range sweepers {
			_, _ = s.Sweep(ctx) // reported by the sweeper
		}
	}
}
