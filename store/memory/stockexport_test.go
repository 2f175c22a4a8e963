package memory

// StockWaiting is how many callers wait now for a transaction that is at work on stock.
func (s *Store) StockWaiting() int {
	s.stock.mu.Lock()
	defer s.stock.mu.Unlock()
	return s.stock.waiting
}

// StockEnds is in how many seconds a sweep will look for holds.
func (s *Store) StockEnds() int {
	s.stock.mu.Lock()
	defer s.stock.mu.Unlock()
	return len(s.stock.ends)
}
