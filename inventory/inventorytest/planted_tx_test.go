package inventorytest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/txn"
)

// Faults of transactions.
const (
	reserveApart   fault = "a reservation is not in the transaction"
	settleApart    fault = "a settlement is not in the transaction"
	refusalApart   fault = "a refusal is committed at once"
	refusalLost    fault = "a refusal is not recorded"
	refusalAborts  fault = "a refusal ends the transaction"
	locksNothing   fault = "a transaction's reservation is a look, and the commit trusts it"
	savepointKeeps fault = "a failed savepoint is not undone"
)

var plantedTx = []struct {
	fault fault
	by    string
}{
	{reserveApart, "a reservation and an order's row are committed together"},
	{reserveApart, "a reservation that is rolled back leaves nothing, and its id is new"},
	{settleApart, "a confirm and a release are committed with the transaction, or not at all"},
	{settleApart, "an expired hold is confirmed in a transaction as without one"},
	{refusalApart, "a refusal stays if the transaction commits, and goes if it does not"},
	{refusalLost, "a refusal stays if the transaction commits, and goes if it does not"},
	{refusalAborts, "a refusal stays if the transaction commits, and goes if it does not"},
	{refusalAborts, "bad input and a missing hold are answers that leave the transaction usable"},
	{locksNothing, "in every order one of two transactions gets the last unit"},
	{locksNothing, "in every order a transaction and an order by itself get the last unit once"},
	{locksNothing, "in every order one id in two transactions is one hold"},
	{savepointKeeps, "a savepoint that fails takes its reservation with it, and nothing else"},
}

// txReference is the stock of package memory, whose own hooks are not for others, with a fault if there is one.
type txReference struct {
	inventory.TxStore[*memory.Tx]
	stock memory.Stock
	hook  inventorytest.Hook
	fault fault
}

func (r txReference) Check(ctx context.Context) ([]inventory.Fault, error) { return r.stock.Check(ctx) }

func (r txReference) History(ctx context.Context, id string) ([]inventory.Entry, error) {
	return r.stock.History(ctx, id)
}

func (r txReference) Split(ctx context.Context, sku string, count int) error {
	r.hook(ctx, "split")
	return r.stock.Split(ctx, sku, count)
}

func (r txReference) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	r.hook(ctx, "reserve")
	return r.stock.Reserve(ctx, asks)
}

func (r txReference) Sweep(ctx context.Context, keep time.Duration, limit int) (int, error) {
	r.hook(ctx, "sweep")
	return r.stock.Sweep(ctx, keep, limit)
}

var errAborted = errors.New("the transaction is aborted")

func (r txReference) ReserveTx(ctx context.Context, tx *memory.Tx, a inventory.Ask) (inventory.Answer, error) {
	r.hook(ctx, "reserve in tx")
	apart := func() (inventory.Answer, error) {
		answers, err := r.stock.Reserve(ctx, []inventory.Ask{a})
		if err != nil {
			return inventory.Answer{}, err
		}
		return answers[0], nil
	}
	switch r.fault {
	case reserveApart:
		return apart()
	case locksNothing:
		levels, err := r.stock.Availability(ctx, a.Items.SKUs())
		if err != nil {
			return inventory.Answer{}, err
		}
		for _, l := range levels {
			if l.Available < a.Items[l.SKU] {
				return inventory.Answer{Err: &inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: l.SKU}}}, nil
			}
		}
		tx.OnCommit(func() { _, _ = apart() })
		return inventory.Answer{Hold: inventory.Hold{ID: a.ID, Items: a.Items, State: inventory.Held}}, nil
	case refusalApart, refusalLost, refusalAborts:
		levels, err := r.stock.Availability(ctx, a.Items.SKUs())
		if err != nil || levels[0].Available >= a.Items[levels[0].SKU] {
			if err != nil && r.fault == refusalAborts {
				return inventory.Answer{}, errAborted
			}
			break
		}
		switch r.fault {
		case refusalApart:
			return apart()
		case refusalLost:
			return inventory.Answer{Err: &inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: levels[0].SKU}}}, nil
		default:
			return inventory.Answer{}, errAborted
		}
	}
	return r.stock.ReserveTx(ctx, tx, a)
}

func (r txReference) SettleTx(ctx context.Context, tx *memory.Tx, a inventory.Ask) (inventory.Answer, error) {
	r.hook(ctx, "settle in tx")
	if r.fault == settleApart {
		answers, err := r.stock.Settle(ctx, []inventory.Ask{a})
		if err != nil {
			return inventory.Answer{}, err
		}
		return answers[0], nil
	}
	return r.stock.SettleTx(ctx, tx, a)
}

// txns are the reference's transactions.
type txns struct {
	memory.Txns
	hook  inventorytest.Hook
	fault fault
}

func (t txns) Transact(ctx context.Context, opts txn.Options, fn func(ctx context.Context, tx *memory.Tx) error) error {
	t.hook(ctx, "begin")
	return t.Txns.Transact(ctx, opts, func(ctx context.Context, tx *memory.Tx) error {
		err := fn(ctx, tx)
		t.hook(ctx, "commit")
		return err
	})
}

func (t txns) Savepoint(ctx context.Context, tx *memory.Tx, fn func(ctx context.Context) error) error {
	if t.fault == savepointKeeps {
		return fn(ctx)
	}
	return t.Txns.Savepoint(ctx, tx, fn)
}

func withTx(f fault) (func(testing.TB, inventorytest.Hook) inventorytest.TxHarness[*memory.Tx], inventorytest.Features) {
	c := newClock()
	newTx := func(_ testing.TB, hook inventorytest.Hook) inventorytest.TxHarness[*memory.Tx] {
		s := memory.New(memory.Config{Now: c.Now})
		var mu sync.Mutex
		effects := map[string]int{}
		return inventorytest.TxHarness[*memory.Tx]{
			Store: txReference{s.Stock(), s.Stock(), hook, f},
			Txns:  txns{s.Txns(), hook, f},
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
	return newTx, inventorytest.Features{Advance: c.advance}
}

func TestEachPlantedFaultOfATransactionIsCaught(t *testing.T) {
	for _, tc := range plantedTx {
		t.Run(string(tc.fault)+"/"+tc.by, func(t *testing.T) {
			newTx, f := withTx(tc.fault)
			if caught := inventorytest.CatchTx(t, newTx, f, tc.by); len(caught) != 1 || caught[0] != tc.by {
				t.Errorf("the fault went unnoticed; caught by %q", caught)
			}
		})
	}
}

func TestNothingIsCaughtInRightTransactions(t *testing.T) {
	newTx, f := withTx(none)
	if caught := inventorytest.CatchTx(t, newTx, f); len(caught) != 0 {
		t.Errorf("caught: %q", caught)
	}
}
