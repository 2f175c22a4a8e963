package retry

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// Clock is the time that Do goes by. It must be safe for concurrent use when its Policy is.
type Clock interface {
	// Now returns the present time. Do only looks at differences of it.
	Now() time.Time

	// Sleep returns nil once d has passed, or an error as soon as ctx has ended. It starts nothing that
	// outlives it.
	Sleep(ctx context.Context, d time.Duration) error
}

// systemClock is the default: the monotonic clock of the process.
type systemClock struct{}

func (systemClock) Now() time.Time { return wall.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
