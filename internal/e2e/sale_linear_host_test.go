package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

// saleLinear is the first argument of a test binary that shall be a host of a sale whose calls are recorded.
const saleLinear = "sale-linear"

// What each host of a linearizability test of the stock does: on each SKU, some clients at once.
const (
	saleSKUs    = 5
	saleClients = 2 // of each SKU, in each process
	saleCalls   = 16
	saleHolds   = 8 // ids of each SKU that are in use at once, by all clients
	saleUnits   = 8 // of each SKU: too few for all holds

	saleBetween = 300 * time.Millisecond // at most, between two calls of one client, so that holds expire meanwhile

	// saleSlack is how far the clock of the stamps and the store's may be apart: they are the same machine's.
	saleSlack = 20 * time.Millisecond
)

// runSaleLinear works when a line comes in, and says when it is done. Its arguments are the database, the file for
// its history, its name, a seed, and whether it shall go on until it is killed.
func runSaleLinear(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("a %s has 5 arguments, not %d", saleLinear, len(args))
	}
	ctx := context.Background()
	seed, err := strconv.ParseUint(args[3], 10, 64)
	if err != nil {
		return err
	}
	store, err := openSale(ctx, args[0], false)
	if err != nil {
		return err
	}
	defer store.close()
	log, err := os.Create(args[1])
	if err != nil {
		return err
	}
	defer log.Close()
	recorder := history.NewRecorder[inventorytest.Call, inventorytest.Told](log)
	return whenTold(func() error {
		workAtSale(ctx, store, recorder, seed, args[4] == "endless")
		_, err := recorder.History()
		return err
	})
}

// workAtSale lets all clients of a process work. Of each SKU one calls the store itself, and one together with the
// clients of the other SKUs; one more frees what has expired now and then, which nobody may notice.
func workAtSale(ctx context.Context, store *saleStore, recorder *inventorytest.Recorder, seed uint64, endless bool) {
	together := &combinedStore{store, inventory.New(store, inventory.Config{})}
	var group sync.WaitGroup
	for number := range saleSKUs * saleClients {
		sku := fmt.Sprint("sku-", number%saleSKUs)
		c := &inventorytest.Client{Store: store, Recorder: recorder, Number: number, SKU: sku, Stamped: true}
		if number >= saleSKUs {
			c.Store = together
		}
		rnd := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // a test that can be repeated
		group.Go(func() {
			c.Do(ctx, inventorytest.Call{Do: "supply", ID: sku + "/delivery", Units: saleUnits})
			for endless {
				c.Do(ctx, anyCall(rnd, sku, 0))
			}
			for n := range saleCalls {
				c.Do(ctx, anyCall(rnd, sku, n))
				_ = pause(ctx, rand.N(saleBetween))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	tick := time.NewTicker(saleSweeps)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			_, _ = together.stock.Sweep(ctx) // the next one does what this one could not
		}
	}
}

// anyCall is the nth of a client, at random, rightly or wrongly. Holds are settled seldom enough for some to expire.
func anyCall(rnd *rand.Rand, sku string, n int) inventorytest.Call {
	acts := []string{"reserve", "reserve", "reserve", "reserve", "confirm", "release", "extend", "look"}
	number := n/2 + rnd.IntN(saleHolds)
	c := inventorytest.Call{Do: acts[rnd.IntN(len(acts))], ID: fmt.Sprintf("%s/hold-%d", sku, number)}
	if number%3 == 0 && rnd.IntN(4) > 0 {
		c.Do = "reserve" // most of its shoppers leave, and some come back
	}
	lasts := []time.Duration{time.Second, time.Second, time.Minute}[rnd.IntN(3)]
	switch c.Do {
	case "look":
		c.ID = ""
	case "confirm":
		c.Units = rnd.Int64N(3)
	case "extend":
		c.Time = lasts
	case "reserve":
		c.Units, c.Time = 1+int64(number%2), lasts
		if rnd.IntN(10) == 0 {
			c.Units++
		}
	}
	return c
}

// combinedStore is a store whose asks share batches with those of other callers of this process.
type combinedStore struct {
	inventory.Store
	stock *inventory.Stock
}

func (c *combinedStore) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	h, err := c.stock.Reserve(ctx, asks[0].ID, asks[0].Items, asks[0].TTL)
	return []inventory.Answer{{Hold: h, Err: err}}, nil
}

func (c *combinedStore) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	var h inventory.Hold
	var err error
	switch a := asks[0]; {
	case a.Act == inventory.Release:
		h, err = c.stock.Release(ctx, a.ID)
	case a.Act == inventory.Extend:
		h, err = c.stock.Extend(ctx, a.ID, a.TTL)
	case a.Items != nil:
		h, err = c.stock.ConfirmPart(ctx, a.ID, a.Items)
	default:
		h, err = c.stock.Confirm(ctx, a.ID)
	}
	return []inventory.Answer{{Hold: h, Err: err}}, nil
}
