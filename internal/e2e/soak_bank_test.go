package e2e

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/server/sandbox"
)

// What is behind the hosts of a soak, by path. The first is taken for a service that can't tell a repeat: each
// request that it gets counts as an effect. The others tell a repeat by its key.
const (
	soakHold    = "/hold"
	soakRetry   = "/retry"
	soakReserve = "/reserve" // the two steps of soakSteps
	soakCharge  = "/charge"
	soakSteps   = "/orders" // served by hosts built on the library
)

// soakBank is the services behind the hosts of a soak: slow ones, so that a kill finds work under way.
type soakBank struct {
	url      string
	banks    map[string]*bank // by path
	arrivals chan struct{}    // gets a value for each request, unless nobody has taken the one before

	mu    sync.Mutex
	gates map[string]*soakGate // by key
}

// soakGate holds the answer to the first request of a key back, once it is booked.
type soakGate struct {
	booked chan struct{} // closed then
	open   func()
	opened chan struct{}
}

func newSoakGate(tb testing.TB) *soakGate {
	tb.Helper()
	g := &soakGate{booked: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	tb.Cleanup(g.open)
	return g
}

func newSoakBank(tb testing.TB) *soakBank {
	tb.Helper()
	b := &soakBank{banks: map[string]*bank{}, arrivals: make(chan struct{}, 1), gates: map[string]*soakGate{}}
	for _, path := range []string{soakHold, soakRetry, soakReserve, soakCharge} {
		b.banks[path] = quietBank(scripted(fine))
	}
	server := httptest.NewServer(b)
	tb.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *soakBank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const slowMax = 20 * time.Millisecond // before the effect, and again behind it
	bank, ok := b.banks[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	ctx := context.WithoutCancel(r.Context()) // the work goes on when the host has died
	_ = pause(ctx, rand.N(slowMax))
	bank.ServeHTTP(w, r) // its answer is small: it leaves when this function returns
	select {
	case <-bank.arrive: // which nobody else waits for
	default:
	}
	select {
	case b.arrivals <- struct{}{}:
	default:
	}
	if g := b.takeGate(r.Header.Get("Idempotency-Key")); g != nil {
		close(g.booked)
		<-g.opened
		return
	}
	_ = pause(ctx, rand.N(slowMax))
}

// holdBack makes a gate for the first request of a key. It is open at the end of the test.
func (b *soakBank) holdBack(tb testing.TB, key string) *soakGate {
	tb.Helper()
	g := newSoakGate(tb)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gates[key] = g
	return g
}

func (b *soakBank) takeGate(key string) *soakGate {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.gates[key]
	delete(b.gates, key)
	return g
}

// charged is what was booked for a key under a path, and how many requests there were.
func (b *soakBank) charged(path, key string) (c sandbox.Charge, requests int) {
	bank := b.banks[path]
	return bank.chargeOf(key), bank.requestsOf(key)
}

// soakKey is one intent of a soak. Its amount is its own, so that no two look alike.
type soakKey struct {
	path   string
	name   string
	amount int
}

// atBank lists the paths and keys under which the bank knows an intent.
func (k soakKey) atBank() map[string]string {
	if k.path != soakSteps {
		return map[string]string{k.path: k.name}
	}
	req := idempotency.Request{Scope: soakScope, Key: k.name}
	return map[string]string{
		soakReserve: idempotency.StepKey(req, soakReserve),
		soakCharge:  idempotency.StepKey(req, soakCharge),
	}
}
