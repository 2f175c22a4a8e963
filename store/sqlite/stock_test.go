package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// stockStores are suiteStores that know how many of the latest store's callers wait.
type stockStores struct {
	suiteStores
	latest *atomic.Pointer[sqlite.Store]
}

// stockSuite is newSuite for stock.
func stockSuite(t *testing.T, sql sqlite.Statements) (stockStores, inventorytest.Features) {
	t.Helper()
	stores, f := newSuite(t, sql)
	s := stockStores{stores, &atomic.Pointer[sqlite.Store]{}}
	return s, inventorytest.Features{
		Advance: f.Advance, TxWaits: f.TxWaits,
		Blocked: func(context.Context) int { return s.latest.Load().Waiting() }, // all wait in this process
	}
}

func (s stockStores) open(tb testing.TB, hook inventorytest.Hook) *sqlite.Store {
	store := s.store(tb, func(ctx context.Context, point string) { hook(ctx, point) })
	s.latest.Store(store)
	return store
}

func (s stockStores) stock(tb testing.TB, hook inventorytest.Hook) inventory.Store {
	return s.open(tb, hook).Stock()
}

func (s stockStores) txStock(tb testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*sql.Tx] {
	store := s.open(tb, hook)
	business(tb, store)
	return inventorytest.TxHarness[*sql.Tx]{
		Store:   store.Stock(),
		Txns:    store.Txns(),
		Effect:  effect,
		Effects: func(ctx context.Context, name string) (int, error) { return countEffects(ctx, store, name) },
	}
}

func TestSQLiteKeepsTheContractOfStock(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := stockSuite(t, sqlite.Shipped())
	features.SchedulesMin = 1200
	inventorytest.Run(t, stores.stock, features)
}

func TestSQLiteKeepsTheContractOfStockInTransactions(t *testing.T) {
	t.Parallel() // it mostly waits
	stores, features := stockSuite(t, sqlite.Shipped())
	features.SchedulesMin = 120
	inventorytest.RunTx(t, stores.txStock, features)
}

// A batch is written by several statements of several rows, and each hold is read as it was decided.
func TestSQLiteEachHoldOfALargeBatchIsWrittenAsItIs(t *testing.T) {
	t.Parallel()
	_, k := stockOf(t, sqlite.Config{}) // ten units of "sku"
	if err := k.Supply(t.Context(), inventory.Delivery{ID: "more", Items: inventory.Items{"sku": 300, "other": 200}}); err != nil {
		t.Fatal(err)
	}
	var asks []inventory.Ask
	for i := range 64 + 32 + 4 + 1 {
		a := order(fmt.Sprint("order ", i), int64(i%3+1))
		switch {
		case i%5 == 0:
			a.Items["other"] = int64(i%7 + 1)
		case i%8 == 0:
			a.Items["sku"] = 1000 // refused
		}
		a.TTL += time.Duration(i) * time.Minute
		asks = append(asks, a)
	}
	first, err := k.Reserve(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Reserve(t.Context(), asks)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range asks {
		was, is := first[i], again[i]
		if !maps.Equal(was.Hold.Items, asks[i].Items) || !maps.Equal(is.Hold.Items, was.Hold.Items) {
			t.Errorf("%s of %v has %v, and then %v", asks[i].ID, asks[i].Items, was.Hold.Items, is.Hold.Items)
		}
		if is.Hold.State != was.Hold.State || !is.Hold.Replayed || fmt.Sprint(is.Err) != fmt.Sprint(was.Err) {
			t.Errorf("%s: %+v, %v, and then %+v, %v", asks[i].ID, was.Hold, was.Err, is.Hold, is.Err)
		}
		if gone := was.Hold.ExpiresIn - is.Hold.ExpiresIn; gone < 0 || gone > 30*time.Second {
			t.Errorf("%s expires in %v, and then in %v", asks[i].ID, was.Hold.ExpiresIn, is.Hold.ExpiresIn)
		}
		if errors.Is(was.Err, inventory.ErrSoldOut) {
			refused++
		}
	}
	if refused == 0 || refused > 40 {
		t.Errorf("%d of %d were refused", refused, len(asks))
	}
	if faults, err := k.Check(t.Context()); err != nil || len(faults) != 0 {
		t.Errorf("%+v, %v", faults, err)
	}
}
