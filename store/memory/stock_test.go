package memory_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/memory"
)

func TestMemoryKeepsTheContractOfStock(t *testing.T) {
	t.Parallel()
	c := newClock()
	newStore := func(_ testing.TB, hook inventorytest.Hook) inventory.Store {
		return memory.NewHooked(memory.Config{Now: c.Now}, hook).Stock()
	}
	inventorytest.Run(t, newStore, inventorytest.Features{
		Advance: c.advance, SchedulesMin: 90,
		Blocked: func(context.Context) int { return 0 }, // there are no transactions to wait for
	})
}

func TestMemoryKeepsTheContractOfStockInTransactions(t *testing.T) {
	t.Parallel()
	c := newClock()
	var latest atomic.Pointer[memory.Store]
	newTx := func(_ testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*memory.Tx] {
		s := memory.NewHooked(memory.Config{Now: c.Now}, hook)
		latest.Store(s)
		var mu sync.Mutex
		effects := map[string]int{}
		return inventorytest.TxHarness[*memory.Tx]{
			Store: s.Stock(),
			Txns:  s.Txns(),
			Effect: func(_ context.Context, tx *memory.Tx, name string) error {
				tx.OnCommit(func() {
					mu.Lock()
					defer mu.Unlock()
					effects[name]++
				})
				return nil
			},
			Effects: func(_ context.Context, name string) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				return effects[name], nil
			},
		}
	}
	inventorytest.RunTx(t, newTx, inventorytest.Features{
		Advance: c.advance, Grace: time.Minute, SchedulesMin: 85,
		Blocked: func(context.Context) int { return latest.Load().StockWaiting() },
	})
}
