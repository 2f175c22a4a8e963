package redis_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

func TestRedisStockHasNoTransactionToJoin(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"ReserveTx", "SettleTx"} {
		if _, has := reflect.TypeFor[redis.Stock]().MethodByName(method); has {
			t.Errorf("inventory.NewTx may compile with this store: it has %s", method)
		}
	}
}

// TestRedisStockThatLostAKeyStopsBeforeItSells: an eviction or a DEL takes whole keys.
func TestRedisStockThatLostAKeyStopsBeforeItSells(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"stock", "holds", "order", "deliveries", "delivered"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			server := redisserver.Shared(t)
			client := connect(t, server.Addr(), server.Password())
			store := open(t)
			s := store.Stock()
			supply(t, s, "first", inventory.Items{"tea": 2})
			if err := asks(reserveAsk("sold", 1))(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			var lost string
			for _, k := range store.Keys() {
				if strings.HasSuffix(k, ":"+key) {
					lost = k
				}
			}
			if err := client.Do(t.Context(), client.B().Del().Key(lost).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			before := dump(t, client, store)
			errs := []error{
				asks(reserveAsk("sold", 1), reserveAsk("next", 2))(t.Context(), s),
				asks(inventory.Ask{Act: inventory.Release, ID: "sold"})(t.Context(), s),
				s.Supply(t.Context(), inventory.Delivery{ID: "first", Items: inventory.Items{"tea": 2}}),
			}
			if key == "deliveries" || key == "delivered" { // nothing else goes by them
				errs = errs[2:]
				before = dump(t, client, store)
			}
			for i, err := range errs {
				if !errors.Is(err, redis.ErrBroken) || errors.Is(err, fifty.ErrUnknownOutcome) {
					t.Errorf("call %d: %v, want %v", i, err, redis.ErrBroken)
				}
			}
			if after := dump(t, client, store); after != before {
				t.Errorf("something was written:\n%s\n%s", before, after)
			}
			if faults, err := s.Check(t.Context()); err != nil || len(faults) == 0 {
				t.Errorf("Check names %v, %v", faults, err)
			}
		})
	}
}

// dump is all that the store's keys hold.
func dump(t *testing.T, client rueidis.Client, store *redis.Store) string {
	t.Helper()
	var all strings.Builder
	for _, key := range store.Keys() {
		said, err := client.Do(t.Context(), client.B().Dump().Key(key).Build()).ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		all.WriteString(key + "=" + said + "\n")
	}
	return all.String()
}

// TestRedisQuantitiesAreExactUpToTheLargestSupply: a Lua number is a double, exact up to 2^53.
func TestRedisQuantitiesAreExactUpToTheLargestSupply(t *testing.T) {
	t.Parallel()
	s := open(t).Stock()
	most := inventory.Items{"grain": inventory.SupplyMax}
	supply(t, s, "all", most)
	if err := s.Supply(t.Context(), inventory.Delivery{ID: "one more", Items: inventory.Items{"grain": 1}}); !errors.Is(err, fifty.ErrInvalid) {
		t.Errorf("a supply above the bound: %v", err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if err := asks(inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{"grain": inventory.QuantityMax - 1}, TTL: ttl})(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := asks(inventory.Ask{Act: inventory.Confirm, ID: "a"})(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	const one = inventory.QuantityMax - 1
	want := inventory.Level{SKU: "grain", Supply: inventory.SupplyMax, Available: inventory.SupplyMax - 3*one, Held: 2 * one, Sold: one}
	if got := level(t, s, "grain"); got != want {
		t.Errorf("the levels are %+v, want %+v", got, want)
	}
	sound(t, s)
}

// TestRedisClockThatGoesBackRevivesNothing: what was freed stays freed, and later holds outlast it.
func TestRedisClockThatGoesBackRevivesNothing(t *testing.T) {
	t.Parallel()
	server := redisserver.NewSkewed(t, 0, "appendfsync no")
	s := on(t, server).Stock()
	supply(t, s, "all", inventory.Items{"tea": 1})
	if err := asks(reserveAsk("a", 1))(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	server.SetClock(2 * ttl)
	if ahead := server.Ahead(t); ahead < ttl {
		t.Fatalf("the clock is ahead by %v", ahead)
	}
	if err := asks(reserveAsk("b", 1))(t.Context(), s); err != nil { // it frees a's
		t.Fatal(err)
	}
	server.SetClock(-2 * ttl)
	for _, want := range []struct {
		ask inventory.Ask
		err error
	}{
		{inventory.Ask{Act: inventory.Extend, ID: "a", TTL: ttl}, inventory.ErrHoldExpired},
		{inventory.Ask{Act: inventory.Confirm, ID: "a"}, inventory.ErrHoldExpired},
		{inventory.Ask{Act: inventory.Release, ID: "b"}, nil},
		{reserveAsk("c", 1), nil},
	} {
		if err := asks(want.ask)(t.Context(), s); !errors.Is(err, want.err) {
			t.Errorf("%v %s: %v, want %v", want.ask.Act, want.ask.ID, err, want.err)
		}
	}
	answers, err := s.Reserve(t.Context(), []inventory.Ask{reserveAsk("c", 1)})
	if err != nil || answers[0].Hold.ExpiresIn < 3*ttl {
		t.Errorf("c expires in %v, before what was freed already; %v", answers[0].Hold.ExpiresIn, err)
	}
	sound(t, s)
}

// TestRedisStockWorksOnACluster, all of whose slots one node has here: a script may only touch keys of one slot.
func TestRedisStockWorksOnACluster(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t, "cluster-enabled yes", "appendfsync no")
	client := connect(t, server.Addr(), server.Password())
	if err := client.Do(t.Context(), client.B().Arbitrary("CLUSTER", "ADDSLOTSRANGE", "0", "16383").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, redis.Config{Prefix: "shop"})
	sale := inventory.New(store.Stock(), inventory.Config{})
	err := insist(t.Context(), func() error { // a node needs a moment to see that it has all slots
		return sale.Supply(t.Context(), "all", inventory.Items{"tea": 5, "cup": 5})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sale.Reserve(t.Context(), "a", inventory.Items{"tea": 1, "cup": 2}, time.Minute); err != nil {
		t.Fatal(err)
	}
	sound(t, store.Stock())
	for _, key := range store.Keys() {
		if !strings.HasPrefix(key, "{shop}:") {
			t.Errorf("key %s is in another slot", key)
		}
	}
}
