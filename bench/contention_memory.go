package main

import (
	"context"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	memstore "github.com/fiftyhosts/fifty/store/memory"
)

// memoryOrders is how many orders each call of a side puts into a new stock.
const memoryOrders = 20_000

var memorySaleCases = []Case{
	{
		Name: "memory",
		Goal: atLeast(0.5),
		What: "20,000 orders of one unit of one SKU, one after another. Ours: Reserve over store/memory. Theirs: a decrement under a mutex, and a record of the order in a map.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return memorySale(ctx, b, 1) },
	},
	{
		Name: "memory-16",
		Goal: atLeast(0.5),
		What: "The same orders by 16 goroutines.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return memorySale(ctx, b, 16) },
	},
}

const memorySaleExplained = `What each side does with 20,000 ids (UUIDs of version 7 as strings):
Ours: stock := inventory.New(memory.New(memory.Config{}).Stock(), inventory.Config{Strategy: inventory.Row}), then for
      each id stock.Reserve(ctx, id, inventory.Items{"tee-black-m": 1}, 15*time.Minute)
Theirs: one mutex; under it: look the id up, read the clock, check and decrement the SKU's level, and put a record with
      the order's items, its state, the time and the expiry into a map. No expiry ever happens in it, no bound is checked.
Each call of a side begins with empty maps, so growing them is in the figure. The value is their time over ours.`

// bareStock is what one writes first.
type bareStock struct {
	mu     sync.Mutex
	levels map[string]*bareLevel
	orders map[string]bareOrder
}

type bareLevel struct{ available, held int64 }

type bareOrder struct {
	items             map[string]int64
	state             int
	reserved, expires time.Time
}

func (s *bareStock) reserve(id string, items map[string]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.orders[id]; known {
		return errTwice
	}
	for sku, q := range items {
		if s.levels[sku].available < q {
			return inventory.ErrSoldOut
		}
	}
	for sku, q := range items {
		s.levels[sku].available -= q
		s.levels[sku].held += q
	}
	now := time.Now()
	s.orders[id] = bareOrder{items, 1, now, now.Add(saleTTL)}
	return nil
}

// memorySale compares how long it takes workers goroutines to place all orders.
func memorySale(ctx context.Context, b *bench, workers int) (float64, error) {
	b.Explain(memorySaleExplained)
	b.Calls = max(b.Calls/40, 10)
	ids := make([]string, memoryOrders)
	for i := range ids {
		ids[i] = saleID()
	}
	ours := func(ctx context.Context, _ int) error {
		s := inventory.New(memstore.New(memstore.Config{}).Stock(), inventory.Config{Strategy: inventory.Row})
		if err := s.Supply(ctx, "delivery", inventory.Items{saleSKU: saleSupply}); err != nil {
			return err
		}
		return split(workers, len(ids), func(i int) error {
			_, err := s.Reserve(ctx, ids[i], inventory.Items{saleSKU: 1}, saleTTL)
			return err
		})
	}
	theirs := func(context.Context, int) error {
		s := &bareStock{levels: map[string]*bareLevel{saleSKU: {available: saleSupply}}, orders: map[string]bareOrder{}}
		return split(workers, len(ids), func(i int) error { return s.reserve(ids[i], map[string]int64{saleSKU: 1}) })
	}
	r, err := latency(ctx, b, Side{Name: "Reserve", Op: ours, Batch: memoryOrders}, Side{Name: "mutex and map", Op: theirs, Batch: memoryOrders})
	if err != nil {
		return 0, err
	}
	err = b.profiled(true, 0, func() error { return times(ctx, b.Calls, ours) })
	return 1 / r.Median, err
}
