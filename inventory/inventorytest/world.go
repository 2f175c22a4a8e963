package inventorytest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
	"github.com/fiftyhosts/fifty/internal/suite"
	"github.com/fiftyhosts/fifty/inventory"
)

const (
	longTTL     = time.Hour        // of a hold that must not expire during a case
	shortTTL    = time.Millisecond // of one that must: it does at the end of the second
	longKeep    = 24 * time.Hour   // of a sweep that must not forget anything of a case
	expiryPoll  = 5 * time.Millisecond
	patience    = 10 * time.Second // for what must happen; it is never waited out unless it doesn't
	refusalsMax = 1000
	several     = 24 // holds that are made at once where each must then be waited for
)

// world is what a case has at hand: a store, names of its own, and a reporter.
type world struct {
	suite.Reporter
	ctx    context.Context
	store  inventory.Store
	f      Features
	races  *suite.Races
	prefix string
	names  int
	skus   map[string]bool            // of the case
	asked  map[string]inventory.Items // by id
}

func newWorld(r suite.Reporter, store inventory.Store, f Features, races *suite.Races) *world {
	r.Helper()
	if store == nil {
		r.Fatalf("newStore returned nil")
	}
	return &world{
		Reporter: r, ctx: r.Context(), store: store, f: f, races: races, prefix: rand.Text()[:12],
		skus: map[string]bool{}, asked: map[string]inventory.Items{},
	}
}

// name is a new name. Later ones are greater.
func (w *world) name(kind string) string {
	w.names++
	return fmt.Sprintf("%s/%s-%05d", w.prefix, kind, w.names)
}

func (w *world) id() string { return w.name("order") }

// idAt is an id whose home is one of so many buckets.
func (w *world) idAt(home, buckets int) string {
	for range 100 * buckets {
		if id := w.id(); inventory.Home(id, buckets) == home {
			return id
		}
	}
	w.Fatalf("no id has its home in bucket %d of %d", home, buckets)
	return ""
}

// sku is a new one with some units, which may be none.
func (w *world) sku(units int64) string { return w.split(units, 1) }

// split is sku over some buckets.
func (w *world) split(units int64, buckets int) string {
	w.Helper()
	sku := w.name("sku")
	w.skus[sku] = true
	first := max(units, 1)
	w.deliver(inventory.Delivery{ID: w.name("delivery"), Items: inventory.Items{sku: first}, Buckets: buckets})
	if units == 0 {
		w.deliver(inventory.Delivery{ID: w.name("delivery"), Items: inventory.Items{sku: first}, Away: true})
	}
	return sku
}

func (w *world) deliver(d inventory.Delivery) {
	w.Helper()
	if err := w.store.Supply(w.ctx, d); err != nil {
		w.Fatalf("Supply(%+v): %v", d, err)
	}
}

// restock adds units to SKUs.
func (w *world) restock(items inventory.Items) {
	w.Helper()
	w.deliver(inventory.Delivery{ID: w.name("delivery"), Items: items})
}

// ask asks one thing. An error of the call is the second result; one of the answer is in it.
func (w *world) ask(ctx context.Context, a inventory.Ask) (inventory.Answer, error) {
	call := w.store.Settle
	if a.Act == inventory.Reserve {
		call = w.store.Reserve
		a.RefusalsMax = max(a.RefusalsMax, 0)
		if a.RefusalsMax == 0 {
			a.RefusalsMax = refusalsMax
		}
	}
	answers, err := call(ctx, []inventory.Ask{a})
	if err != nil {
		return inventory.Answer{}, fmt.Errorf("%v %s: %w", a.Act, a.ID, err)
	}
	if len(answers) != 1 {
		return inventory.Answer{}, fmt.Errorf("%v gave %d answers for one ask", a.Act, len(answers))
	}
	return answers[0], nil
}

// told is ask where the store must answer.
func (w *world) told(a inventory.Ask) inventory.Answer {
	w.Helper()
	answer, err := w.ask(w.ctx, a)
	if err != nil {
		w.Fatalf("%v", err)
	}
	return answer
}

func (w *world) reserve(id string, items inventory.Items, ttl time.Duration) inventory.Answer {
	w.Helper()
	w.asked[id] = maps.Clone(items)
	return w.told(inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: ttl})
}

// hold reserves, and must get it. It returns the id.
func (w *world) hold(items inventory.Items, ttl time.Duration) string {
	w.Helper()
	id := w.id()
	w.holdAs(id, items, ttl)
	return id
}

func (w *world) holdAs(id string, items inventory.Items, ttl time.Duration) {
	w.Helper()
	if got := w.reserve(id, items, ttl); got.Err != nil || got.Hold.State != inventory.Held || got.Hold.Replayed {
		w.Fatalf("reserving %v: %v", items, show(got))
	}
}

func (w *world) confirm(id string) inventory.Answer {
	w.Helper()
	return w.told(inventory.Ask{Act: inventory.Confirm, ID: id})
}

func (w *world) part(id string, items inventory.Items) inventory.Answer {
	w.Helper()
	return w.told(inventory.Ask{Act: inventory.Confirm, ID: id, Items: items})
}

func (w *world) release(id string) inventory.Answer {
	w.Helper()
	return w.told(inventory.Ask{Act: inventory.Release, ID: id})
}

func (w *world) extend(id string, ttl time.Duration) inventory.Answer {
	w.Helper()
	return w.told(inventory.Ask{Act: inventory.Extend, ID: id, TTL: ttl})
}

// again asks for an order once more, which must change nothing: it tells what has become of it.
func (w *world) again(id string) inventory.Answer {
	w.Helper()
	return w.told(inventory.Ask{Act: inventory.Reserve, ID: id, Items: w.asked[id], TTL: longTTL})
}

// yes fails the case unless an answer is a yes that left the hold in a state.
func (w *world) yes(got inventory.Answer, state inventory.State, replayed bool) {
	w.Helper()
	if got.Err != nil || got.Hold.State != state || got.Hold.Replayed != replayed {
		w.Errorf("got %v, want a hold that is %v, replayed %v", show(got), state, replayed)
	}
}

// no fails the case unless an answer is an error of a kind.
func (w *world) no(got inventory.Answer, want error) {
	w.Helper()
	if !errors.Is(got.Err, want) {
		w.Errorf("got %v, want the error %q", show(got), want)
	}
}

// level is that of one SKU.
func (w *world) level(sku string) (inventory.Level, error) {
	levels, err := w.store.Availability(w.ctx, []string{sku})
	switch {
	case err != nil:
		return inventory.Level{}, fmt.Errorf("Availability: %w", err)
	case len(levels) != 1:
		return inventory.Level{}, fmt.Errorf("Availability gave %d levels for one SKU", len(levels))
	}
	return levels[0], nil
}

// has fails the case unless these are the levels of a SKU.
func (w *world) has(sku string, available, held, sold int64) {
	w.Helper()
	if err := w.mustHave(sku, available, held, sold); err != nil {
		w.Errorf("%v", err)
	}
}

// mustHave is has for the check of a race.
func (w *world) mustHave(sku string, available, held, sold int64) error {
	got, err := w.level(sku)
	if err != nil {
		return err
	}
	if want := (inventory.Level{SKU: sku, Supply: available + held + sold, Available: available, Held: held, Sold: sold}); got != want {
		return fmt.Errorf("the levels are %+v, want %+v", got, want)
	}
	return nil
}

// pass lets d pass by the store's clock, which goes on at the pace of this host's unless it can be moved.
func (w *world) pass(d time.Duration) {
	w.Helper()
	if w.f.Advance != nil {
		w.f.Advance(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

// expired lets the holds of a SKU expire that last for a short time, without an ask that could free them.
func (w *world) expired(sku string, available int64) {
	w.Helper()
	if w.f.Advance != nil {
		w.f.Advance(shortTTL + time.Second)
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	ticker := time.NewTicker(expiryPoll)
	defer ticker.Stop()
	for {
		got, err := w.level(sku)
		if err != nil {
			w.Fatalf("%v", err)
		}
		if got.Available >= available {
			return
		}
		if w.f.Advance != nil { // a clock that was moved has nothing to wait for
			w.Fatalf("a hold has not expired after its time: %+v", got)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			w.Fatalf("a hold never expired: %+v", got)
		}
	}
}

// ripe is a source of what begins with holds that have expired. With a real clock it makes several at once,
// since each has to be waited for; at most so many, for a race that leaves nothing of the others. begin returns
// the SKU to look at, and how much is available of it then.
func ripe[T any](w *world, most int, begin func() (made T, sku string, available int64)) func() T {
	var ready []T
	return func() T {
		w.Helper()
		if len(ready) == 0 {
			n := 1
			if w.f.Advance == nil {
				n = most
			}
			var sku string
			var available int64
			for range n {
				var one T
				one, sku, available = begin()
				ready = append(ready, one)
			}
			w.expired(sku, available)
		}
		one := ready[0]
		ready = ready[1:]
		return one
	}
}

// sound fails the case if the books of its SKUs don't add up.
func (w *world) sound() {
	w.Helper()
	if w.f.NoLedger != "" {
		return
	}
	if err := w.mustBeSound(); err != nil {
		w.Errorf("%v", err)
	}
}

func (w *world) mustBeSound() error {
	faults, err := inventory.NewLedger(w.ledger()).Check(w.ctx)
	if err != nil {
		return fmt.Errorf("Check: %w", err)
	}
	for _, f := range faults {
		if w.skus[f.SKU] {
			return fmt.Errorf("the books of %s don't add up: bucket %d, %s: the level is %d, the records say %d", f.SKU, f.Bucket, f.What, f.Level, f.Records)
		}
	}
	return nil
}

func (w *world) ledger() inventory.LedgerStore {
	w.Helper()
	ledger, ok := w.store.(inventory.LedgerStore)
	if !ok {
		w.Fatalf("the store is no LedgerStore; say why in Features.NoLedger")
	}
	return ledger
}

func (w *world) splitter() inventory.SplitStore {
	w.Helper()
	splitter, ok := w.store.(inventory.SplitStore)
	if !ok {
		w.Fatalf("the store is no SplitStore; say why in Features.NoSplit")
	}
	return splitter
}

func (w *world) resplit(sku string, buckets int) {
	w.Helper()
	if err := w.splitter().Split(w.ctx, sku, buckets); err != nil {
		w.Fatalf("Split into %d: %v", buckets, err)
	}
}

// How many orders the races have.
var (
	ofTwo   = suite.Size{Min: 2, All: 100}
	ofThree = suite.Size{Min: 6, All: 20, Few: 1}
	ofRipe  = suite.Size{Min: 2, All: 40} // each of its orders needs a hold that has expired
)

func (w *world) race(size suite.Size, newCase func() interleave.Case) {
	w.Helper()
	w.races.Explore(w.Reporter, size, newCase)
}

func show(a inventory.Answer) string {
	h := a.Hold
	return fmt.Sprintf("hold %q of %v, sold %v, %v, expires in %v, replayed %v, error %v", h.ID, h.Items, h.Sold, h.State, h.ExpiresIn, h.Replayed, a.Err)
}
