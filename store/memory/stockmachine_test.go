package memory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/txn"
)

var errUndo = errors.New("undo it")

// stockMachine is a store and the model of its one SKU.
type stockMachine struct {
	store  *memory.Store
	client *inventorytest.Client
	state  any
}

// call makes a call, and both must agree.
func (m *stockMachine) call(t *rapid.T, c inventorytest.Call) {
	told, err := m.client.Ask(t.Context(), c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	ok, next := inventorytest.Model().Step(m.state, c, told)
	if !ok {
		t.Fatalf("%+v was told %+v, which the model does not allow in %+v", c, told, m.state)
	}
	m.state = next
}

// undone makes a reservation in a transaction that is rolled back, or in a savepoint that is.
func (m *stockMachine) undone(t *rapid.T, a inventory.Ask, savepoint bool) {
	txns := m.store.Txns()
	err := txns.Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx *memory.Tx) error {
		ask := func(ctx context.Context) error {
			_, err := m.store.Stock().ReserveTx(ctx, tx, a)
			return errors.Join(err, errUndo)
		}
		if !savepoint {
			return ask(ctx)
		}
		if err := txns.Savepoint(ctx, tx, ask); !errors.Is(err, errUndo) {
			return fmt.Errorf("the savepoint: %w", err)
		}
		return nil
	})
	if savepoint && err != nil || !savepoint && !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
}

// TestStockInMemoryIsTheModelWhateverIsCalled: every answer is that of the model, the levels add up after each
// call, and splits, sweeps and what is rolled back can't be told from nothing.
func TestStockInMemoryIsTheModelWhateverIsCalled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		s := memory.New(memory.Config{Now: c.Now})
		m := &stockMachine{store: s, state: inventorytest.Model().Init()}
		m.client = &inventorytest.Client{Store: s.Stock(), SKU: "sku", Advance: c.advance}
		m.call(t, inventorytest.Call{Do: "supply", ID: "first", Units: 10})
		ids := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6", "7", "8"})
		units, seconds := rapid.Int64Range(1, 6), rapid.IntRange(1, 5)
		ttl := func(t *rapid.T) time.Duration { return time.Duration(seconds.Draw(t, "ttl")) * time.Second }
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				m.call(t, inventorytest.Call{Do: "reserve", ID: ids.Draw(t, "id"), Units: units.Draw(t, "units"), Time: ttl(t)})
			},
			"confirm": func(t *rapid.T) { m.call(t, inventorytest.Call{Do: "confirm", ID: ids.Draw(t, "id")}) },
			"part": func(t *rapid.T) {
				m.call(t, inventorytest.Call{Do: "confirm", ID: ids.Draw(t, "id"), Units: units.Draw(t, "units")})
			},
			"release": func(t *rapid.T) { m.call(t, inventorytest.Call{Do: "release", ID: ids.Draw(t, "id")}) },
			"extend":  func(t *rapid.T) { m.call(t, inventorytest.Call{Do: "extend", ID: ids.Draw(t, "id"), Time: ttl(t)}) },
			"wait":    func(t *rapid.T) { m.call(t, inventorytest.Call{Do: "pass", Time: time.Second}) },
			"deliver": func(t *rapid.T) {
				do := rapid.SampledFrom([]string{"supply", "withdraw"}).Draw(t, "direction")
				m.call(t, inventorytest.Call{Do: do, ID: "delivery " + ids.Draw(t, "id"), Units: units.Draw(t, "units")})
			},
			"split": func(t *rapid.T) {
				if err := s.Stock().Split(t.Context(), "sku", rapid.IntRange(1, 6).Draw(t, "buckets")); err != nil {
					t.Fatal(err)
				}
			},
			"sweep": func(t *rapid.T) {
				if _, err := s.Stock().Sweep(t.Context(), time.Hour, 10); err != nil {
					t.Fatal(err)
				}
			},
			"undone": func(t *rapid.T) {
				m.undone(t, reserveAsk(ids.Draw(t, "id"), "sku", units.Draw(t, "units")), rapid.Bool().Draw(t, "savepoint"))
			},
			"": func(t *rapid.T) {
				m.call(t, inventorytest.Call{Do: "look"})
				if faults, err := s.Stock().Check(t.Context()); err != nil || len(faults) != 0 {
					t.Fatalf("the books: %v, %v", faults, err)
				}
			},
		})
	})
}
