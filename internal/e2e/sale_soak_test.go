package e2e

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/hosts"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/internal/testenv"
	"github.com/fiftyhosts/fifty/inventory"
)

// A soak of a sale has hosts sell one hot SKU and a few others to many shoppers, and breaks them, round after
// round. The seed decides what is ordered, who is killed and stopped, and after how many payments; the machine
// decides the rest.
const (
	saleHosts = 3
	saleHot   = "hot"

	saleInsistMax = 10 // calls of the test's own, each of which the library tries for its StoreMax
)

var saleOthers = []string{"blue", "green", "red", "white"}

func TestSoakOfASaleOnSQLiteSellsEachUnitOnceAndForgetsNoAnswer(t *testing.T) {
	t.Parallel()
	(&sale{t: t, database: sqliteURL(t)}).run()
}

func TestSoakOfASaleOnAPostgresThatIsKilledTooSellsEachUnitOnceAndForgetsNoAnswer(t *testing.T) {
	t.Parallel()
	server := testenv.NewPostgres(t)
	(&sale{t: t, database: server.Database(t), server: server}).run()
}

// Each write is in the append-only file before its answer goes out, as store/redis asks for.
func TestSoakOfASaleOnARedisThatIsKilledTooSellsEachUnitOnceAndForgetsNoAnswer(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t)
	(&sale{t: t, database: server.URL(), server: server}).run()
}

// sale is one soak, with what it counts. Only what has a lock, and till, is for other goroutines than the test's.
type sale struct {
	t        *testing.T
	seed     uint64
	database string
	server   interface { // to be killed, or nil
		Kill()
		Start()
	}
	till    *saleTill
	members []*member
	store   *saleStore       // the test's own
	stock   *inventory.Stock // over it

	mu         sync.Mutex
	orders     []saleOrder
	told       map[string]saleAnswer // what somebody was told of an order, for good
	delivered  inventory.Items
	deliveries int

	unknown                           atomic.Int64 // orders that were asked for again, since nobody knew
	kills, restarts, databaseKills    int
	freezes, expired, stale, refusals int
	sold                              int64
}

func (s *sale) run() {
	t := s.t
	t.Helper()
	rounds := soakRounds(t)
	s.seed = seedOf(t)
	began := time.Now()
	s.open()
	for n := range rounds {
		s.round(n)
		if t.Failed() {
			t.Fatalf("round %d of %d, seed %d, went wrong", n+1, rounds, s.seed)
		}
	}
	s.askAgain(s.orders) // also what was told long ago

	t.Logf("soak: %s: seed %d, rounds %d, orders %d, units sold %d: hosts killed %d, restarted %d, stopped past their holds' expiry %d, database killed %d: unknown outcomes resolved by asking again %d, expired holds %d, refused stale confirms %d, refusals asked again %d, in %v",
		t.Name(), s.seed, rounds, len(s.orders), s.sold, s.kills, s.restarts, s.freezes, s.databaseKills, s.unknown.Load(), s.expired, s.stale, s.refusals, time.Since(began).Round(time.Second))
	for what, n := range map[string]int{
		"unit sold": int(s.sold), "kill": s.kills, "restart": s.restarts, "host that stopped past its hold's expiry": s.freezes,
		"unknown outcome": int(s.unknown.Load()), "expired hold": s.expired, "refused stale confirm": s.stale, "refusal": s.refusals,
	} {
		if n == 0 {
			t.Errorf("in %d rounds there was no %s, so the soak proves nothing about it", rounds, what)
		}
	}
	if s.server != nil && s.databaseKills == 0 {
		t.Errorf("in %d rounds the database was not killed", rounds)
	}
}

// open makes the stock and starts the hosts.
func (s *sale) open() {
	t := s.t
	t.Helper()
	store, err := openSale(t.Context(), s.database, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.close)
	s.store, s.stock = store, inventory.New(store, inventory.Config{})
	s.told, s.delivered = map[string]saleAnswer{}, inventory.Items{}
	s.till = newSaleTill(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range saleHosts {
		p := launch(t, hosts.Config{Path: binary, Args: []string{saleHost, s.database, s.till.url}})
		s.members = append(s.members, &member{process: p})
	}
	for _, m := range s.members {
		m.ready()
	}
}

// deliver brings new stock.
func (s *sale) deliver(items inventory.Items) {
	s.t.Helper()
	s.mu.Lock()
	for sku, units := range items {
		s.delivered.Add(sku, units)
	}
	s.deliveries++
	id := fmt.Sprint("delivery-", s.deliveries)
	s.mu.Unlock()
	if err := s.insist(func() error { return s.stock.Supply(s.t.Context(), id, items) }); err != nil {
		s.t.Fatal(err)
	}
}

// insist calls the stock until it answers: on a slow machine the hosts may keep it busy for long.
func (s *sale) insist(call func() error) (err error) {
	for range saleInsistMax {
		err = call()
		if !errors.Is(err, inventory.ErrUnavailable) && !errors.Is(err, fifty.ErrUnknownOutcome) || s.t.Context().Err() != nil {
			return err
		}
	}
	return err
}

// ofEach is so many units of every SKU, and more of the hot one.
func ofEach(hot, others int64) inventory.Items {
	items := inventory.Items{saleHot: hot}
	for _, sku := range saleOthers {
		items[sku] = others
	}
	return items
}
