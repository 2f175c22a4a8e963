package memory

import (
	"context"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Sweep drops answers and removes tombstones; see idempotency.Store.
func (k Keys) Sweep(ctx context.Context, retention, tombstone time.Duration, limit int) (removed int, err error) {
	if err := k.store.step(ctx, "sweep"); err != nil {
		return 0, err
	}
	s := k.store
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	// The queues are in the order of time: behind the first that is not due, nothing is.
	for steps := 0; steps < limit && len(s.buried) > 0 && s.dig(now.Add(-tombstone), &removed); steps++ {
	}
	for steps := 0; steps < limit && removed < limit && len(s.due) > 0 && s.drop(now.Add(-retention), &removed); steps++ {
	}
	return removed, nil
}

// dig removes the first tombstone if it is not from after before; it returns false when it is. The store is
// locked, as for drop.
func (s *Store) dig(before time.Time, removed *int) bool {
	id := s.buried[0]
	e := s.keys[id]
	if e != nil && e.tx == nil && e.rec.State == idempotency.Tombstone {
		if e.rec.changed.After(before) || e.rec.made.After(before) {
			return false
		}
		s.remove(id, e)
		*removed++
	}
	s.buried = s.buried[1:]
	return true
}

// drop turns the first record that is done into a tombstone, or removes it if it is free.
func (s *Store) drop(before time.Time, removed *int) bool {
	id := s.due[0]
	e := s.keys[id]
	switch {
	case e == nil || e.tx != nil: // removed, or claimed by a transaction, which puts it in the queue again
	case e.rec.State != idempotency.Done && e.rec.State != idempotency.Free: // claimed anew
	case e.rec.changed.After(before):
		return false
	case e.rec.State == idempotency.Free:
		s.remove(id, e)
		*removed++
	default:
		buried := *e.rec
		buried.State, buried.Response, buried.Steps = idempotency.Tombstone, idempotency.Response{}, nil
		e.rec = &buried
		s.buried = append(s.buried, id)
		*removed++
	}
	s.due = s.due[1:]
	return true
}

// remove forgets a key but for its token: who claims it anew gets a higher one.
func (s *Store) remove(id keyID, e *entry) {
	s.tokenFloor = max(s.tokenFloor, e.rec.Token)
	delete(s.keys, id)
}
