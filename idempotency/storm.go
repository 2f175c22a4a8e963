package idempotency

import "sync/atomic"

// What a storm counts. A read that finds nothing costs a fresh request about a third of what it saves a duplicate, so
// it pays when more than a quarter of the keys that this process has not seen were answered elsewhere.
const (
	stormUp   = 3
	stormDown = 1
	stormFrom = 12
	stormMax  = 24
)

// storm notices that many requests are retries of what other hosts answered: one of them has died, or this one has
// just started. While it rages, keys that this process has not seen are read first, too. A count that concurrent
// callers lose is lost; a wrong guess costs a read or a claim that fails, and decides nothing.
type storm struct{ level atomic.Int32 }

func (s *storm) rages() bool { return s.level.Load() >= stormFrom }

// note counts a key that was not seen before: whether another host had answered it.
func (s *storm) note(answered bool) {
	now := s.level.Load()
	next := max(now-stormDown, 0)
	if answered {
		next = min(now+stormUp, stormMax)
	}
	if next != now { // in fair weather nothing is written, and callers share a line that nobody changes
		s.level.Store(next)
	}
}
