package redis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
)

// TestRedisKilledInASaleLosesNothingThatItAcknowledged: with appendfsync always, each answer that a buyer got
// before, during or after a kill -9 is the answer that stands in the end.
func TestRedisKilledInASaleLosesNothingThatItAcknowledged(t *testing.T) {
	t.Parallel()
	const (
		kills  = 4
		buyers = 8
		every  = 150 // answers between two kills
		supply = kills * every / 2
	)
	server := redisserver.New(t)
	store := on(t, server).Stock()
	sale := inventory.New(store, inventory.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 4*waitMax)
	defer cancel()
	if err := sale.Supply(ctx, "all", inventory.Items{"seat": supply}); err != nil {
		t.Fatal(err)
	}

	var (
		mu       sync.Mutex
		answered = map[string]error{}
		bell     = make(chan struct{}, 1)
		stop     = make(chan struct{})
		all      sync.WaitGroup
	)
	for buyer := range buyers {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("order-%d-%05d", buyer, n)
				err := insist(ctx, func() error {
					_, err := sale.Reserve(ctx, id, inventory.Items{"seat": 1}, ttl)
					if err == nil {
						_, err = sale.Confirm(ctx, id)
					}
					return err
				})
				mu.Lock()
				answered[id] = err
				ring := len(answered)%every == 0
				mu.Unlock()
				if ring {
					select {
					case bell <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range kills {
		select {
		case <-bell:
		case <-ctx.Done():
			t.Fatal("the sale came to a halt")
		}
		server.Kill()
		server.Start()
	}
	close(stop)
	all.Wait()

	sold, refused := int64(0), 0
	for id, first := range answered {
		again, err := sale.Reserve(ctx, id, inventory.Items{"seat": 1}, ttl)
		switch {
		case first == nil && (err != nil || again.State != inventory.Confirmed):
			t.Errorf("%s was sold, and is now %v, %v", id, again.State, err)
		case first == nil:
			sold++
		case !errors.Is(first, inventory.ErrSoldOut):
			t.Errorf("%s: %v", id, first)
		case !errors.Is(err, inventory.ErrSoldOut):
			t.Errorf("%s was refused, and is now %v, %v", id, again.State, err)
		default:
			refused++
		}
	}
	got := level(t, store, "seat")
	if want := (inventory.Level{SKU: "seat", Supply: supply, Available: supply - sold, Sold: sold}); got != want {
		t.Errorf("the levels are %+v, %d were sold", got, sold)
	}
	sound(t, store)
	t.Logf("%d kills, %d sold, %d refused", kills, sold, refused)
	if sold == 0 {
		t.Error("nothing was sold")
	}
}

// TestRedisFrozenInASaleSellsOnWhenItThaws: nobody hears a no from a server that is only frozen.
func TestRedisFrozenInASaleSellsOnWhenItThaws(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t)
	store := on(t, server).Stock()
	supply(t, store, "all", inventory.Items{"seat": 1})
	server.Pause()
	answers := make(chan []inventory.Answer, 1)
	go func() {
		got, err := store.Reserve(context.Background(), []inventory.Ask{{Act: inventory.Reserve, ID: "a", Items: inventory.Items{"seat": 1}, TTL: ttl}})
		if err != nil {
			t.Error(err)
		}
		answers <- got
	}()
	server.Resume()
	if got := <-answers; len(got) != 1 || got[0].Err != nil {
		t.Errorf("got %+v", got)
	}
}
