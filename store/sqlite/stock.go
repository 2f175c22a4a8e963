package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// Stock keeps stock in tables fifty_stock, fifty_holds, fifty_expiring and fifty_deliveries, for inventory.New
// and inventory.NewTx. It is safe for concurrent use.
//
// Each call of Reserve and Settle is one transaction, whatever the number of its asks: an error of the call
// means that nothing changed for any of them, except one that is a fifty.ErrUnknownOutcome. A file has one
// writer, so buckets gain nothing here: use inventory.Combined.
//
// A time that an expiry was judged by is kept in the file, like that of a key's claim, and a hold that was freed
// stays freed whatever becomes of the host's clock. See the package's doc.
type Stock struct{ store *Store }

// Stock returns the store's stock.
func (s *Store) Stock() Stock { return Stock{s} }

var (
	_ inventory.TxStore[*sql.Tx] = Stock{}
	_ inventory.LedgerStore      = Stock{}
	_ inventory.SplitStore       = Stock{}
)

// Reserve decides the asks in order; see inventory.Store.
func (k Stock) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return k.decide(ctx, "reserve", asks)
}

// Settle decides the asks in order; see inventory.Store.
func (k Stock) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return k.decide(ctx, "settle", asks)
}

func (k Stock) decide(ctx context.Context, op string, asks []inventory.Ask) (answers []inventory.Answer, err error) {
	if len(asks) == 0 {
		return nil, ctx.Err()
	}
	err = k.store.write(ctx, op, func(ctx context.Context, tx *sql.Tx) error {
		if len(asks) == 1 && asks[0].Act == inventory.Reserve {
			answer, done, err := k.quick(ctx, tx, asks[0])
			if err != nil || done {
				answers = []inventory.Answer{answer}
				return err
			}
		}
		var err error
		answers, err = k.within(ctx, tx, op, asks)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// ReserveTx decides within tx; see inventory.TxStore. tx is best one of DB or Transact. One that began deferred
// may find that another has written since its first read: the error is then Retryable, with the whole of tx.
// From here on tx holds the file's only writer.
func (k Stock) ReserveTx(ctx context.Context, tx *sql.Tx, a inventory.Ask) (inventory.Answer, error) {
	return k.decideTx(ctx, tx, "reservetx", a)
}

// SettleTx decides within tx; see ReserveTx and inventory.TxStore.
func (k Stock) SettleTx(ctx context.Context, tx *sql.Tx, a inventory.Ask) (inventory.Answer, error) {
	return k.decideTx(ctx, tx, "settletx", a)
}

func (k Stock) decideTx(ctx context.Context, tx *sql.Tx, op string, a inventory.Ask) (inventory.Answer, error) {
	x := k.store.session(tx, op)
	if _, err := x.exec(ctx, k.store.sql.lock); err != nil {
		return inventory.Answer{}, err
	}
	answers, err := k.within(ctx, tx, op, []inventory.Ask{a})
	if err != nil {
		return inventory.Answer{}, err
	}
	return answers[0], nil
}

// within decides asks in a transaction that holds the file's write lock. All that it reads stays true until it
// ends, so each ask is decided on what the ones before it have left.
func (k Stock) within(ctx context.Context, tx *sql.Tx, op string, asks []inventory.Ask) ([]inventory.Answer, error) {
	t, err := k.store.instant(ctx, tx, op)
	if err != nil {
		return nil, err
	}
	known, err := t.known(ctx, asks)
	if err != nil {
		return nil, err
	}
	b, err := t.batch(ctx, skusOf(asks, known), known)
	if err != nil {
		return nil, err
	}
	answers := make([]inventory.Answer, len(asks))
	for i, a := range asks {
		answers[i], _ = b.Decide(a) // all buckets are here
		if errors.Is(answers[i].Err, inventory.ErrHoldExpired) {
			t.see(t.now) // it never looks alive again
		}
	}
	// Linearization point: the COMMIT behind these writes. Levels, holds and answers are one transaction.
	if err := t.writeStock(ctx, b.Changes()); err != nil {
		return nil, err
	}
	return answers, t.keep(ctx)
}

// skusOf are those that asks and the holds that they are about name.
func skusOf(asks []inventory.Ask, known []inventory.Record) []string {
	all := map[string]bool{}
	for _, a := range asks {
		for sku := range a.Items {
			all[sku] = true
		}
	}
	for _, r := range known {
		for sku := range r.Items {
			all[sku] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Supply books a delivery; see inventory.Store.
func (k Stock) Supply(ctx context.Context, d inventory.Delivery) error {
	var answer error
	err := k.store.write(ctx, "supply", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "supply")
		if err != nil {
			return err
		}
		answer, err = t.supply(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	return answer
}

func (t *instant) supply(ctx context.Context, d inventory.Delivery) (answer, err error) {
	var text []byte
	var away bool
	err = t.row(ctx, t.store.sql.stock.delivered, d.ID).Scan(&text, &away)
	if !errors.Is(err, sql.ErrNoRows) {
		if err != nil {
			return nil, err
		}
		first, err := decodeItems(text)
		if err == nil && (away != d.Away || !maps.Equal(first, d.Items)) {
			return &inventory.MismatchError{ID: d.ID, First: first}, nil
		}
		return nil, err
	}
	b, err := t.batch(ctx, d.Items.SKUs(), nil)
	if err != nil {
		return nil, err
	}
	if answer := b.Supply(d); answer != nil {
		return answer, nil // nothing is written
	}
	// Linearization point: the COMMIT behind these writes. The delivery's id and the levels are one transaction.
	if err := t.writeStock(ctx, b.Changes()); err != nil {
		return nil, err
	}
	items, err := encode(d.Items)
	if err != nil {
		return nil, err
	}
	if _, err := t.exec(ctx, t.store.sql.stock.deliver, d.ID, items, d.Away, t.now); err != nil {
		return nil, err
	}
	return nil, t.keep(ctx)
}

// Availability reads the levels; see inventory.Store. It waits for no writer.
func (k Stock) Availability(ctx context.Context, skus []string) ([]inventory.Level, error) {
	list, err := encode(slices.Compact(slices.Sorted(slices.Values(skus))))
	if err != nil {
		return nil, err
	}
	found := map[string]inventory.Level{}
	err = k.store.read(ctx, "availability", func(r row) error {
		var l inventory.Level
		var due int64
		err := r.Scan(&l.SKU, &l.Supply, &l.Available, &l.Held, &l.Sold, &due)
		l.Available += due
		l.Held -= due
		found[l.SKU] = l
		return err
	}, k.store.sql.stock.levels, list, k.store.clock.now(0))
	if err != nil {
		return nil, err
	}
	levels := make([]inventory.Level, len(skus))
	for i, sku := range skus {
		l, ok := found[sku]
		if !ok {
			return nil, &inventory.UnknownSKUError{SKU: sku}
		}
		levels[i] = l
	}
	return levels, nil
}

// at is a time of the file's clock as what package inventory works with.
func at(micros int64) time.Time { return time.UnixMicro(micros) }
