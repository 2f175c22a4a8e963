package redis_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

// kept are holds that a sweep must remember, and the line of the script without which it doesn't.
var kept = []struct {
	name      string
	ttl       time.Duration
	after     time.Duration // that the hold was reserved
	confirmed bool          // then
	keep      time.Duration
	line      string
	instead   string
}{
	{"it expired lately", 25 * time.Hour, 26 * time.Hour, false, 24 * time.Hour, "if r.expires * 1000000 > before then return false end", ""},
	{"it was confirmed lately", 48 * time.Hour, 25 * time.Hour, true, 24 * time.Hour, "return settled(r) <= before", "return true"},
	{"it is held, and nothing is to be kept", time.Hour, time.Minute, false, -2 * time.Hour, "if need(sku).freed < r.expires then return false end", ""},
}

// TestRedisSweepForgetsNothingEarly: though it goes by the order in which holds came.
func TestRedisSweepForgetsNothingEarly(t *testing.T) {
	server := redisserver.NewSkewed(t, 0, "appendfsync no")
	client := connect(t, server.Addr(), server.Password())
	for i, k := range kept {
		sweep := func(run string) error {
			server.SetClock(0)
			s := redis.New(client, redis.Config{Prefix: fmt.Sprint(run, i)}).Stock()
			supply(t, s, "all", inventory.Items{"tea": 1})
			ask := reserveAsk("a", 1)
			ask.TTL = k.ttl
			if err := asks(ask)(t.Context(), s); err != nil {
				return err
			}
			server.SetClock(k.after)
			if k.confirmed {
				if err := asks(inventory.Ask{Act: inventory.Confirm, ID: "a"})(t.Context(), s); err != nil {
					return err
				}
			}
			if _, err := s.Sweep(t.Context(), k.keep, 10); err != nil {
				return err
			}
			_, err := s.History(t.Context(), "a")
			return err
		}
		if err := sweep("right"); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		repair, ok := redis.Plant("sweep", k.line, k.instead)
		if !ok {
			t.Fatalf("the script has no such line, or several: %s", k.line)
		}
		if err := sweep("broken"); !errors.Is(err, inventory.ErrNotFound) {
			t.Errorf("%s: without %q nothing was noticed: %v", k.name, k.line, err)
		}
		repair()
	}
}

// TestRedisSweepFreesEverySKU, also when more have expired than one script looks at.
func TestRedisSweepFreesEverySKU(t *testing.T) {
	t.Parallel()
	const skus = 2500
	server := redisserver.NewSkewed(t, 0, "appendfsync no")
	s := on(t, server).Stock()
	var all []inventory.Ask
	for i := range skus {
		items := inventory.Items{fmt.Sprintf("sku-%04d", i): 1}
		supply(t, s, fmt.Sprint("delivery ", i), items)
		all = append(all, inventory.Ask{Act: inventory.Reserve, ID: fmt.Sprintf("order-%04d", i), Items: items, TTL: ttl, RefusalsMax: 1})
	}
	if err := asks(all...)(t.Context(), s); err != nil { // more than one script takes
		t.Fatal(err)
	}
	server.SetClock(2 * ttl)
	if n, err := s.Sweep(t.Context(), 24*time.Hour, 1000); n != 0 || err != nil {
		t.Fatalf("%d removed, %v", n, err)
	}
	server.SetClock(0) // what was freed is available by the levels themselves
	for i := range skus {
		if got := level(t, s, fmt.Sprintf("sku-%04d", i)); got.Available != 1 {
			t.Fatalf("%+v was not freed", got)
		}
	}
	server.SetClock(48 * time.Hour)
	total := 0
	for range 10 {
		n, err := s.Sweep(context.Background(), time.Hour, 1000)
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
		total += n
	}
	if want := 2 * skus; total != want { // holds and deliveries
		t.Errorf("%d were removed, want %d", total, want)
	}
	sound(t, s)
}
