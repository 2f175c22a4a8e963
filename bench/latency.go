package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// latencyRounds is how many parts the calls are split into, for the spread.
const latencyRounds = 5

// pairLatency compares how long a call takes when there is one caller. The sides alternate call by call:
// slices would show what the machine did meanwhile.
func pairLatency(ctx context.Context, b *bench, ours, theirs func(ctx context.Context, worker int) error) (Ratio, error) {
	return latency(ctx, b, Side{Op: ours}, Side{Op: theirs})
}

// latency is pairLatency against the fastest of several: that with the lowest p50.
func latency(ctx context.Context, b *bench, ours Side, theirs ...Side) (Ratio, error) {
	sides := namedSides(ours, theirs)
	for _, s := range sides {
		for range b.Calls/20 + 1 {
			if err := s.Op(ctx, 0); err != nil {
				return Ratio{}, fmt.Errorf("warm up %s: %w", s.Name, err)
			}
		}
	}
	all := make([][]int64, len(sides)) // nanoseconds of each call
	p50s := make([][]float64, len(sides))
	for round := range latencyRounds {
		took, err := interleaved(ctx, sides, b.Calls/latencyRounds)
		if err != nil {
			return Ratio{}, err
		}
		for i := range sides {
			all[i] = append(all[i], took[i]...)
			p50s[i] = append(p50s[i], float64(percentile(took[i], 50)))
		}
		b.progress("part %d of %d: p50 %v, %s %v", round+1, latencyRounds, time.Duration(p50s[0][round]), sides[1].Name, time.Duration(p50s[1][round]))
	}
	figures := make([]Figures, len(sides))
	for i, s := range sides {
		figures[i] = Figures{
			Name: s.Name, Ops: int64(len(all[i])) * s.Batch,
			P50: time.Duration(percentile(all[i], 50)) / time.Duration(s.Batch),
			P99: time.Duration(percentile(all[i], 99)) / time.Duration(s.Batch),
		}
	}
	r := Ratio{Kind: "latency", Workers: 1, Ours: figures[0]}
	best := fastest(figures[1:], func(f Figures) float64 { return float64(f.P50) })
	r.Theirs, r.Others = apart(figures[1:], best)
	r.Rounds = ratios(p50s[0], p50s[1+best])
	r.Median = float64(r.Ours.P50) / float64(r.Theirs.P50)
	r.P99 = float64(r.Ours.P99) / float64(r.Theirs.P99)
	b.measured(r)
	return r, nil
}

// interleaved calls the sides in turn, each calls times, and turns the order around each time.
func interleaved(ctx context.Context, sides []Side, calls int) ([][]int64, error) {
	took := make([][]int64, len(sides))
	order := make([]int, len(sides))
	for i, s := range sides {
		order[i] = i
		if s.Before != nil {
			if err := s.Before(ctx); err != nil {
				return nil, err
			}
		}
	}
	runtime.GC()
	for range max(calls, 1) {
		for _, i := range order {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := sides[i].Op(ctx, 0); err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i].Name, err)
			}
			took[i] = append(took[i], int64(time.Since(began)))
		}
		slices.Reverse(order)
	}
	return took, nil
}
