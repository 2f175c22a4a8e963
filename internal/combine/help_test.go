package combine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/internal/combine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errBad  = errors.New("a definite failure")
	errLost = fmt.Errorf("the reply was lost: %w", fifty.ErrUnknownOutcome)
)

type (
	config   = combine.Config[string, string]
	combiner = combine.Combiner[string, string]
)

// call is one call that a combiner made. It goes on when the test answers.
type call struct {
	ctx    context.Context
	ops    []string
	answer chan func(ops []string) ([]string, error)
}

// store is where the calls go: the test takes them one by one.
type store struct {
	t     *testing.T
	calls chan *call
}

func newStore(t *testing.T) *store { return &store{t, make(chan *call, 1000)} }

// run is what a combiner gets. It ends with its context, as it must.
func (s *store) run(ctx context.Context, ops []string) ([]string, error) {
	c := &call{ctx, slices.Clone(ops), make(chan func([]string) ([]string, error))}
	s.calls <- c
	select {
	case f := <-c.answer:
		return f(ops)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// next is the next call, which must be of these operations.
func (s *store) next(ops ...string) *call {
	s.t.Helper()
	synctest.Wait()
	select {
	case c := <-s.calls:
		if !slices.Equal(c.ops, ops) {
			s.t.Fatalf("the call is of %v, want %v", c.ops, ops)
		}
		return c
	default:
		s.t.Fatalf("nothing was sent, want %v", ops)
		return nil
	}
}

// quiet says that nothing is being sent.
func (s *store) quiet() {
	s.t.Helper()
	synctest.Wait()
	if n := len(s.calls); n > 0 {
		s.t.Fatalf("%v was sent", (<-s.calls).ops)
	}
}

// done answers every operation with itself in capitals.
func (c *call) done() {
	c.answer <- func(ops []string) ([]string, error) {
		outs := make([]string, len(ops))
		for i, op := range ops {
			outs[i] = strings.ToUpper(op)
		}
		return outs, nil
	}
}

func (c *call) fail(err error) { c.answer <- func([]string) ([]string, error) { return nil, err } }
func (c *call) panics(v any)   { c.answer <- func([]string) ([]string, error) { panic(v) } }
func (c *call) leaves() {
	c.answer <- func([]string) ([]string, error) { runtime.Goexit(); return nil, nil }
}

// pass lets time go by, in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// outcome is what a caller got.
type outcome struct {
	out string
	err error
}

// caller is one that is inside Do.
type caller struct {
	t      *testing.T
	op     string
	cancel context.CancelFunc
	got    chan outcome
	err    error // of its outcome, once the test has asked
}

// start lets a caller do op and waits until it does not go on by itself.
func start(t *testing.T, c *combiner, op string) *caller {
	return startWith(t, op, c.Do)
}

func startWith(t *testing.T, op string, do func(context.Context, string) (string, error)) *caller {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	who := &caller{t: t, op: op, cancel: cancel, got: make(chan outcome, 1)}
	go func() {
		defer close(who.got) // also when the goroutine is left
		out, err := do(ctx, op)
		who.got <- outcome{out, err}
	}()
	synctest.Wait()
	return who
}

// queue starts one caller after the other, each of which waits.
func queue(t *testing.T, c *combiner, ops ...string) []*caller {
	var all []*caller
	for _, op := range ops {
		all = append(all, start(t, c, op))
	}
	return all
}

// waits says that the caller has no outcome yet.
func (w *caller) waits() {
	w.t.Helper()
	synctest.Wait()
	select {
	case got := <-w.got:
		w.t.Fatalf("%s got %q, %v; it should still wait", w.op, got.out, got.err)
	default:
	}
}

// result is the outcome, which must be there.
func (w *caller) result() outcome {
	w.t.Helper()
	synctest.Wait()
	select {
	case got, ok := <-w.got:
		if !ok {
			w.t.Fatalf("%s has left its goroutine", w.op)
		}
		w.err = got.err
		return got
	default:
		w.t.Fatalf("%s still waits", w.op)
		return outcome{}
	}
}

// yes says that the caller got its own outcome.
func (w *caller) yes() {
	w.t.Helper()
	if got := w.result(); got.err != nil || got.out != strings.ToUpper(w.op) {
		w.t.Fatalf("%s got %q, %v", w.op, got.out, got.err)
	}
}

// no says that the caller got an error that is want and that leaves nothing open.
func (w *caller) no(want error) {
	w.t.Helper()
	got := w.result()
	if !errors.Is(got.err, want) || errors.Is(got.err, fifty.ErrUnknownOutcome) || got.out != "" {
		w.t.Fatalf("%s got %q, %v; want a definite %v", w.op, got.out, got.err, want)
	}
}

// unknown says that the caller got an error that is want and leaves the outcome open.
func (w *caller) unknown(want error) {
	w.t.Helper()
	got := w.result()
	if !errors.Is(got.err, want) || !errors.Is(got.err, fifty.ErrUnknownOutcome) || got.out != "" {
		w.t.Fatalf("%s got %q, %v; want an unknown outcome, and %v", w.op, got.out, got.err, want)
	}
}

func allYes(t *testing.T, all []*caller) {
	t.Helper()
	for _, w := range all {
		w.yes()
	}
}

// empty says that nothing is left of what went through a combiner.
func empty(t *testing.T, c *combiner) {
	t.Helper()
	synctest.Wait()
	if s := c.Stats(); s.Waiting != 0 || s.InFlight != 0 || s.Groups != 0 {
		t.Errorf("%d operations wait, %d batches are under way, there are %d groups; want none", s.Waiting, s.InFlight, s.Groups)
	}
}

// onStack answers with the names of the functions that called it.
func onStack(_ context.Context, ops []string) ([]string, error) {
	pcs := make([]uintptr, 50)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	var names strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintln(&names, f.Function)
		if !more {
			break
		}
	}
	outs := make([]string, len(ops))
	for i := range outs {
		outs[i] = names.String()
	}
	return outs, nil
}
