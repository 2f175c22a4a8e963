package interleave

import (
	"context"
	"fmt"
	"runtime"
)

type callerKey struct{}

// caller is one of the functions of a Case in one schedule.
type caller struct {
	id     int
	events chan<- event
	over   <-chan struct{} // closed when the schedule is decided: nobody waits from then on
}

// event is what a caller tells the scheduler: that it waits at a point, or that it is finished.
type event struct {
	caller   int
	point    string
	release  chan struct{}
	finished bool
	err      error
}

// Point stops a caller of the schedule that ctx belongs to until it is its turn. With any other context it
// returns at once, and so it does when ctx ends. It is safe for concurrent use.
func Point(ctx context.Context, name string) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return
	}
	release := make(chan struct{})
	select {
	case c.events <- event{caller: c.id, point: name, release: release}:
	case <-c.over:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-release:
	case <-c.over:
	case <-ctx.Done():
	}
}

// run calls fn and tells the scheduler that it has returned, whatever way it did.
func (c *caller) run(ctx context.Context, fn func(ctx context.Context)) {
	returned := false
	defer func() {
		var err error
		if v := recover(); v != nil {
			stack := make([]byte, stackMax)
			err = fmt.Errorf("caller %s panicked: %v\n%s", letter(c.id), v, stack[:runtime.Stack(stack, false)])
		} else if !returned {
			err = fmt.Errorf("caller %s left its goroutine", letter(c.id))
		}
		select {
		case c.events <- event{caller: c.id, finished: true, err: err}:
		case <-c.over:
		}
	}()
	fn(context.WithValue(ctx, callerKey{}, c))
	returned = true
}

// stackMax bounds the stack, in bytes, that is printed of a caller that panicked.
const stackMax = 8 << 10
