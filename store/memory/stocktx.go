package memory

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fiftyhosts/fifty/inventory"
)

// ReserveTx decides within tx; see inventory.TxStore. The SKUs are tx's until it ends.
func (s Stock) ReserveTx(ctx context.Context, tx *Tx, a inventory.Ask) (inventory.Answer, error) {
	return s.decideTx(ctx, "reserve in tx", tx, a)
}

// SettleTx decides within tx; see inventory.TxStore.
func (s Stock) SettleTx(ctx context.Context, tx *Tx, a inventory.Ask) (inventory.Answer, error) {
	return s.decideTx(ctx, "settle in tx", tx, a)
}

func (s Stock) decideTx(ctx context.Context, point string, tx *Tx, a inventory.Ask) (inventory.Answer, error) {
	if err := s.store.step(ctx, point); err != nil {
		return inventory.Answer{}, err
	}
	if tx.done {
		return inventory.Answer{}, ErrTxDone
	}
	k := s.store.stock
	if err := k.lockFor(ctx, tx, a); err != nil {
		return inventory.Answer{}, err
	}
	defer k.mu.Unlock()
	k.asked[a.ID] = tx
	for _, sku := range k.skusOf(tx, a) {
		if k.skus[sku] != nil {
			k.locked[sku] = tx
		}
	}
	now := s.store.now()
	b := k.batch(now, tx, a)
	answer, _ := b.Decide(a)
	c := b.Changes()
	tx.log = append(tx.log, change{stock: &c, at: now})
	return answer, nil
}

// stockView is the stock as a transaction sees it: with its own changes, which nobody else sees yet.
type stockView struct {
	*shelves
	mine []*inventory.Changes
}

func (k *shelves) view(tx *Tx) stockView {
	v := stockView{shelves: k}
	if tx != nil {
		for _, c := range tx.log {
			if c.stock != nil {
				v.mine = append(v.mine, c.stock)
			}
		}
	}
	return v
}

// hold is what is known of an id.
func (v stockView) hold(id string) *inventory.Record {
	for _, c := range slices.Backward(v.mine) {
		for _, r := range slices.Concat(c.Added, c.Changed) {
			if r.ID == id {
				return r
			}
		}
	}
	return v.holds[id]
}

// buckets are those of a SKU.
func (v stockView) buckets(sku string, second int64) []inventory.Bucket {
	e := v.skus[sku]
	if e == nil {
		return nil
	}
	buckets := slices.Clone(e.buckets)
	for i := range buckets {
		b := &buckets[i]
		var moved, freedTo int64
		for _, c := range v.mine {
			for _, own := range c.Buckets {
				if own.BucketID == b.BucketID {
					*b = own
				}
			}
			for _, f := range c.Freed {
				if f.BucketID == b.BucketID {
					freedTo, moved = f.Second, 0
				}
			}
			for _, m := range c.Moves {
				if m.BucketID == b.BucketID && m.Second <= second {
					moved += m.Quantity
				}
			}
		}
		if b.Due = moved; freedTo < second {
			b.Due += e.expiring[i].due(second) - e.expiring[i].due(freedTo)
		}
	}
	return buckets
}

// skusOf are the SKUs that an ask is about.
func (k *shelves) skusOf(tx *Tx, a inventory.Ask) []string {
	skus := a.Items.SKUs()
	if r := k.view(tx).hold(a.ID); r != nil {
		skus = append(skus, r.Items.SKUs()...)
	}
	return skus
}

// ErrDeadlock says that two transactions wait for stock of each other, and this one is to give way: nothing
// of the call happened. Roll back and run the whole transaction again; its class is Retryable.
var ErrDeadlock = errors.New("memory: two transactions wait for each other")

// lockFor locks the stock at a moment when no other transaction is at work on the ask's id or on a SKU that it
// is about. Which SKUs these are may change while it waits.
func (k *shelves) lockFor(ctx context.Context, tx *Tx, a inventory.Ask) error {
	k.mu.Lock()
	for len(k.asked) > 0 { // else there is no transaction
		busy := k.busy(tx, a.ID, k.skusOf(tx, a))
		if busy == nil {
			break
		}
		if err := k.wait(ctx, tx, busy); err != nil {
			k.mu.Unlock()
			return err
		}
	}
	return nil
}

// lockSKUs does the same for SKUs that somebody names.
func (k *shelves) lockSKUs(ctx context.Context, skus ...string) error {
	k.mu.Lock()
	for {
		busy := k.busy(nil, "", skus)
		if busy == nil {
			return nil
		}
		if err := k.wait(ctx, nil, busy); err != nil {
			k.mu.Unlock()
			return err
		}
	}
}

// busy returns the first other transaction that is at work on one of them.
func (k *shelves) busy(tx *Tx, id string, skus []string) *Tx {
	if other := k.asked[id]; other != nil && other != tx {
		return other
	}
	for _, sku := range skus {
		if other := k.locked[sku]; other != nil && other != tx {
			return other
		}
	}
	return nil
}

// wait lets go of the mutex until other has ended, and takes it again. tx is the one that waits, or nil. A transaction waits for one other at a time, so a circle is found by following them.
func (k *shelves) wait(ctx context.Context, tx, other *Tx) error {
	if tx != nil {
		for next := other; next != nil; next = k.waits[next] {
			if next == tx {
				return ErrDeadlock
			}
		}
		k.waits[tx] = other
		defer delete(k.waits, tx)
	}
	k.waiting++
	k.mu.Unlock()
	select {
	case <-other.ended:
	case <-ctx.Done():
	}
	k.mu.Lock()
	k.waiting--
	return ctx.Err()
}

// commit writes the changes of a transaction. The store is locked.
func (k *shelves) commit(log []change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range log {
		if c.stock != nil {
			k.apply(*c.stock, c.at)
		}
	}
}

// end lets go of a transaction's SKUs. The store is locked.
func (k *shelves) end(tx *Tx) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mine := func(_ string, owner *Tx) bool { return owner == tx }
	maps.DeleteFunc(k.locked, mine)
	maps.DeleteFunc(k.asked, mine)
}
