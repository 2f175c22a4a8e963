package memory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/txn"
)

// stocked is a store with some units of SKUs.
func stocked(t *testing.T, units int64, skus ...string) (*memory.Store, *clock) {
	t.Helper()
	c := newClock()
	s := memory.New(memory.Config{Now: c.Now})
	for _, sku := range skus {
		if err := s.Stock().Supply(t.Context(), inventory.Delivery{ID: sku, Items: inventory.Items{sku: units}}); err != nil {
			t.Fatal(err)
		}
	}
	return s, c
}

func reserveAsk(id, sku string, units int64) inventory.Ask {
	return inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{sku: units}, TTL: time.Hour, RefusalsMax: 100}
}

// hold reserves units, and must get them.
func hold(t *testing.T, s *memory.Store, a inventory.Ask) {
	t.Helper()
	got, err := s.Stock().Reserve(t.Context(), []inventory.Ask{a})
	if err != nil || got[0].Err != nil {
		t.Fatal(got, err)
	}
}

func sound(t *testing.T, s *memory.Store) {
	t.Helper()
	if faults, err := s.Stock().Check(t.Context()); err != nil || len(faults) != 0 {
		t.Errorf("the books: %v, %v", faults, err)
	}
}

func TestOfTwoTransactionsThatWaitForEachOthersStockOneGivesWay(t *testing.T) {
	s, _ := stocked(t, 5, "x", "y")
	stock, txns := s.Stock(), s.Txns()
	var all sync.WaitGroup
	var first error
	hasX, hasY := make(chan struct{}), make(chan struct{})
	all.Go(func() {
		first = txns.Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
			_, err := stock.ReserveTx(ctx, tx, reserveAsk("a1", "x", 1))
			close(hasX)
			<-hasY
			_, next := stock.ReserveTx(ctx, tx, reserveAsk("a2", "y", 1))
			return errors.Join(err, next)
		})
	})
	second := txns.Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
		_, err := stock.ReserveTx(ctx, tx, reserveAsk("b1", "y", 1))
		<-hasX
		close(hasY)
		_, next := stock.ReserveTx(ctx, tx, reserveAsk("b2", "x", 1))
		return errors.Join(err, next)
	})
	all.Wait()
	lost, won := first, second
	if first == nil {
		lost, won = second, first
	}
	if !errors.Is(lost, memory.ErrDeadlock) || won != nil || txns.Classify(lost) != txn.Retryable {
		t.Fatalf("got %v and %v", first, second)
	}
	levels, err := stock.Availability(t.Context(), []string{"x", "y"})
	if err != nil || levels[0].Held != 1 || levels[1].Held != 1 {
		t.Errorf("got %+v, %v", levels, err)
	}
	sound(t, s)
}

func TestABatchThatWasCalledOffHalfwaySaysThatItsOutcomeIsUnknown(t *testing.T) {
	s, _ := stocked(t, 5, "x", "y")
	stock := s.Stock()
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Txns().Transact(t.Context(), txn.Options{}, func(txCtx context.Context, tx *memory.Tx) error {
		if _, err := stock.ReserveTx(txCtx, tx, reserveAsk("mine", "y", 1)); err != nil {
			return err
		}
		done := make(chan error)
		go func() {
			_, err := stock.Reserve(ctx, []inventory.Ask{reserveAsk("a", "x", 1), reserveAsk("b", "y", 1)})
			done <- err
		}()
		for s.StockWaiting() == 0 { // the first ask stands, and the second waits for this transaction
			select {
			case err := <-done:
				t.Errorf("it ended with %v", err)
				return err
			default:
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, fifty.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := stock.Reserve(t.Context(), []inventory.Ask{reserveAsk("a", "x", 1), reserveAsk("b", "y", 1)})
	if err != nil || !got[0].Hold.Replayed || got[1].Hold.Replayed {
		t.Errorf("asked again: %v, %v", got, err)
	}
}

// A sweep that met a transaction comes back to what it left.
func TestASweepComesBackToWhatATransactionHeld(t *testing.T) {
	s, c := stocked(t, 5, "x")
	stock := s.Stock()
	a := reserveAsk("short", "x", 1)
	a.TTL = time.Second
	hold(t, s, a)
	for _, id := range []string{"no1", "no2"} {
		if got, err := stock.Reserve(t.Context(), []inventory.Ask{reserveAsk(id, "x", 100)}); err != nil || !errors.Is(got[0].Err, inventory.ErrSoldOut) {
			t.Fatal(got, err)
		}
	}
	c.advance(time.Minute)
	err := s.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
		if _, err := stock.ReserveTx(ctx, tx, reserveAsk("mine", "x", 1)); err != nil {
			return err
		}
		n, err := stock.Sweep(ctx, time.Second, 100)
		if n != 1 { // the delivery
			t.Errorf("%d records were removed under the transaction", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sound(t, s)
	if n, err := stock.Sweep(t.Context(), time.Second, 100); n != 3 || err != nil {
		t.Errorf("%d records were removed after it, %v", n, err)
	}
	sound(t, s)
}

func TestASweepFindsAHoldThatWasExtendedManyTimesOnce(t *testing.T) {
	s, c := stocked(t, 5, "x")
	stock := s.Stock()
	hold(t, s, reserveAsk("a", "x", 1))
	for range 50 {
		c.advance(time.Second)
		if got, err := stock.Settle(t.Context(), []inventory.Ask{{Act: inventory.Extend, ID: "a", TTL: time.Hour}}); err != nil || got[0].Err != nil {
			t.Fatal(got, err)
		}
	}
	if n := s.StockEnds(); n != 1 {
		t.Errorf("it is remembered in %d seconds", n)
	}
	c.advance(time.Hour - 10*time.Second) // its first end is over, and its last one is not
	if n, err := stock.Sweep(t.Context(), time.Second, 100); n != 1 || err != nil {
		t.Errorf("%d records were removed, %v; want the delivery", n, err)
	}
	c.advance(time.Minute)
	if n, err := stock.Sweep(t.Context(), time.Second, 100); n != 1 || err != nil || s.StockEnds() != 0 {
		t.Errorf("%d records were removed, %v", n, err)
	}
	sound(t, s)
}
