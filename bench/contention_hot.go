package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/fiftyhosts/fifty/inventory"
)

var hotCases = []Case{
	{
		Name: "hot-256",
		Goal: atLeast(40),
		What: "256 callers of one process reserve one unit of one SKU. Ours: Reserve, Combined. Theirs: one statement that decrements conditionally and inserts the reservation, at its best pool size.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return medianOf(hot(ctx, b, saleCallers, true)) },
	},
	{
		Name: "hot-256-p99",
		Goal: atMost(0.10),
		What: "The same. Our p99 against their p50.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			r, err := hot(ctx, b, saleCallers, true)
			return float64(r.Ours.P99) / float64(max(r.Theirs.P50, 1)), err
		},
	},
	{
		Name: "empty-table",
		Goal: atLeast(40),
		What: "The same from empty tables, on connections that made their plans then, without statistics from then on.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return medianOf(hot(ctx, b, saleCallers, false)) },
	},
	{
		Name: "reasks",
		Goal: atLeast(25),
		What: "The same, where one ask in ten is an id that was asked for before. Theirs looks for the id first, in its one statement.",
		Run:  reasks,
	},
	{
		Name: "soldout",
		Goal: atLeast(25),
		What: "256 callers ask for a SKU that is sold out, with new ids. Both sides count the refusal and write it down.",
		Run:  soldOut,
	},
	{
		Name: "three-skus",
		Goal: atLeast(18),
		What: "256 callers reserve one unit of each of the same three SKUs, all or none.",
		Run:  threeSKUs,
	},
	{
		Name: "alone",
		Goal: atMost(1.10),
		What: "One caller reserves one unit: latency. Theirs: the one statement.",
		Run:  alone,
	},
}

func medianOf(r Ratio, err error) (float64, error) { return r.Median, err }

// hot is the sale of one SKU by so many callers of one process.
func hot(ctx context.Context, b *bench, callers int, settled bool) (Ratio, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return Ratio{}, err
	}
	b.Explain("By hand, in tables like fifty.stock and fifty.holds, indexes and checks included:\n%s", handReserve)
	theirs, err := s.byHand(ctx, b, poolsFor(callers), handReserve, oneUnit)
	if err != nil {
		return Ratio{}, err
	}
	if settled {
		err = settlePostgres(ctx, s.url)
	} else {
		err = s.withoutStatistics(ctx)
	}
	if err != nil {
		return Ratio{}, err
	}
	return throughput(ctx, b, callers, Side{Name: "Combined", Op: s.reserve(inventory.Items{saleSKU: 1})}, theirs...)
}

// poolsFor are the pools that so many callers may fill, and the smallest.
func poolsFor(callers int) []int {
	var pools []int
	for _, connections := range handPools {
		if connections <= max(callers, handPools[0]) {
			pools = append(pools, connections)
		}
	}
	return pools
}

// withoutStatistics makes the statistics of empty tables the last ones, and each connection's plans with them.
func (s *sale) withoutStatistics(ctx context.Context) error {
	for _, table := range []string{"fifty.stock", "fifty.holds", "fifty.expiring", "hand_stock", "hand_holds"} {
		if _, err := s.pool.Exec(ctx, `alter table `+table+` set (autovacuum_enabled = off)`); err != nil {
			return err
		}
	}
	if _, err := s.pool.Exec(ctx, `vacuum analyze`); err != nil {
		return err
	}
	reserve := s.reserve(inventory.Items{saleSKU: 1})
	for range 20 {
		var all sync.WaitGroup
		errs := make([]error, 2*salePool)
		for i := range errs {
			all.Go(func() { errs[i] = reserve(ctx, i) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// remembered gives each worker an id that it has asked for already, one time in ten.
type remembered struct{ last []string }

func newRemembered() *remembered { return &remembered{last: make([]string, saleCallers)} }

func (r *remembered) id(worker int) string {
	if r.last[worker] != "" && rand.IntN(10) == 0 {
		return r.last[worker]
	}
	r.last[worker] = saleID()
	return r.last[worker]
}

func reasks(ctx context.Context, b *bench) (float64, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return 0, err
	}
	b.Explain("By hand, where ids come again:\n%s", handAgain)
	var theirs []Side
	for _, connections := range handPools {
		ids := newRemembered()
		sides, err := s.byHand(ctx, b, []int{connections}, handAgain, func(worker int) []any {
			return []any{ids.id(worker), saleSKU, int64(1)}
		})
		if err != nil {
			return 0, err
		}
		theirs = append(theirs, sides...)
	}
	ids := newRemembered()
	ours := func(ctx context.Context, worker int) error {
		_, err := s.stock.Reserve(ctx, ids.id(worker), inventory.Items{saleSKU: 1}, saleTTL)
		return err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	return medianOf(throughput(ctx, b, saleCallers, Side{Name: "Combined", Op: ours}, theirs...))
}

func soldOut(ctx context.Context, b *bench) (float64, error) {
	s, err := newSale(ctx, b, 1, saleSKU)
	if err != nil {
		return 0, err
	}
	b.Explain("By hand, where there is not enough:\n%s", handRefuse)
	theirs, err := s.byHand(ctx, b, handPools, handRefuse, func(int) []any { return []any{saleID(), saleSKU, int64(2)} })
	if err != nil {
		return 0, err
	}
	ours := func(ctx context.Context, _ int) error {
		_, err := s.stock.Reserve(ctx, saleID(), inventory.Items{saleSKU: 2}, saleTTL)
		if !isSoldOut(err) {
			return fmt.Errorf("not sold out: %w", err)
		}
		return nil
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	return medianOf(throughput(ctx, b, saleCallers, Side{Name: "Combined", Op: ours}, theirs...))
}

func threeSKUs(ctx context.Context, b *bench) (float64, error) {
	skus := []string{"cap-red", "tee-black-m", "tote"}
	s, err := newSale(ctx, b, saleSupply, skus...)
	if err != nil {
		return 0, err
	}
	b.Explain("By hand, of three SKUs:\n%s", handSeveral)
	const items = `{"tote": 1, "cap-red": 1, "tee-black-m": 1}`
	theirs, err := s.byHand(ctx, b, handPools, handSeveral, func(int) []any { return []any{saleID(), skus, items} })
	if err != nil {
		return 0, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	ours := s.reserve(inventory.Items{skus[0]: 1, skus[1]: 1, skus[2]: 1})
	return medianOf(throughput(ctx, b, saleCallers, Side{Name: "Combined", Op: ours}, theirs...))
}

func alone(ctx context.Context, b *bench) (float64, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return 0, err
	}
	theirs, err := s.byHand(ctx, b, []int{4}, handReserve, oneUnit)
	if err != nil {
		return 0, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	return medianOf(latency(ctx, b, Side{Name: "Combined", Op: s.reserve(inventory.Items{saleSKU: 1})}, theirs...))
}
