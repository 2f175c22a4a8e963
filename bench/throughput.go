package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// pairThroughput compares the operations per second of workers callers. The slices of both sides alternate.
func pairThroughput(ctx context.Context, b *bench, ours, theirs func(ctx context.Context, worker int) error, workers int) (Ratio, error) {
	return throughput(ctx, b, workers, Side{Op: ours}, Side{Op: theirs})
}

// throughput is pairThroughput against the fastest of several: that with the highest median.
func throughput(ctx context.Context, b *bench, workers int, ours Side, theirs ...Side) (Ratio, error) {
	sides := namedSides(ours, theirs)
	figures := make([]Figures, len(sides))
	latencies := make([]histogram, len(sides))
	for i, s := range sides {
		figures[i].Name = s.Name
		if _, err := slice(ctx, s, workers, b.Slice/2, &histogram{}); err != nil {
			return Ratio{}, fmt.Errorf("warm up %s: %w", s.Name, err)
		}
	}
	order := make([]int, len(sides))
	for i := range order {
		order[i] = i
	}
	for round := range b.Rounds {
		for _, i := range order {
			var ran ran
			err := b.profiled(i == 0, round, func() (err error) {
				ran, err = slice(ctx, sides[i], workers, b.Slice, &latencies[i])
				return err
			})
			if err != nil {
				return Ratio{}, fmt.Errorf("%s: %w", sides[i].Name, err)
			}
			figures[i].Ops += ran.ops
			figures[i].PerSecond = append(figures[i].PerSecond, ran.perSecond())
		}
		slices.Reverse(order) // who goes first has no advantage
		b.progress("round %d of %d: %s", round+1, b.Rounds, latestRound(figures))
	}
	for i := range figures {
		figures[i].P50, figures[i].P99 = latencies[i].percentile(50), latencies[i].percentile(99)
	}
	r := Ratio{Kind: "throughput", Workers: workers, Ours: figures[0]}
	best := fastest(figures[1:], func(f Figures) float64 { return -median(f.PerSecond) })
	r.Theirs, r.Others = apart(figures[1:], best)
	r.Rounds = ratios(r.Ours.PerSecond, r.Theirs.PerSecond)
	r.Median = median(r.Rounds)
	r.P99 = float64(r.Ours.P99) / float64(r.Theirs.P99)
	b.measured(r)
	return r, nil
}

// fastest is the index of the candidate with the lowest cost.
func fastest(candidates []Figures, cost func(Figures) float64) int {
	best, at := math.Inf(1), 0
	for i, c := range candidates {
		if v := cost(c); v < best {
			best, at = v, i
		}
	}
	return at
}

// apart splits off the candidate at index at.
func apart(candidates []Figures, at int) (Figures, []Figures) {
	return candidates[at], slices.Delete(slices.Clone(candidates), at, at+1)
}

func latestRound(figures []Figures) string {
	text := ""
	for i, f := range figures {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s/s", f.Name, count(f.PerSecond[len(f.PerSecond)-1]))
	}
	return text
}

// ran is one slice.
type ran struct {
	ops  int64
	took time.Duration
}

func (r ran) perSecond() float64 { return float64(r.ops) / r.took.Seconds() }

// slice lets workers callers do the work for about length. The time counts until the last one is done.
func slice(ctx context.Context, s Side, workers int, length time.Duration, into *histogram) (ran, error) {
	if s.Before != nil {
		if err := s.Before(ctx); err != nil {
			return ran{}, err
		}
	}
	runtime.GC() // nobody pays for what the other left
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex
		first error
		sum   ran
		all   sync.WaitGroup
	)
	began := time.Now()
	for worker := range workers {
		all.Go(func() {
			var latencies histogram
			err := work(ctx, s, worker, began.Add(length), &latencies)
			mu.Lock()
			defer mu.Unlock()
			into.merge(&latencies)
			sum.ops += latencies.total
			if err != nil && first == nil {
				first = err
				cancel() // the others' work counts for nothing now
			}
		})
	}
	all.Wait()
	sum.took = time.Since(began)
	return sum, first
}

// work is one worker's part of a slice.
func work(ctx context.Context, s Side, worker int, until time.Time, latencies *histogram) error {
	for last := time.Now(); last.Before(until); {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.Op(ctx, worker); err != nil {
			return err
		}
		now := time.Now()
		latencies.add(now.Sub(last)/time.Duration(s.Batch), s.Batch)
		last = now
	}
	return nil
}
