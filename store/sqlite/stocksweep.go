package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/inventory"
)

// Bounds of one transaction of a sweep of stock.
const (
	freedSKUs = 50   // whose expired holds it frees
	looksHold = 1000 // holds that it looks at
)

// Sweep frees what has expired, and forgets holds and deliveries; see inventory.Store. It is done in
// transactions of at most 200 records, between which it leaves the file alone like Keys.Sweep.
func (k Stock) Sweep(ctx context.Context, keep time.Duration, limit int) (removed int, err error) {
	run := stockSweep{stock: k, keep: micros(keep)}
	for !run.done && removed < limit {
		if err := pause(ctx, run.gap()); err != nil {
			return removed, explain("sweep", err)
		}
		n, err := run.next(ctx, min(limit-removed, batchRecords))
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// stockSweep is one call of Sweep over its transactions.
type stockSweep struct {
	pace
	stock Stock
	keep  int64
	after int64 // the last hold that it has looked at
	done  bool
}

// stage is how far a transaction has come.
type stage struct {
	removed int
	after   int64
	more    bool
}

// next is one transaction. It returns how many records it removed.
func (run *stockSweep) next(ctx context.Context, limit int) (int, error) {
	var now stage
	began, seen := wall.Now(), others{calls: run.stock.store.calls.Load()}
	err := run.stock.store.tidy(ctx, "sweep", func(ctx context.Context, tx *sql.Tx) error {
		began = wall.Now()
		now = stage{after: run.after}
		if err := tx.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&seen.version); err != nil {
			return explain("sweep", err)
		}
		t, err := run.stock.store.instant(ctx, tx, "sweep")
		if err != nil {
			return err
		}
		for _, step := range []func(context.Context, *instant, *stage, int) error{run.free, run.forget, run.forgetDeliveries} {
			if err := step(ctx, t, &now, limit); err != nil {
				return err
			}
		}
		return t.keep(ctx)
	})
	if err != nil {
		return 0, err
	}
	run.after, run.done = now.after, !now.more
	run.end(wall.Since(began), seen)
	return now.removed, nil
}

// free frees expired holds of some SKUs.
func (run *stockSweep) free(ctx context.Context, t *instant, now *stage, _ int) error {
	var skus []string
	err := t.each(ctx, func(r row) error {
		var sku string
		err := r.Scan(&sku)
		skus = append(skus, sku)
		return err
	}, t.store.sql.stock.overdue, t.now/int64(time.Second/time.Microsecond), freedSKUs)
	if err != nil || len(skus) == 0 {
		return err
	}
	now.more = now.more || len(skus) == freedSKUs
	return t.freeAll(ctx, skus)
}

func (t *instant) freeAll(ctx context.Context, skus []string) error {
	b, err := t.batch(ctx, skus, nil)
	if err != nil {
		return err
	}
	return t.writeStock(ctx, b.Changes())
}

// removal is what a sweep takes out of the books.
type removal struct {
	rows []int64
	sums map[string]*[3]int64 // by SKU: sold, delivered, refusals
	skus map[string]bool      // with holds that must first be freed
}

func (m *removal) add(sku string, at int, units int64) {
	if m.sums[sku] == nil {
		m.sums[sku] = &[3]int64{}
	}
	m.sums[sku][at] += units
}

func newRemoval() *removal { return &removal{sums: map[string]*[3]int64{}, skus: map[string]bool{}} }

// forget removes holds that were over before the time to keep began. It goes on where the transaction before
// it has stopped, up to the first that was reserved since.
func (run *stockSweep) forget(ctx context.Context, t *instant, now *stage, limit int) error {
	before, m, looked, young := t.now-run.keep, newRemoval(), 0, false
	err := t.each(ctx, func(r row) error {
		var changed, rowid int64
		h, err := scanHold(r, &changed, &rowid)
		if young = young || h.Reserved.UnixMicro() > before; err != nil || young || len(m.rows) == limit {
			return err
		}
		looked++
		now.after = rowid
		m.hold(h, rowid, changed, before)
		return nil
	}, t.store.sql.stock.oldHolds, run.after, looksHold)
	if err != nil {
		return err
	}
	now.more = now.more || looked == looksHold || len(m.rows) == limit
	now.removed += len(m.rows)
	return m.write(ctx, t, t.store.sql.stock.forgetHolds)
}

// hold takes one hold out, if it is over since the time before.
func (m *removal) hold(h inventory.Record, rowid, changed, before int64) {
	switch h.State {
	case inventory.Held:
		if h.Expires*int64(time.Second/time.Microsecond) > before {
			return
		}
		for _, p := range h.Parts {
			m.skus[p.SKU] = true
		}
	case inventory.Confirmed:
		if changed > before {
			return
		}
		for _, p := range h.Parts {
			m.add(p.SKU, 0, p.Quantity)
		}
	default:
		if changed > before {
			return
		}
		if h.State == inventory.Refused {
			m.add(h.Short.SKU, 2, 1)
		}
	}
	m.rows = append(m.rows, rowid)
}

// write removes the rows and folds what they add up to.
func (m *removal) write(ctx context.Context, t *instant, remove statement) error {
	if len(m.rows) == 0 {
		return nil
	}
	var skus []string
	for sku := range m.skus {
		skus = append(skus, sku)
	}
	if len(skus) > 0 {
		if err := t.freeAll(ctx, skus); err != nil {
			return err
		}
	}
	list, err := encode(m.rows)
	if err != nil {
		return err
	}
	// Linearization point: the COMMIT behind these writes. What is removed and what is folded are one transaction.
	if _, err := t.exec(ctx, remove, list); err != nil {
		return err
	}
	for sku, n := range m.sums {
		if _, err := t.exec(ctx, t.store.sql.stock.fold, sku, n[0], n[1], n[2]); err != nil {
			return err
		}
	}
	t.see(t.now)
	return nil
}

// forgetDeliveries removes deliveries from before the time to keep.
func (run *stockSweep) forgetDeliveries(ctx context.Context, t *instant, now *stage, limit int) error {
	m, left := newRemoval(), limit-now.removed
	err := t.each(ctx, func(r row) error {
		var rowid int64
		var text []byte
		var away bool
		if err := r.Scan(&rowid, &text, &away); err != nil {
			return err
		}
		items, err := decodeItems(text)
		for sku, q := range items {
			if away {
				q = -q
			}
			m.add(sku, 1, q)
		}
		m.rows = append(m.rows, rowid)
		return err
	}, t.store.sql.stock.oldDeliveries, t.now-run.keep, left)
	if err != nil {
		return err
	}
	now.more = now.more || len(m.rows) == left
	now.removed += len(m.rows)
	return m.write(ctx, t, t.store.sql.stock.forgetDeliver)
}
