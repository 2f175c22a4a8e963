package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// History returns what happened to a hold; see inventory.LedgerStore. It waits for no writer.
func (k Stock) History(ctx context.Context, id string) ([]inventory.Entry, error) {
	s := k.store
	s.point(ctx, "history.history")
	var mark int64
	r, err := scanHold(row{s.readers.QueryRowContext(ctx, s.sql.stock.history.text, id), "history"}, &mark)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("sqlite: history: %w", inventory.ErrNotFound)
	case err != nil:
		return nil, err
	}
	return r.History(at(s.clock.now(mark))), nil
}

// Check adds up the books in one read transaction; see inventory.LedgerStore. It waits for no writer. While it
// reads, the log can't be shortened.
func (k Stock) Check(ctx context.Context) (faults []inventory.Fault, err error) {
	err = k.store.Txns().Transact(ctx, txn.Options{ReadOnly: true}, func(ctx context.Context, tx *sql.Tx) error {
		books, err := k.books(ctx, tx)
		if err != nil {
			return err
		}
		faults, err = books.check(ctx, k.store.session(tx, "check"))
		return err
	})
	return faults, err
}

// books is what the records add up to.
type books struct {
	held            map[inventory.BucketID]int64
	sold, delivered map[string][]int64 // sold: and refusals
}

func (k Stock) books(ctx context.Context, tx *sql.Tx) (b books, err error) {
	st := &k.store.sql.stock
	b.held = map[inventory.BucketID]int64{}
	err = each(ctx, tx, "check", func(r row) error {
		var id inventory.BucketID
		var units int64
		err := r.Scan(&id.SKU, &id.Number, &units)
		b.held[id] = units
		return err
	}, st.auditHeld)
	if err != nil {
		return b, err
	}
	if b.sold, err = sums(ctx, tx, "check", st.auditSold, 2); err != nil {
		return b, err
	}
	b.delivered, err = sums(ctx, tx, "check", st.auditDelivered, 1)
	return b, err
}

// check compares every level with the books.
func (b books) check(ctx context.Context, x session) (faults []inventory.Fault, err error) {
	differ := func(id inventory.BucketID, what string, level, records int64) {
		if level != records && len(faults) < inventory.FaultsMax {
			faults = append(faults, inventory.Fault{SKU: id.SKU, Bucket: id.Number, What: what, Level: level, Records: records})
		}
	}
	// The rows come by SKU, so each SKU's sums are whole when the next one begins.
	var supply, sold, refusals, delivered, gone int64
	current := inventory.BucketID{Number: -1}
	whole := func() {
		if current.SKU == "" {
			return
		}
		records, deliveries := [2]int64{}, [1]int64{}
		copy(records[:], b.sold[current.SKU])
		copy(deliveries[:], b.delivered[current.SKU])
		differ(current, "supply", supply, deliveries[0]+delivered)
		differ(current, "sold", sold, records[0]+gone)
		differ(current, "refusals", refusals, records[1])
		supply, sold, refusals, delivered, gone = 0, 0, 0, 0, 0
	}
	err = x.each(ctx, func(r row) error {
		var k inventory.Bucket
		var deliveredFolded, soldFolded, expiring int64
		err := r.Scan(&k.SKU, &k.Number, &k.Supply, &k.Available, &k.Held, &k.Sold, &k.Refusals, &deliveredFolded, &soldFolded, &expiring)
		if err != nil {
			return err
		}
		if k.SKU != current.SKU {
			whole()
			current.SKU = k.SKU
		}
		differ(k.BucketID, "supply", k.Supply, k.Available+k.Held+k.Sold)
		differ(k.BucketID, "held", k.Held, b.held[k.BucketID])
		differ(k.BucketID, "expiring", k.Held, expiring)
		supply += k.Supply
		sold += k.Sold
		refusals += k.Refusals
		delivered += deliveredFolded
		gone += soldFolded
		return nil
	}, x.store.sql.stock.auditLevels)
	whole()
	return faults, err
}

// Split changes into how many buckets a SKU is split; see inventory.SplitStore. It is one transaction that goes
// through all holds that are remembered, so everybody waits for it; and since a file has one writer, it gains
// nothing here. It is for a file whose SKUs were split.
func (k Stock) Split(ctx context.Context, sku string, count int) error {
	if count < 1 || count > inventory.BucketsMax {
		return &fifty.InvalidError{Field: "count", Problem: fmt.Sprintf("is %d; there may be 1 to %d", count, inventory.BucketsMax)}
	}
	var answer error
	err := k.store.write(ctx, "split", func(ctx context.Context, tx *sql.Tx) error {
		t, err := k.store.instant(ctx, tx, "split")
		if err != nil {
			return err
		}
		answer, err = t.split(ctx, sku, count)
		return err
	})
	if err != nil {
		return err
	}
	return answer
}

func (t *instant) split(ctx context.Context, sku string, count int) (answer, err error) {
	latest := t.now / int64(time.Second/time.Microsecond)
	before, err := t.buckets(ctx, []string{sku}, latest)
	if err != nil {
		return nil, err
	}
	if len(before) == 0 {
		return &inventory.UnknownSKUError{SKU: sku}, nil
	}
	for _, b := range before {
		latest = max(latest, b.FreedTo)
	}
	// What has expired by the latest time that any bucket was freed to is freed in all.
	if before, err = t.buckets(ctx, []string{sku}, latest); err != nil {
		return nil, err
	}
	for i := range before {
		b := &before[i]
		b.Available += b.Due
		b.Held -= b.Due
		b.FreedTo, b.Due = latest, 0
	}
	t.see(t.now)
	if err := t.replace(ctx, sku, inventory.Split(before, count), latest, count); err != nil {
		return nil, err
	}
	return nil, t.keep(ctx)
}

// replace writes the buckets of a SKU anew, and moves what expires, and the parts of holds, with them.
func (t *instant) replace(ctx context.Context, sku string, after []inventory.Bucket, freedTo int64, count int) error {
	st := &t.store.sql.stock
	expiring := map[inventory.Expiring]int64{}
	err := t.each(ctx, func(r row) error {
		at := inventory.Expiring{BucketID: inventory.BucketID{SKU: sku}}
		var units int64
		err := r.Scan(&at.Number, &at.Second, &units)
		if at.Number = inventory.Moved(at.Number, count); at.Second > freedTo {
			expiring[at] += units
		}
		return err
	}, st.expiring, sku)
	if err != nil {
		return err
	}
	var delivered, sold int64
	err = t.each(ctx, func(r row) error {
		var d, s int64
		err := r.Scan(&d, &s)
		delivered, sold = delivered+d, sold+s
		return err
	}, st.unsplit, sku)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, st.unexpire, sku); err != nil {
		return err
	}
	var c inventory.Changes
	c.Created = after
	for at, units := range expiring {
		c.Moves = append(c.Moves, inventory.Move{Expiring: at, Quantity: units})
	}
	if err := t.writeStock(ctx, c); err != nil {
		return err
	}
	if _, err := t.exec(ctx, st.fold, sku, sold, delivered, 0); err != nil {
		return err
	}
	_, err = t.exec(ctx, st.repart, sku, count)
	return err
}
