package sandbox

import (
	"context"
	"sync"
)

// Memory is a Ledger that lives as long as the process. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	charges []Charge
	places  map[string]int // by id, into charges
}

// NewMemory returns an empty ledger.
func NewMemory() *Memory { return &Memory{places: make(map[string]int)} }

// Add books a charge. It never fails.
func (m *Memory) Add(_ context.Context, c Charge) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Linearization point: the charge is in the ledger from here on. Nothing is compared, nobody loses.
	m.places[c.ID] = len(m.charges)
	m.charges = append(m.charges, c)
	return nil
}

// Find returns a charge, or ErrNotFound.
func (m *Memory) Find(_ context.Context, id string) (Charge, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place, ok := m.places[id]
	if !ok {
		return Charge{}, ErrNotFound
	}
	return m.charges[place], nil
}

// List returns a page, the newest last, or ErrNotFound if q.After names no charge.
func (m *Memory) List(_ context.Context, q Query) ([]Charge, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	start := 0
	if q.After != "" {
		place, ok := m.places[q.After]
		if !ok {
			return nil, ErrNotFound
		}
		start = place + 1
	}
	var page []Charge
	for _, c := range m.charges[start:] {
		if len(page) == q.limit() {
			break
		}
		if q.Account == "" || q.Account == c.Account {
			page = append(page, c)
		}
	}
	return page, nil
}
