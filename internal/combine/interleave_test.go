package combine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/internal/combine"
)

// race is one case of an exploration: callers that do one operation each, and some that are cancelled.
type race struct {
	c    *combiner
	down bool // calls of several fail

	mu    sync.Mutex
	turns context.Context // batches take turns as a caller of their own
	sent  map[string]int
	got   map[string]outcome
}

// own marks the context of a caller, which is run's when it is alone.
type own struct{}

// point stops a lone caller, or a batch, until it is its turn. One that is cancelled stops there as well.
func (r *race) point(ctx context.Context, name string) {
	if ctx.Value(own{}) == nil || name == "board" {
		r.mu.Lock()
		ctx = r.turns
		r.mu.Unlock()
	}
	interleave.Point(context.WithoutCancel(ctx), name)
	if name == "arrive" {
		<-time.After(1) // passes once nobody else can go on: a batch that was about to end has ended
	}
}

func (r *race) run(ctx context.Context, ops []string) ([]string, error) {
	r.point(ctx, "send "+strings.Join(ops, " "))
	if r.down && len(ops) > 1 {
		r.point(ctx, "fail")
		return nil, errBad
	}
	outs := make([]string, len(ops))
	r.mu.Lock()
	for i, op := range ops {
		r.sent[op]++
		outs[i] = strings.ToUpper(op)
	}
	r.mu.Unlock()
	r.point(ctx, "reply")
	return outs, nil
}

// caller is one of an exploration's, which does op.
func (r *race) caller(op string, do func(context.Context, string) (string, error), cancelled *context.CancelFunc) func(context.Context) {
	return func(ctx context.Context) {
		ctx = context.WithValue(ctx, own{}, op)
		mine, cancel := context.WithCancel(ctx)
		defer cancel()
		*cancelled = cancel
		out, err := do(mine, op)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got[op] = outcome{out, err}
	}
}

// check says what does not fit together, and counts what happened.
func (r *race) check(ops int, seen map[string]int) error {
	synctest.Wait() // for a batch whose callers have left
	for op, got := range r.got {
		sent := r.sent[op]
		switch {
		case got.err == nil && sent == 1 && got.out == strings.ToUpper(op):
			seen["yes"]++
		case errors.Is(got.err, fifty.ErrUnknownOutcome) && sent <= 1:
			seen["unknown"]++
		case errors.Is(got.err, context.Canceled) && !errors.Is(got.err, fifty.ErrUnknownOutcome) && sent == 0:
			seen["not sent"]++
		default:
			return fmt.Errorf("%s was done %d times and its caller got %q, %v", op, sent, got.out, got.err)
		}
	}
	if len(r.got) != ops {
		return fmt.Errorf("outcomes of %d callers, want %d", len(r.got), ops)
	}
	s := r.c.Stats()
	if s.Waiting != 0 || s.InFlight != 0 || s.Groups != 0 {
		return fmt.Errorf("something is left behind: %+v", s)
	}
	seen["alone"] += int(s.Alone)
	if s.Largest > 1 {
		seen["together"]++
	}
	if s.Splits > 0 {
		seen["bisected"]++
	}
	return nil
}

// exploration is callers that do ops, and others that cancel some of them.
type exploration struct {
	name           string
	cfg            config
	ops, cancel    []string
	through        bool     // DoThrough
	down           bool     // calls of several fail
	preemptionsMax int      // zero means every order
	want           []string // what must have happened in some order
}

// explore runs ops against each other in every order, with those of cancel cancelled at some moment. The
// clock of the bubble stands still while anybody can go on, so who is silent for a while is blocked.
func explore(t *testing.T, x exploration) map[string]int {
	seen := map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		opts := interleave.Options{SchedulesMin: 8, PreemptionsMax: x.preemptionsMax}
		report, err := interleave.Explore(t.Context(), opts, func(int) interleave.Case { return x.race(seen) })
		if err != nil {
			t.Fatal(err)
		}
		if report.Diverged > 0 || (report.Bounded && x.preemptionsMax == 0) {
			t.Errorf("%v: not every order was run", report)
		}
		t.Logf("%v: %v", report, seen)
	})
	return seen
}

// race makes one case of an exploration.
func (x exploration) race(seen map[string]int) interleave.Case {
	r := &race{down: x.down, sent: map[string]int{}, got: map[string]outcome{}}
	r.c = combine.New(r.run, x.cfg)
	r.c.Hook(r.point)
	do := r.c.Do
	if x.through {
		do = r.c.DoThrough
	}
	var others sync.WaitGroup
	others.Add(len(x.ops) + len(x.cancel))
	callers := []func(context.Context){func(ctx context.Context) { // lends its turns to the batches
		r.mu.Lock()
		r.turns = ctx
		r.mu.Unlock()
		others.Wait()
	}}
	cancels := map[string]*context.CancelFunc{}
	for _, op := range x.ops {
		cancels[op] = new(context.CancelFunc)
		caller := r.caller(op, do, cancels[op])
		callers = append(callers, func(ctx context.Context) {
			defer others.Done()
			caller(ctx)
		})
	}
	for _, op := range x.cancel {
		callers = append(callers, func(ctx context.Context) {
			defer others.Done()
			interleave.Point(ctx, "cancel "+op)
			(*cancels[op])()
		})
	}
	return interleave.Case{Callers: callers, Check: func() error { return r.check(len(x.ops), seen) }}
}

func TestEveryOrderOfArrivalsRepliesAndCancellations(t *testing.T) {
	two, three := []string{"a", "b"}, []string{"a", "b", "c"}
	for _, x := range []exploration{
		{
			name: "two callers", ops: two,
			want: []string{"yes", "alone"},
		},
		{
			name: "one of two is cancelled", ops: two, cancel: two[1:],
			want: []string{"yes", "alone", "unknown", "not sent"},
		},
		{
			name: "one of two is cancelled and sees it through", ops: two, cancel: two[1:], through: true,
			want: []string{"yes", "alone", "not sent"},
		},
		{
			name: "two callers, two batches at once, one is cancelled", cfg: config{InFlight: 2}, ops: two, cancel: two[1:],
			want: []string{"yes", "alone", "not sent"},
		},
		{
			name: "three callers", ops: three,
			want: []string{"yes", "alone", "together"},
		},
		{
			name: "three callers, a batch fails", ops: three, down: true,
			want: []string{"yes", "alone", "together", "bisected"},
		},
		{
			name: "one of three is cancelled", ops: three, cancel: three[2:], preemptionsMax: 2,
			want: []string{"yes", "alone", "together", "unknown", "not sent"},
		},
		{
			name: "three callers, two batches at once", cfg: config{InFlight: 2}, ops: three, preemptionsMax: 2,
			want: []string{"yes", "alone"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.cfg.Yields = -1
			seen := explore(t, x)
			for _, what := range x.want {
				if seen[what] == 0 {
					t.Errorf("in no order there was one that says %q", what)
				}
			}
			if x.through && seen["unknown"] > 0 {
				t.Error("one that saw it through does not know its outcome")
			}
		})
	}
}
