package fifty

import (
	"context"
	"log/slog"
	"time"
)

// Event is one thing that an operator counts: a replay, a lost lease, a completion that failed.
type Event struct {
	Name  string        // package and fact, "idempotency.replay"; the package's doc lists its events
	Took  time.Duration // how long it took; zero where that has no meaning
	Err   error         // why it failed; nil when it did not
	Attrs []slog.Attr   // details; never a key's stored answer, which may hold secrets
}

// Observer sees the events of a primitive. Observe is called on the caller's goroutine, often on a hot
// path, so it must be quick and must not panic; it is called concurrently.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observers calls each of the given observers in order. Nil ones are left out.
func Observers(all ...Observer) Observer {
	kept := make([]Observer, 0, len(all))
	for _, o := range all {
		if o != nil {
			kept = append(kept, o)
		}
	}
	return ObserverFunc(func(ctx context.Context, e Event) {
		for _, o := range kept {
			o.Observe(ctx, e)
		}
	})
}
