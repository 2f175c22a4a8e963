package inventory_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/memory"
)

// Faults that others have shipped, each by a test of what must hold: see docs/faults.md. The conformance suite
// proves the same of every store, and in every order.

// shop is a stock with some units of "sku", and its books.
func shop(t *testing.T, strategy inventory.Strategy, units int64) (*inventory.Stock, *inventory.Ledger) {
	t.Helper()
	s, l, _ := shopWithClock(t, strategy, units)
	return s, l
}

// shopWithClock is shop on a clock that wait moves.
func shopWithClock(t *testing.T, strategy inventory.Strategy, units int64) (s *inventory.Stock, l *inventory.Ledger, wait func(time.Duration)) {
	t.Helper()
	var passed atomic.Int64
	opened := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	now := func() time.Time { return opened.Add(time.Duration(passed.Load())) }
	store := memory.New(memory.Config{Now: now}).Stock()
	s = inventory.New(store, inventory.Config{Strategy: strategy})
	if err := s.Supply(t.Context(), "delivery", inventory.Items{"sku": units}); err != nil {
		t.Fatal(err)
	}
	return s, inventory.NewLedger(store), func(d time.Duration) { passed.Add(int64(d)) }
}

func levels(t *testing.T, s *inventory.Stock, l *inventory.Ledger, available, held, sold int64) {
	t.Helper()
	got, err := s.Availability(t.Context(), "sku")
	want := inventory.Level{SKU: "sku", Supply: available + held + sold, Available: available, Held: held, Sold: sold}
	if err != nil || got[0] != want {
		t.Errorf("the levels are %+v, %v; want %+v", got, err, want)
	}
	if faults, err := l.Check(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("the books: %+v, %v", faults, err)
	}
}

func reserve(t *testing.T, s *inventory.Stock, id string, units int64) {
	t.Helper()
	if h, err := s.Reserve(t.Context(), id, inventory.Items{"sku": units}, time.Minute); err != nil || h.State != inventory.Held {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestTheLastUnitIsSoldOnceHoweverManyCheckOutAtOnce(t *testing.T) {
	for name, strategy := range map[string]inventory.Strategy{
		"row": inventory.Row, "combined": inventory.Combined, "buckets": inventory.Buckets(4),
	} {
		t.Run(name, func(t *testing.T) {
			s, l := shop(t, strategy, 1)
			var all sync.WaitGroup
			got := make(chan error, 20)
			for i := range cap(got) {
				all.Go(func() {
					id := string(rune('a' + i))
					_, err := s.Reserve(t.Context(), id, inventory.Items{"sku": 1}, time.Minute)
					if err == nil {
						_, err = s.Confirm(t.Context(), id)
					}
					got <- err
				})
			}
			all.Wait()
			close(got)
			sold := 0
			for err := range got {
				if err == nil {
					sold++
				}
			}
			if sold != 1 {
				t.Errorf("the last unit was sold %d times", sold)
			}
			levels(t, s, l, 0, 0, 1)
		})
	}
}

func TestLinesOfAnOrderThatShareAnItemAreCheckedByTheirSum(t *testing.T) {
	s, l := shop(t, inventory.Combined, 3)
	order := inventory.Items{}
	for range 2 { // each line would pass by itself
		order.Add("sku", 2)
	}
	_, err := s.Reserve(t.Context(), "a", order, time.Minute)
	if short, ok := errors.AsType[*inventory.SoldOutError](err); !ok || short.Wanted != 4 || short.Available != 3 {
		t.Errorf("got %v", err)
	}
	levels(t, s, l, 3, 0, 0)
}

func TestASecondReleaseGivesNothingBack(t *testing.T) {
	s, l := shop(t, inventory.Combined, 5)
	reserve(t, s, "a", 2)
	reserve(t, s, "b", 2)
	for i := range 3 {
		if h, err := s.Release(t.Context(), "a"); err != nil || h.Replayed != (i > 0) {
			t.Errorf("%+v, %v", h, err)
		}
		levels(t, s, l, 3, 2, 0)
	}
}

func TestUnitsOfAnExpiredHoldAreSoldAgainWithoutASweep(t *testing.T) {
	s, l, wait := shopWithClock(t, inventory.Combined, 2)
	reserve(t, s, "a", 2)
	wait(2 * time.Minute)
	levels(t, s, l, 2, 0, 0)
	reserve(t, s, "b", 2)
	levels(t, s, l, 0, 2, 0)
}

func TestAPaymentAfterExpiryIsConfirmedWhileTheUnitsAreThereAndRefusedForGoodWhenTheyAreGone(t *testing.T) {
	s, l, wait := shopWithClock(t, inventory.Combined, 3)
	reserve(t, s, "early", 1)
	reserve(t, s, "late", 2)
	wait(2 * time.Minute)
	if h, err := s.Confirm(t.Context(), "early"); err != nil || h.State != inventory.Confirmed {
		t.Errorf("%+v, %v", h, err)
	}
	reserve(t, s, "next", 1)
	for range 2 {
		if _, err := s.Confirm(t.Context(), "late"); !errors.Is(err, inventory.ErrHoldExpired) {
			t.Errorf("got %v", err)
		}
		if _, err := s.Release(t.Context(), "next"); err != nil {
			t.Error(err)
		}
	}
	levels(t, s, l, 2, 0, 1)
}

func TestAShopperIsNotBlockedByTheirOwnHold(t *testing.T) {
	s, l := shop(t, inventory.Combined, 2)
	for range 3 { // a reload, and a click on "pay" that is sent again
		reserve(t, s, "cart", 2)
		levels(t, s, l, 0, 2, 0)
	}
	for range 2 {
		if h, err := s.Confirm(t.Context(), "cart"); err != nil || h.State != inventory.Confirmed {
			t.Errorf("%+v, %v", h, err)
		}
	}
	levels(t, s, l, 0, 0, 2)
	// And not by being let through either: another shopper's unit is not theirs.
	if _, err := s.Reserve(t.Context(), "other cart", inventory.Items{"sku": 1}, time.Minute); !errors.Is(err, inventory.ErrSoldOut) {
		t.Errorf("got %v", err)
	}
}

func TestWhoLosesARaceIsToldWhyAndNotThatSomethingFailed(t *testing.T) {
	s, l := shop(t, inventory.Combined, 1)
	reserve(t, s, "a", 1)
	calls := map[string]func(ctx context.Context) error{
		"sold out": func(ctx context.Context) error {
			_, err := s.Reserve(ctx, "b", inventory.Items{"sku": 1}, time.Minute)
			return err
		},
		"confirm": func(ctx context.Context) error { _, err := s.Confirm(ctx, "a"); return err },
		"release": func(ctx context.Context) error { _, err := s.Release(ctx, "a"); return err },
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]error{}
	for name, call := range calls {
		all.Go(func() {
			err := call(t.Context())
			mu.Lock()
			defer mu.Unlock()
			got[name] = err
		})
	}
	all.Wait()
	if (got["confirm"] == nil) == (got["release"] == nil) {
		t.Errorf("of confirm and release one must win: %v", got)
	}
	for name, err := range got {
		_, soldOut := errors.AsType[*inventory.SoldOutError](err)
		_, state := errors.AsType[*inventory.StateError](err)
		if err != nil && !soldOut && !state {
			t.Errorf("%s: %v", name, err)
		}
	}
	if faults, err := l.Check(t.Context()); err != nil || len(faults) > 0 {
		t.Errorf("the books: %+v, %v", faults, err)
	}
}
