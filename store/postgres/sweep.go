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

// Bounds of a sweep's statement.
const (
	// sweepMax is how many records it works on: some ten milliseconds, for as long as which a claim may wait
	// for it.
	sweepMax = 5000
	// sweepDueMax is how many of these are answers and free keys: each free key that is removed has a place
	// in the server's table of locks until the commit.
	sweepDueMax = 1000
)

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

// SweepBatch is how many records one call of Sweep does best.
func (k Keys[Tx]) SweepBatch() int { return sweepMax }

// Sweep drops answers and removes tombstones and free keys; see idempotency.Store. It works on at most 5,000
// records, in statements of at most as many tombstones, and 1,000 of the others.
func (k Keys[Tx]) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	limit = min(limit, sweepMax)
	for removed < limit { // each turn but the last removes sweepDueMax or all that is left
		n, err := k.sweepNext(ctx, retention, tombstone, limit-removed)
		if removed += n; err != nil {
			return removed, err
		}
		if n < sweepDueMax {
			break
		}
	}
	return removed, nil
}

// sweepNext goes on where the last batch came to.
func (k Keys[Tx]) sweepNext(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	from := k.store.marks.sweepFrom()
	removed, to, err := k.sweep(ctx, retention, tombstone, limit, from)
	full := min(limit, sweepDueMax)
	if err == nil && removed < full && from.isSet() {
		// Something may have come due before the mark, or was skipped there.
		var more int
		more, to, err = k.sweep(ctx, retention, tombstone, limit-removed, sweepMark{})
		removed += more
	}
	if removed < full || err != nil {
		to = sweepMark{}
	}
	k.store.marks.sweptTo(to)
	return removed, err
}

func (k Keys[Tx]) sweep(
	ctx context.Context, retention, tombstone time.Duration, limit int, from sweepMark,
) (removed int, to sweepMark, err error) {
	var n, floor int64
	enter := k.store.statements.sweepEnter
	for _, st := range []statement{k.store.statements.sweep, k.store.statements.sweepAround} {
		sweep := st.with(retention.Microseconds(), tombstone.Microseconds(), int64(limit), from.buried, from.created)
		err = k.tidy(ctx, enter, sweep.into(&n, &to.buried, &to.created, &floor))
		if !isState(err, lockNotAvailable) {
			break
		}
	}
	if err != nil {
		return 0, sweepMark{}, err
	}
	return int(n), to, nil
}

// tidy runs a statement in a transaction of its own, in which it is planned as enter says.
func (k Keys[Tx]) tidy(ctx context.Context, enter statement, c *call) error {
	var settings int64
	idle := strconv.FormatInt(min(tidyIdleMax, k.store.cfg.IdleMax).Milliseconds(), 10)
	opts := txn.Options{Isolation: txn.ReadCommitted}
	tx, err := k.store.engine.begin(ctx, opts, enter.with(idle).into(&settings))
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
