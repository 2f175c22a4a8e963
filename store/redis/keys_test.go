package redis_test

import (
	"errors"
	"fmt"
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

// TestRedisStockThatLostAKeyNeverSellsTwice: an eviction or a DEL takes whole keys. What decides is in one, so
// that it goes as a whole: then the SKUs are unknown. Without the others only tidying suffers.
func TestRedisStockThatLostAKeyNeverSellsTwice(t *testing.T) {
	t.Parallel()
	server := redisserver.Shared(t)
	client := connect(t, server.Addr(), server.Password())
	for i, key := range open(t).Keys() {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			s := store.Stock()
			supply(t, s, "first", inventory.Items{"tea": 2})
			if err := asks(reserveAsk("sold", 1))(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			do(t, client, "DEL", store.Keys()[i])
			if i == 0 {
				if err := asks(reserveAsk("next", 1))(t.Context(), s); !errors.Is(err, inventory.ErrUnknownSKU) {
					t.Errorf("without its stock: %v", err)
				}
				return
			}
			if err := asks(reserveAsk("sold", 1), reserveAsk("next", 1))(t.Context(), s); err != nil {
				t.Errorf("without %s: %v", key, err)
			}
			if err := asks(reserveAsk("late", 1))(t.Context(), s); !errors.Is(err, inventory.ErrSoldOut) {
				t.Errorf("without %s a unit was sold twice: %v", key, err)
			}
			supply(t, s, "first", inventory.Items{"tea": 2})
			if got, want := level(t, s, "tea"), (inventory.Level{SKU: "tea", Supply: 2, Held: 2}); got != want {
				t.Errorf("without %s the levels are %+v, want %+v", key, got, want)
			}
		})
	}
}

// TestRedisStockThatWasTamperedWithStopsBeforeItWrites, and says so.
func TestRedisStockThatWasTamperedWithStopsBeforeItWrites(t *testing.T) {
	t.Parallel()
	for name, tamper := range map[string]func(t *testing.T, client rueidis.Client, stock string){
		"levels that don't add up": func(t *testing.T, client rueidis.Client, stock string) {
			do(t, client, "HSET", stock, "tea", "2 2 1 0 0 0 0 2 0")
		},
		"levels that are none": func(t *testing.T, client rueidis.Client, stock string) {
			do(t, client, "HSET", stock, "tea", "two")
		},
		"a hold that is none": func(t *testing.T, client rueidis.Client, stock string) {
			do(t, client, "HSET", stock, "\x00hsold", "held")
		},
		"units of a second are gone": func(t *testing.T, client rueidis.Client, stock string) {
			fields, err := client.Do(t.Context(), client.B().Hkeys().Key(stock).Build()).AsStrSlice()
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range fields {
				if strings.HasPrefix(field, "tea\x00") {
					do(t, client, "HDEL", stock, field)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redisserver.Shared(t)
			client := connect(t, server.Addr(), server.Password())
			store := open(t)
			s := store.Stock()
			supply(t, s, "first", inventory.Items{"tea": 2})
			if err := asks(reserveAsk("sold", 1))(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			tamper(t, client, store.Keys()[0])
			before := dump(t, client, store)
			err := asks(inventory.Ask{Act: inventory.Release, ID: "sold"})(t.Context(), s)
			if !errors.Is(err, redis.ErrBroken) || errors.Is(err, fifty.ErrUnknownOutcome) {
				t.Errorf("got %v, want a definite %v", err, redis.ErrBroken)
			}
			if after := dump(t, client, store); after != before {
				t.Errorf("something was written:\n%q\n%q", before, after)
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
	server := redisserver.NewSkewed(t, 0, "appendfsync no")
	client := connect(t, server.Addr(), server.Password())
	sale := func(prefix string, all ...inventory.Ask) error {
		server.SetClock(0)
		s := redis.New(client, redis.Config{Prefix: prefix}).Stock()
		supply(t, s, "all", inventory.Items{"tea": 1})
		if err := asks(reserveAsk("a", 1))(t.Context(), s); err != nil {
			return err
		}
		server.SetClock(2 * ttl)
		if ahead := server.Ahead(t); ahead < ttl {
			return fmt.Errorf("the clock is ahead by %v", ahead)
		}
		if err := asks(reserveAsk("b", 1))(t.Context(), s); err != nil { // it frees a's
			return err
		}
		server.SetClock(-2 * ttl)
		for act, want := range map[inventory.Act]error{inventory.Extend: inventory.ErrHoldExpired, inventory.Confirm: inventory.ErrHoldExpired} {
			if err := asks(inventory.Ask{Act: act, ID: "a", TTL: ttl})(t.Context(), s); !errors.Is(err, want) {
				return fmt.Errorf("%v of a: %w, want %w", act, err, want)
			}
		}
		if err := asks(inventory.Ask{Act: inventory.Release, ID: "b"})(t.Context(), s); err != nil {
			return err
		}
		answers, err := s.Reserve(t.Context(), all)
		if err != nil || answers[0].Err != nil {
			return errors.Join(err, answers[0].Err)
		}
		if left := answers[0].Hold.ExpiresIn; left < 3*ttl {
			return fmt.Errorf("c expires in %v, before what was freed already", left)
		}
		sound(t, s)
		return nil
	}
	alone, together := []inventory.Ask{reserveAsk("c", 1)}, []inventory.Ask{reserveAsk("c", 1), reserveAsk("d", 1)}
	if err := errors.Join(sale("alone", alone...), sale("together", together...)); err != nil {
		t.Error(err)
	}
	for line, ask := range map[string][]inventory.Ask{
		"if second <= freed then second = freed + 1 end\n\t\t\tlocal expiry": alone,
		"if second <= freed then second = freed + 1 end\n\tend":              together,
	} {
		repair, ok := redis.Plant("reserve", line, strings.Replace(line, "second = freed + 1", "", 1))
		if !ok {
			t.Fatalf("the script has no such line: %q", line)
		}
		if err := sale(fmt.Sprint("broken ", len(ask)), ask...); err == nil {
			t.Errorf("without %q nothing was noticed", line)
		}
		repair()
	}
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
