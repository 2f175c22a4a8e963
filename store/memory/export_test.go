package memory

import "context"

// NewHooked is New with a look at each step, for tests that decide who goes first.
func NewHooked(cfg Config, before func(ctx context.Context, point string)) *Store {
	s := New(cfg)
	s.before = before
	return s
}

// Waiting is how many callers wait for a transaction now.
func (s *Store) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}
