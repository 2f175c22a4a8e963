package memory_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/memory"
)

// recordedStock is a store on a clock that only callers move, and what its clients are told.
type recordedStock struct {
	clock *clock
	store inventory.Store
	rec   *inventorytest.Recorder
}

func newRecordedStock(hook func(ctx context.Context, point string)) *recordedStock {
	c := newClock()
	return &recordedStock{
		clock: c, store: memory.NewHooked(memory.Config{Now: c.Now}, hook).Stock(),
		rec: history.NewRecorder[inventorytest.Call, inventorytest.Told](nil),
	}
}

// works are some clients on a SKU that has few units.
func (r *recordedStock) works(ctx context.Context, sku string, seed uint64, clients int) []*inventorytest.Work {
	var works []*inventorytest.Work
	var ids []string
	for i := range 5 {
		ids = append(ids, sku+strings.Repeat("x", i))
	}
	for n := range clients {
		c := &inventorytest.Client{Store: r.store, Recorder: r.rec, Number: n, SKU: sku, Advance: r.clock.advance}
		if n == 0 {
			c.Do(ctx, inventorytest.Call{Do: "supply", ID: "delivery of " + sku, Units: 4})
		}
		works = append(works, &inventorytest.Work{
			Rand: rand.New(rand.NewPCG(seed, uint64(n))), Client: c, IDs: ids,
			Times: []time.Duration{time.Second, 2 * time.Second, time.Minute},
		})
	}
	return works
}

func (r *recordedStock) check(t *testing.T, dir string) error {
	h, err := r.rec.History()
	if err == nil {
		_, err = history.Check(h, history.Config{Model: inventorytest.Model(), Dir: dir, Name: t.Name()})
	}
	return err
}

func TestSeededOrdersOfRandomBuyersFitTheModelOfASKU(t *testing.T) {
	const clients, calls = 3, 10
	t.Parallel()
	dir := t.TempDir()
	opts := interleave.Options{Runs: 300, Test: t.Name(), Grace: time.Minute}
	report, err := interleave.Sample(t.Context(), opts, func(seed uint64) interleave.Case {
		r := newRecordedStock(interleave.Point)
		c := interleave.Case{Check: func() error { return r.check(t, dir) }}
		for _, w := range r.works(t.Context(), "sku", seed, clients) {
			c.Callers = append(c.Callers, func(ctx context.Context) { w.Run(ctx, calls) })
		}
		return c
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
}

// Without a scheduler, as the processors will have it.
func TestBuyersThatRaceFitTheModelOfASKU(t *testing.T) {
	t.Parallel()
	const skus, clients, calls = 60, 4, 8
	for n := range skus {
		r := newRecordedStock(nil)
		var all sync.WaitGroup
		for _, w := range r.works(t.Context(), fmt.Sprint("sku", n), uint64(n), clients) {
			all.Go(func() { w.Run(t.Context(), calls) })
		}
		all.Wait()
		if err := r.check(t, t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
}

// forgetful is a store that refuses every third order, and forgets it.
type forgetful struct {
	inventory.Store
	mu    sync.Mutex
	calls int
}

func (f *forgetful) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls%3 == 0 {
		return []inventory.Answer{{Err: &inventory.SoldOutError{}, Hold: inventory.Hold{State: inventory.Refused}}}, nil
	}
	return f.Store.Reserve(ctx, asks)
}

func TestAHistoryThatNoSKUCanHaveIsRefused(t *testing.T) {
	r := newRecordedStock(nil)
	r.store = &forgetful{Store: r.store}
	for _, w := range r.works(t.Context(), "sku", 1, 1) {
		w.Run(t.Context(), 40)
	}
	if err := r.check(t, t.TempDir()); err == nil {
		t.Error("orders that are refused for nothing went unnoticed")
	}
}
