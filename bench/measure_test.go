package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

// smallBench measures hardly anything: what counts here is who is called, not how fast.
func smallBench() *bench {
	b := newBench("g/c", options{rough: true}, &servers{}, io.Discard)
	b.Slice, b.Rounds, b.Calls = time.Millisecond, 3, 10
	return b
}

func TestThroughputTakesTheFastestCandidateAsTheBaseline(t *testing.T) {
	b := smallBench()
	quick := func(context.Context, int) error { return nil }
	slow := func(ctx context.Context, _ int) error {
		select {
		case <-time.After(2 * time.Millisecond): // longer than a slice: one call in each
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r, err := throughput(t.Context(), b, 2, Side{Op: quick}, Side{Name: "slow", Op: slow}, Side{Name: "quick", Op: quick})
	if err != nil {
		t.Fatal(err)
	}
	if r.Theirs.Name != "quick" || len(r.Others) != 1 || r.Others[0].Name != "slow" {
		t.Errorf("the baseline is %q, others %v", r.Theirs.Name, r.Others)
	}
	if len(r.Rounds) != b.Rounds || r.Ours.Ops == 0 || len(b.ratios) != 1 {
		t.Errorf("%d rounds, %d ops, %d ratios in the report", len(r.Rounds), r.Ours.Ops, len(b.ratios))
	}
}

func TestABatchCountsAsItsOperations(t *testing.T) {
	b := smallBench()
	var calls atomic.Int64
	r, err := throughput(t.Context(), b, 1,
		Side{Batch: 100, Op: func(context.Context, int) error { calls.Add(1); return nil }},
		Side{Op: func(context.Context, int) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ours.Ops%100 != 0 || r.Ours.Ops > 100*calls.Load() {
		t.Errorf("%d ops in %d calls of 100", r.Ours.Ops, calls.Load())
	}
}

func TestLatencyCallsBothSidesEquallyOften(t *testing.T) {
	b := smallBench()
	var ours, theirs int
	r, err := pairLatency(t.Context(), b,
		func(context.Context, int) error { ours++; return nil },
		func(context.Context, int) error { theirs++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if ours != theirs || r.Ours.Ops != int64(b.Calls) || r.Theirs.Ops != int64(b.Calls) {
		t.Errorf("%d and %d calls, %d and %d counted", ours, theirs, r.Ours.Ops, r.Theirs.Ops)
	}
}

func TestAnErrorOfASideEndsTheMeasurement(t *testing.T) {
	broken := errors.New("the server is gone")
	fine := func(context.Context, int) error { return nil }
	for name, measure := range map[string]func(b *bench, op func(context.Context, int) error) error{
		"throughput": func(b *bench, op func(context.Context, int) error) error {
			_, err := pairThroughput(t.Context(), b, fine, op, 4)
			return err
		},
		"latency": func(b *bench, op func(context.Context, int) error) error {
			_, err := pairLatency(t.Context(), b, fine, op)
			return err
		},
	} {
		b := smallBench()
		var calls atomic.Int64
		err := measure(b, func(context.Context, int) error {
			if calls.Add(1) == 5 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) || len(b.ratios) != 0 {
			t.Errorf("%s: error %v, %d ratios in the report", name, err, len(b.ratios))
		}
	}
}
