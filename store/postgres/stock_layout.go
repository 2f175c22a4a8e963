package postgres

import (
	"sync"
	"sync/atomic"

	"github.com/fiftyhosts/fifty/inventory"
)

// layoutMax bounds the SKUs that a layout remembers.
const layoutMax = 100_000

// layout remembers of SKUs how they were when they were seen last: a hint which buckets to lock and what to try
// first. What counts is what the locked row says.
type layout struct {
	mu   sync.Mutex
	skus map[string]hint // only those that are not as by default

	again atomic.Int32 // so many batches more are expected to have known ids
	wary  atomic.Int32 // so many more ask for them before they write
}

const (
	// againBatches is how many batches are expected to have known ids after one that had some.
	againBatches = 32
	// waryBatches is how many ask for known ids after one that had some. One that does not ask and has some fails on
	// the server, which logs that, so this is seldom. Asking is a twentieth of a batch's price.
	waryBatches = 10_000
)

// knownSeen remembers that a batch had known ids.
func (l *layout) knownSeen() {
	l.again.Store(againBatches)
	l.wary.Store(waryBatches)
}

// expectsKnown says whether the next batch probably has known ids, as far as the last ones tell.
func (l *layout) expectsKnown() bool { return counts(&l.again) }

// mayBeKnown says whether the next batch should ask for known ids.
func (l *layout) mayBeKnown() bool { return counts(&l.wary) }

// counts takes one away, if there is one.
func counts(n *atomic.Int32) bool { return n.Load() > 0 && n.Add(-1) >= 0 }

// hint is what is remembered of a SKU. The default is one bucket with enough in it.
type hint struct {
	buckets int  // 0 is 1
	short   bool // there was not enough, or not without freeing what has expired
}

func newLayout() *layout { return &layout{skus: map[string]hint{}} }

func (l *layout) of(sku string) hint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.skus[sku]
}

// count is how many buckets a SKU has.
func (l *layout) count(sku string) int { return max(l.of(sku).buckets, 1) }

func (l *layout) set(sku string, h hint) {
	if h == (hint{}) {
		delete(l.skus, sku)
		return
	}
	if len(l.skus) >= layoutMax {
		clear(l.skus)
	}
	l.skus[sku] = h
}

// learn compares the counts by which homes were chosen with those that the locked rows say, and says whether
// others should have been locked. A SKU of which no row was found is unknown only if bucket 0 was looked for.
func (l *layout) learn(chosen map[string]int, seen []inventory.Bucket) (wrong bool) {
	found := make(map[string]int, len(chosen))
	for _, b := range seen {
		found[b.SKU] = b.Count
	}
	for sku, count := range chosen {
		if is := max(found[sku], 1); is != count {
			l.splitTo(sku, is)
			wrong = true
		}
	}
	return wrong
}

// shorter remembers whether there would be enough for as much again.
func (l *layout) shorter(wanted map[string]int64, left []inventory.Bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range left {
		h := l.skus[b.SKU]
		if h.short = b.Available < wanted[b.SKU]; h != l.skus[b.SKU] {
			l.set(b.SKU, h)
		}
	}
}

// isShort remembers that a SKU had not enough.
func (l *layout) isShort(skus ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sku := range skus {
		h := l.skus[sku]
		h.short = true
		l.set(sku, h)
	}
}

// isPlain says of an order that all its SKUs have one bucket and enough, as far as is remembered.
func (l *layout) isPlain(items inventory.Items) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.skus) == 0 {
		return true
	}
	for sku := range items {
		if l.skus[sku] != (hint{}) {
			return false
		}
	}
	return true
}

// splitTo remembers a Split.
func (l *layout) splitTo(sku string, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.skus[sku]
	if h.buckets = count; count == 1 {
		h.buckets = 0
	}
	l.set(sku, h)
}
