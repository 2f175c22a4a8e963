package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
)

// Bounds of one transaction of a sweep or an erasure, and so of what a claim waits for. One record is always
// done, whatever its size.
const (
	batchRecords = 200
	batchBytes   = 4 << 20 // of answers and steps: SQLite visits each page that it frees
)

// How long the file is left alone after a transaction of a sweep, in shares of the time that it took. While
// others write they keep four fifths of the writer's time. Otherwise there is a gap all the same, in which the
// writers of other processes, which poll, get their first turn.
const (
	gapBusy = 4.0
	gapIdle = 0.25
)

// sweepBatch is how many records one call of Sweep works on: its pace is found anew in each.
const sweepBatch = 20_000

// SweepBatch is the limit for Sweep that suits this store. See idempotency.Keys.Sweep.
func (k Keys) SweepBatch() int { return sweepBatch }

// Sweep drops answers and removes tombstones; see idempotency.Store. It is done in transactions of at most 200
// records or about 4 MiB. Between two of them the file is left alone: for four times as long as the last one took
// when others have written or want to since the one before, and else for a quarter of it.
func (k Keys) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	run := sweeping{keys: k, retention: micros(retention), tombstone: micros(tombstone)}
	for removed < limit {
		if err := pause(ctx, run.gap()); err != nil {
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
	others               others        // as they were then
	busy                 bool          // and they had written or wanted to since the one before
}

// others tells whether others write: it differs as soon as another call of this Store wants the writer, or another
// connection, in whatever process, has committed something.
type others struct{ calls, version int64 }

// gap is how long the file is left alone now.
func (run *sweeping) gap() time.Duration {
	if run.busy {
		return time.Duration(gapBusy * float64(run.took))
	}
	return time.Duration(gapIdle * float64(run.took))
}

// next is one transaction. It returns how many records it worked on: none when none is left.
func (run *sweeping) next(ctx context.Context, limit int) (n int, err error) {
	var began time.Time
	forgot, seen := run.forgot, others{calls: run.keys.store.calls.Load()}
	err = run.keys.store.tidy(ctx, "sweep", func(ctx context.Context, tx *sql.Tx) error {
		began = wall.Now()
		if err := tx.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&seen.version); err != nil {
			return explain("sweep", err)
		}
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
	run.busy, run.others = seen != run.others, seen
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
	var rows []int64
	var stepped []keyID
	err := t.each(ctx, func(r row) error {
		var rowid, size int64
		var id keyID
		var steps bool
		if err := r.Scan(&rowid, &id.scope, &id.key, &size, &steps); err != nil || !due.add(id, size) {
			return err
		}
		rows = append(rows, rowid)
		if steps {
			stepped = append(stepped, id)
		}
		return nil
	}, t.store.sql.due, before, limit)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return 0, err
	}
	if _, err := t.exec(ctx, t.store.sql.bury, string(list)); err != nil {
		return 0, err
	}
	return len(rows), t.unstep(ctx, stepped...)
}

// batch is the keys of one transaction.
type batch struct {
	keys  []keyID
	bytes int64
}

// add adds a key, unless the batch is full.
func (b *batch) add(id keyID, size int64) (added bool) {
	if added = b.bytes < batchBytes; added {
		b.keys = append(b.keys, id)
	}
	b.bytes += size
	return added
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
