package postgres

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// Availability reads the levels, in one statement; see inventory.Store.
func (s Stock[Tx]) Availability(ctx context.Context, skus []string) ([]inventory.Level, error) {
	var l inventory.Level
	read := s.sql.availability.with(append([]string{}, skus...)).into(&l.SKU, &l.Supply, &l.Available, &l.Held, &l.Sold)
	found, err := collect(ctx, s.store.run, read, func() (inventory.Level, error) { return l, nil })
	if err != nil {
		return nil, err
	}
	known := make(map[string]inventory.Level, len(found))
	for _, l := range found {
		known[l.SKU] = l
	}
	levels := make([]inventory.Level, 0, len(skus))
	for _, sku := range skus {
		l, ok := known[sku]
		if !ok {
			return nil, &inventory.UnknownSKUError{SKU: sku}
		}
		levels = append(levels, l)
	}
	return levels, nil
}

// History returns what happened to a hold; see inventory.LedgerStore.
func (s Stock[Tx]) History(ctx context.Context, id string) ([]inventory.Entry, error) {
	var now time.Time
	var row holdRow
	find := s.sql.history.with(id).into(append([]any{&now}, row.columns()...)...)
	if err := s.store.run(ctx, find); err != nil {
		return nil, err
	}
	if find.rows == 0 {
		return nil, inventory.ErrNotFound
	}
	r, err := row.record()
	if err != nil {
		return nil, err
	}
	return r.History(now), nil
}

// Check adds up the books in one snapshot; see inventory.LedgerStore.
func (s Stock[Tx]) Check(ctx context.Context) ([]inventory.Fault, error) {
	var idle, network string
	var f inventory.Fault
	var bucket int64
	opts := txn.Options{Isolation: txn.RepeatableRead, ReadOnly: true}
	tx, err := s.store.engine.begin(ctx, opts, s.store.statements.enter.with(s.store.cfg.idleMax()).into(&idle, &network))
	if err != nil {
		return nil, err
	}
	defer tx.rollback(ctx)
	check := s.sql.check.with(int64(inventory.FaultsMax)).into(&f.SKU, &bucket, &f.What, &f.Level, &f.Records)
	run := func(ctx context.Context, c *call) error { return tx.run(ctx, c) }
	return collect(ctx, run, check, func() (inventory.Fault, error) {
		f.Bucket = int(bucket)
		return f, nil
	})
}
