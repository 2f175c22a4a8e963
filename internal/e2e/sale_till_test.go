package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// saleTill is where shoppers pay, which takes a while, so that a kill finds orders under way.
type saleTill struct {
	url      string
	arrivals chan struct{} // gets a value for each shopper, unless nobody has taken the one before

	mu    sync.Mutex
	held  map[string]bool // orders whose hosts were told that the units are held
	gates map[string]*soakGate
}

func newSaleTill(tb testing.TB) *saleTill {
	tb.Helper()
	till := &saleTill{arrivals: make(chan struct{}, 1), held: map[string]bool{}, gates: map[string]*soakGate{}}
	server := httptest.NewServer(till)
	tb.Cleanup(server.Close)
	till.url = server.URL
	return till
}

func (s *saleTill) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	const slowMax = 40 * time.Millisecond
	id := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	s.held[id] = true
	g := s.gates[id]
	delete(s.gates, id)
	s.mu.Unlock()
	select {
	case s.arrivals <- struct{}{}:
	default:
	}
	if g != nil {
		close(g.booked)
		<-g.opened
		return
	}
	_ = pause(context.WithoutCancel(r.Context()), rand.N(slowMax))
}

// holdBack makes a gate for the first time that an order is paid. It is open at the end of the test.
func (s *saleTill) holdBack(tb testing.TB, id string) *soakGate {
	tb.Helper()
	g := newSoakGate(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[id] = g
	return g
}

func (s *saleTill) wasHeld(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}
