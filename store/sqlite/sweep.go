package sqlite

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of one transaction of a sweep or an erasure, and so of what a claim waits for. One record is always
// done, whatever its size.
const (
	batchRecords = 100
	batchBytes   = 4 << 20 // of answers and steps: SQLite visits each page that it frees
)

// Sweep drops answers and removes tombstones; see idempotency.Store. It is done in transactions of at most 100
// records or about 4 MiB. Between two of them the file is left alone for as long as the last one took, so that the
// writers of other processes, which poll, get their turn.
func (k Keys) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	run := sweeping{keys: k, retention: micros(retention), tombstone: micros(tombstone)}
	for removed < limit {
		if err := pause(ctx, run.took); err != nil {
			return removed, explain("sweep", err)
		}
		n, err := run.next(ctx, min(limit-removed, batchRecords))
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
	}
	return removed, nil
}

// sweeping is one call of Sweep over its transactions.
type sweeping struct {
	keys                 Keys
	retention, tombstone int64
	forgot               bool          // nothing is left to remove; what this call buries is left for the next
	took                 time.Duration // how long the last transaction had the file
}

// next is one transaction. It returns how many records it worked on: none when none is left.
func (run *sweeping) next(ctx context.Context, limit int) (n int, err error) {
	var began time.Time
	forgot := run.forgot
	err = run.keys.store.write(ctx, "sweep", func(ctx context.Context, tx *sql.Tx) error {
		began = wall.Now()
		t, err := run.keys.store.instant(ctx, tx, "sweep")
		if err != nil {
			return err
		}
		if !forgot {
			if n, err = run.forget(ctx, t, limit); err != nil {
				return err
			}
			forgot = n < limit
		}
		buried, err := t.bury(ctx, t.now-run.retention, limit-n)
		if err != nil {
			return err
		}
		n += buried
		return t.keep(ctx)
	})
	if err != nil {
		return 0, err
	}
	run.forgot, run.took = forgot, wall.Since(began)
	return n, nil
}

// forget removes tombstones and free records whose time is over.
func (run *sweeping) forget(ctx context.Context, t *instant, limit int) (int, error) {
	before := t.now - run.tombstone
	n, err := t.forget(ctx, idempotency.Tombstone, before, before, limit)
	if err != nil {
		return 0, err
	}
	free, err := t.forget(ctx, idempotency.Free, t.now-run.retention, math.MaxInt64, limit-n)
	return n + free, err
}

// forget removes records of a state that were last changed at before or earlier, and whose keys were made
// earlier than made.
func (t *instant) forget(ctx context.Context, state idempotency.State, before, made int64, limit int) (int, error) {
	var gone []keyID
	var highest int64
	// Linearization point: the removal, the floor and the time are committed together. A claim that comes
	// later inserts above the floor, and judges windows by that time or a later one.
	err := t.each(ctx, func(r row) error {
		var id keyID
		var token int64
		err := r.Scan(&id.scope, &id.key, &token)
		gone, highest = append(gone, id), max(highest, token)
		return err
	}, t.store.sql.forget, state, before, made, limit)
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	if _, err := t.exec(ctx, t.store.sql.raise, highest); err != nil {
		return 0, err
	}
	t.see(t.now)
	if state == idempotency.Tombstone {
		return len(gone), nil // its steps went with its answer
	}
	return len(gone), t.unstep(ctx, gone...)
}

// bury turns records that were done at before or earlier into tombstones.
func (t *instant) bury(ctx context.Context, before int64, limit int) (int, error) {
	var due batch
	err := t.each(ctx, func(r row) error {
		var id keyID
		var size int64
		err := r.Scan(&id.scope, &id.key, &size)
		due.add(id, size)
		return err
	}, t.store.sql.due, before, limit)
	if err != nil {
		return 0, err
	}
	for _, id := range due.keys {
		if _, err := t.exec(ctx, t.store.sql.bury, id.scope, id.key); err != nil {
			return 0, err
		}
	}
	return len(due.keys), t.unstep(ctx, due.keys...)
}

// batch is the keys of one transaction.
type batch struct {
	keys  []keyID
	bytes int64
}

// add adds a key, unless the batch is full.
func (b *batch) add(id keyID, size int64) {
	if b.bytes < batchBytes {
		b.keys = append(b.keys, id)
	}
	b.bytes += size
}

// unstep forgets the steps of keys.
func (x session) unstep(ctx context.Context, keys ...keyID) error {
	for _, id := range keys {
		if _, err := x.exec(ctx, x.store.sql.unstep, id.scope, id.key); err != nil {
			return err
		}
	}
	return nil
}
