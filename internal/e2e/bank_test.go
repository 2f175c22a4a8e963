package e2e

import (
	cryptorand "crypto/rand"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/server/sandbox"
)

// bankFault is what a bank does to one request.
type bankFault string

const (
	fine       bankFault = "answer"
	failBefore bankFault = "fail before the effect"       // 503, and nothing is booked
	failAfter  bankFault = "fail after the effect"        // booked, then 500
	dropAfter  bankFault = "hang up after the effect"     // booked, then the connection is closed without a byte
	waitAfter  bankFault = "answer when the gate is open" // booked, then the answer waits
)

// bank is a service that tells a repeat by its Idempotency-Key: it books a charge once for each key, and
// answers every request of a key with that charge.
type bank struct {
	url    string
	gate   chan struct{}
	arrive chan struct{} // gets one value per request, once it is booked

	mu       sync.Mutex
	plan     func() bankFault
	booked   map[string]sandbox.Charge // by key
	requests map[string]int            // by key
	did      map[bankFault]int
}

// bankAnswer is a charge and the request that it answers: the repeats of one key differ in that.
type bankAnswer struct {
	sandbox.Charge
	Request int `json:"request"` // of this key, from 1
}

// newBank starts one. plan is called once per request, one call at a time. open lets the answers go that
// wait.
func newBank(tb testing.TB, plan func() bankFault) (b *bank, open func()) {
	tb.Helper()
	b = quietBank(plan)
	open = sync.OnceFunc(func() { close(b.gate) })
	server := httptest.NewServer(b)
	tb.Cleanup(server.Close)
	tb.Cleanup(open) // before the server's own, which waits for the answers
	b.url = server.URL
	return b, open
}

// quietBank is a bank that nobody can reach yet.
func quietBank(plan func() bankFault) *bank {
	const arrivalsMax = 10_000
	return &bank{
		gate: make(chan struct{}), arrive: make(chan struct{}, arrivalsMax), plan: plan,
		booked: map[string]sandbox.Charge{}, requests: map[string]int{}, did: map[bankFault]int{},
	}
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var c sandbox.Charge
	key := r.Header.Get("Idempotency-Key")
	if err != nil || json.Unmarshal(body, &c) != nil || key == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fault, a := b.book(key, c)
	b.arrive <- struct{}{}
	switch fault {
	case failBefore:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case failAfter:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case dropAfter:
		panic(http.ErrAbortHandler)
	case waitAfter:
		<-b.gate
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/charges/"+a.ID)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(a)
}

// book books the charge, unless its key is known or the bank fails before.
func (b *bank) book(key string, c sandbox.Charge) (bankFault, bankAnswer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fault := b.plan()
	b.did[fault]++
	b.requests[key]++
	if fault == failBefore {
		return fault, bankAnswer{}
	}
	if _, known := b.booked[key]; !known {
		c.ID = "ch_" + cryptorand.Text()
		b.booked[key] = c
	}
	return fault, bankAnswer{b.booked[key], b.requests[key]}
}

// wantBooked checks that each of the keys was booked, and nothing else.
func (b *bank) wantBooked(tb testing.TB, keys int) {
	tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.booked) != keys || len(b.requests) != keys {
		tb.Errorf("the bank booked %d charges and saw %d keys, want %d: %v", len(b.booked), len(b.requests), keys, b.requests)
	}
}

// requestsOf is how often the bank was asked under a key.
func (b *bank) requestsOf(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests[key]
}

func (b *bank) chargeOf(key string) sandbox.Charge {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.booked[key]
}

// waitForRequest waits until the bank has booked a request that was not waited for before.
func (b *bank) waitForRequest(tb testing.TB) {
	tb.Helper()
	select {
	case <-b.arrive:
	case <-time.After(waitMax):
		tb.Fatalf("no request reached the bank within %v", waitMax)
	}
}

// bankAnswer is what a caller got from a bank.
func (a answer) bankAnswer(tb testing.TB) bankAnswer {
	tb.Helper()
	var got bankAnswer
	if err := json.Unmarshal(a.body, &got); err != nil || a.status != http.StatusCreated || got.ID == "" {
		tb.Errorf("not a bank's answer: %v", a)
	}
	return got
}

// shuffled plays a list in an order that seed decides, and then rest for ever.
func shuffled[T any](seed uint64, rest T, list []T) func() T {
	rnd := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // a test that can be repeated
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return scripted(rest, list...)
}

// scripted plays a list, and then rest for ever.
func scripted[T any](rest T, list ...T) func() T {
	return func() T {
		if len(list) == 0 {
			return rest
		}
		first := list[0]
		list = list[1:]
		return first
	}
}
