package postgres

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/txn"
)

// tidyIdleMax is how long a host may be silent between a sweep's statement and its COMMIT before the server
// ends the transaction. Over pgx the two are one message.
const tidyIdleMax = 5 * time.Second

// sweepMax bounds the records of one Sweep: each key that is removed has a place in the server's table of
// locks until the commit.
const sweepMax = 1000

// marks say where the last batch of a sweep or an erasure came to, while batches follow each other. They save
// time only: what lies before a mark is mostly what earlier batches have left for vacuum to remove.
type marks struct {
	mu       sync.Mutex
	swept    sweepMark
	erased   string // key
	erasedOf string // its scope
}

// sweepMark is a place in each of the two indexes that a sweep reads; nil is the first.
type sweepMark struct{ buried, created *time.Time }

func (m sweepMark) isSet() bool { return m.buried != nil || m.created != nil }

// Sweep drops answers and removes tombstones and free keys; see idempotency.Store. It works on at most 1,000
// records, in one statement.
func (k Keys[Tx]) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	limit = min(limit, sweepMax)
	if limit <= 0 {
		return 0, nil
	}
	from := k.store.marks.sweepFrom()
	removed, to, err := k.sweep(ctx, retention, tombstone, limit, from)
	if err == nil && removed < limit && from.isSet() {
		// Something may have come due before the mark, or was skipped there.
		var more int
		more, to, err = k.sweep(ctx, retention, tombstone, limit-removed, sweepMark{})
		removed += more
	}
	if removed < limit || err != nil {
		to = sweepMark{}
	}
	k.store.marks.sweptTo(to)
	return removed, err
}

func (k Keys[Tx]) sweep(
	ctx context.Context, retention, tombstone time.Duration, limit int, from sweepMark,
) (removed int, to sweepMark, err error) {
	var n int64
	sweep := k.store.statements.sweep.with(retention.Microseconds(), tombstone.Microseconds(), int64(limit), from.buried, from.created)
	err = k.tidy(ctx, sweep.into(&n, &to.buried, &to.created))
	if err != nil {
		return 0, sweepMark{}, err
	}
	return int(n), to, nil
}

// tidy runs a statement in a transaction of its own, in which it is planned as it should be.
func (k Keys[Tx]) tidy(ctx context.Context, c *call) error {
	var settings int64
	idle := strconv.FormatInt(min(tidyIdleMax, k.store.cfg.IdleMax).Milliseconds(), 10)
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := k.store.engine.begin(ctx, opts, k.store.statements.tidyEnter.with(idle).into(&settings))
	if err != nil {
		return err
	}
	defer tx.rollback(ctx)
	return tx.commit(ctx, c)
}

func (m *marks) sweepFrom() sweepMark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.swept
}

func (m *marks) sweptTo(to sweepMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.swept = to
}

func (m *marks) eraseFrom(scope string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.erasedOf != scope {
		return ""
	}
	return m.erased
}

func (m *marks) erasedTo(scope, key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.erasedOf, m.erased = scope, key
}
