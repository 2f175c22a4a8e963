package memory

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// looksPerLimit bounds the turns that one sweep looks at, in multiples of what it may sweep: most of those
// that it drops belong to keys that were claimed anew.
const looksPerLimit = 10

// turn is a record's place in a queue. It is void once the record has changed since, or is gone.
type turn struct {
	e   *entry
	rec moment // when the record changed
	at  moment // when its time begins
}

// Sweep drops answers and removes tombstones; see idempotency.Store.
func (k Keys) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	if err := k.store.step(ctx, "sweep"); err != nil {
		return 0, err
	}
	s := k.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	removed = s.sweep(&s.buried, isBuried, s.at(now.Add(-tombstone)), limit, s.remove)
	removed += s.sweep(&s.due, isEnded, s.at(now.Add(-retention)), limit-removed, s.drop)
	return removed, nil
}

// sweep acts on at most limit records of a queue whose time began no later than before: behind the first
// that is not due, nothing is. A key that a transaction is at work on keeps its place. The store is locked.
func (s *Store) sweep(
	q *queue, due func(idempotency.State) bool, before moment, limit int, act func(e *entry),
) (swept int) {
	var kept []turn
	for looks := 0; looks < looksPerLimit*limit && swept < limit; looks++ {
		t, ok := q.first()
		if !ok || t.at > before {
			break
		}
		q.drop()
		switch {
		case !due(t.e.rec.State) || t.e.rec.changed != t.rec: // void
		case t.e.tx != nil:
			kept = append(kept, t)
		default:
			act(t.e)
			swept++
		}
	}
	q.putBack(kept)
	return swept
}

func isEnded(s idempotency.State) bool  { return s == idempotency.Done || s == idempotency.Free }
func isBuried(s idempotency.State) bool { return s == idempotency.Tombstone }

// drop turns a record that is done into a tombstone, and removes one that is free.
func (s *Store) drop(e *entry) {
	if e.rec.State == idempotency.Free {
		s.remove(e)
		return
	}
	buried := &e.rec
	buried.State, buried.Response, buried.Steps = idempotency.Tombstone, idempotency.Response{}, nil
	s.buried.add(turn{e: e, rec: buried.changed, at: max(buried.changed, buried.made)})
}

// remove forgets a key but for its token: who claims it anew gets a higher one.
func (s *Store) remove(e *entry) {
	s.tokenFloor = max(s.tokenFloor, e.rec.Token)
	delete(s.keys, idOf(e.rec.Request))
	e.rec = stored{} // what else refers to it is void
}
