package suite

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
)

// Catch runs cases against a store that is broken on purpose, and returns the names of those that failed, in
// order. Their failures are logged on t and don't fail it. With only, just the cases of these names run; a
// name that is none fails t.
func Catch(t *testing.T, all []Case, only []string) []string {
	t.Helper()
	for _, name := range only {
		if !slices.ContainsFunc(all, func(c Case) bool { return c.Name == name }) {
			t.Errorf("there is no case %q", name)
		}
	}
	var caught []string
	for _, c := range all {
		if len(only) > 0 && !slices.Contains(only, c.Name) {
			continue
		}
		r := &recorder{ctx: t.Context()}
		r.watch(func() { c.Run(r, t) })
		if r.failure != "" {
			t.Logf("caught by %q: %s", c.Name, r.failure)
			caught = append(caught, c.Name)
		}
	}
	return caught
}

// recorder is a Reporter that keeps the first failure for itself. It is safe for concurrent use.
type recorder struct {
	ctx context.Context

	mu      sync.Mutex
	failure string
}

// watch runs a case to its end, on a goroutine that Fatalf may end. A panic is a failure.
func (r *recorder) watch(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				r.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		run()
	}()
	<-done
}

func (r *recorder) Helper()                  {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
