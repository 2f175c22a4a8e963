package main

import (
	"context"
	"fmt"

	"github.com/fiftyhosts/fifty/inventory"
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
				return medianOf(callers(ctx, b, n))
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

// callers is the sale of one SKU by n callers of one process. A pool larger than that would stay idle.
func callers(ctx context.Context, b *bench, n int) (Ratio, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return Ratio{}, err
	}
	b.Explain("By hand, in tables like fifty.stock and fifty.holds, indexes and checks included:\n%s", handReserve)
	var pools []int
	for _, connections := range handPools {
		if connections <= max(n, handPools[0]) {
			pools = append(pools, connections)
		}
	}
	theirs, err := s.byHand(ctx, b, pools, handReserve, oneUnit)
	if err != nil {
		return Ratio{}, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return Ratio{}, err
	}
	return throughput(ctx, b, n, Side{Name: "Combined", Op: s.reserve(inventory.Items{saleSKU: 1})}, theirs...)
}
