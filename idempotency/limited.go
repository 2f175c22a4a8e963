package idempotency

import (
	"context"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
)

// limited is a context that ends at a time, when its parent ends, or when it is told to. It is what
// context.WithDeadline makes, for those who mostly don't wait for the end: the timer and its place with the
// parent are made when somebody asks for Done, and until then it is a few words within its owner. It is safe
// for concurrent use once begun.
type limited struct {
	parent context.Context
	until  time.Time // by wall.Runtime
	causes bool      // it may be told a cause
	alone  bool      // parent never ends
	used   bool      // by a trial

	over bool            // it has ended
	mu   sync.Mutex      // for over and what follows
	real context.Context // nil while nobody waits
	stop context.CancelFunc
	lose context.CancelCauseFunc // with causes
}

var _ context.Context = (*limited)(nil)

// begin starts l, which must not have been begun before.
func (l *limited) begin(parent context.Context, until time.Time) {
	l.parent, l.until = parent, until
}

// Deadline is the earlier of the parent's and the one that l was given.
func (l *limited) Deadline() (time.Time, bool) {
	if at, ok := l.parent.Deadline(); ok && at.Before(l.until) {
		return at, true
	}
	return l.until, true
}

// Done is where what others can wait for is made.
func (l *limited) Done() <-chan struct{} { return l.made().Done() }

// Err looks at the parent and at the clock itself while nobody waits. As soon as there is something to say, the
// real context says it, so that it stays.
func (l *limited) Err() error {
	l.mu.Lock()
	idle := l.real == nil && !l.over
	l.mu.Unlock()
	if idle && l.parent.Err() == nil && wall.Left(l.until) > 0 {
		return nil
	}
	return l.made().Err()
}

// Value asks the real context, which context.Cause and the contexts below l find by it. A parent that never
// ends may answer while there is none: Cause then goes on to ask Err.
func (l *limited) Value(key any) any {
	if l.alone {
		l.mu.Lock()
		idle := l.real == nil
		l.mu.Unlock()
		if idle {
			return l.parent.Value(key)
		}
	}
	return l.made().Value(key)
}

// made returns the real context, and makes it first if need be.
func (l *limited) made() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.real != nil {
		return l.real
	}
	parent := l.parent
	if l.causes {
		parent, l.lose = context.WithCancelCause(parent)
	}
	l.real, l.stop = context.WithDeadline(parent, l.until)
	if l.over {
		l.stop()
	}
	return l.real
}

// lost ends l with a cause. l was begun with causes.
func (l *limited) lost(cause error) {
	l.made()
	l.lose(cause)
}

// end ends l, and frees what was made for it.
func (l *limited) end() {
	l.mu.Lock()
	l.over = true
	stop, lose := l.stop, l.lose
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
	if lose != nil {
		lose(nil)
	}
}

// run is the context of a function: it knows the claim's token and, beside it, the steps.
type run struct {
	limited
	token int64
	steps *Steps
}

func (r *run) Value(key any) any {
	switch key.(type) {
	case tokenKey:
		return r.token
	case stepsKey:
		if r.steps != nil {
			return r.steps
		}
	}
	return r.limited.Value(key)
}
