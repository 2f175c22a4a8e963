package main

import (
	"context"
	"fmt"
)

// growthRounds bounds a case: a curve is made of many.
const growthRounds = 3

// The curves of the plot.
const (
	curveCallers   = "callers in one process"
	curveProcesses = "processes of 32 callers each"
)

// growthCases are the sale of one SKU, by more and more callers.
func growthCases() []Case {
	var cases []Case
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000} {
		cases = append(cases, Case{
			Name:  fmt.Sprintf("callers-%d", n),
			What:  fmt.Sprintf("Callers of one process reserve one unit of one SKU: %d. Ours: Reserve, Combined. Theirs: the one statement, at its best pool size.", n),
			Curve: curveCallers, At: n,
			Run: func(ctx context.Context, b *bench) (float64, error) {
				b.Rounds = min(b.Rounds, growthRounds)
				return medianOf(hot(ctx, b, n, true))
			},
		})
	}
	for _, n := range []int{1, 2, 4, 8, 16} {
		cases = append(cases, Case{
			Name:  fmt.Sprintf("processes-%d", n),
			What:  fmt.Sprintf("Processes with %d callers each reserve one unit of one SKU: %d. Theirs: the one statement, in as many processes, at its best pool size for each.", saleHostCallers, n),
			Curve: curveProcesses, At: n,
			Run: func(ctx context.Context, b *bench) (float64, error) {
				b.Rounds = min(b.Rounds, growthRounds)
				r, _, err := processes(ctx, b, n)
				return r.Median, err
			},
		})
	}
	return cases
}
