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

// carryEvery is after how many transactions of a sweep the log is carried into the file: some hundred pages.
const carryEvery = 2

// sweepBatch is how many records one call of Sweep works on. It paces itself, and finds its pace anew in each call.
const sweepBatch = 200_000

// SweepBatch is the limit for Sweep that suits this store. See idempotency.Keys.Sweep.
func (k Keys) SweepBatch() int { return sweepBatch }

// Sweep drops answers and removes tombstones; see idempotency.Store. It is done in transactions of at most 200
// records or about 4 MiB. Between two of them the file is left alone: for four times as long as the last one took
// when others have written or want to since the one before, and else for a quarter of it.
func (k Keys) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	run := sweeping{keys: k, retention: micros(retention), tombstone: micros(tombstone)}
	for batches := 1; removed < limit; batches++ {
		n, err := run.next(ctx, min(limit-removed, batchRecords))
		removed += n
		if err != nil || n == 0 {
			return removed, err
		}
		ended := wall.Now()
		if batches%carryEvery == 0 {
			if err := k.store.carry(ctx); err != nil {
				return removed, err
			}
		}
		if err := pause(ctx, run.gap()-wall.Since(ended)); err != nil {
			return removed, explain("sweep", err)
		}
	}
	return removed, nil
}

// carry brings what the log holds into the file. Otherwise the commit that fills the log does so, with the writer,
// and that may be a claim's: it would pay for the sweep. On another connection it keeps no writer out.
func (s *Store) carry(ctx context.Context) error {
	if _, err := s.readers.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return explain("sweep", err)
	}
	return nil
}

// sweeping is one call of Sweep over its transactions.
type sweeping struct {
	pace
	keys                 Keys
	retention, tombstone int64
	forgot               bool // nothing is left to remove; what this call buries is left for the next
}

// pace is how a sweep shares the file with others.
type pace struct {
	took   time.Duration // how long the last transaction had the file
	others others        // as they were then
	busy   bool          // and they had written or wanted to since the one before
}

// end is called after each transaction.
func (p *pace) end(took time.Duration, seen others) {
	p.took, p.busy, p.others = took, seen != p.others, seen
}

// others tells whether others write: it differs as soon as another call of this Store wants the writer, or another
// connection, in whatever process, has committed something.
type others struct{ calls, version int64 }

// gap is how long the file is left alone now.
func (p *pace) gap() time.Duration {
	if p.busy {
		return time.Duration(gapBusy * float64(p.took))
	}
	return time.Duration(gapIdle * float64(p.took))
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
	run.forgot = forgot
	run.end(wall.Since(began), seen)
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
