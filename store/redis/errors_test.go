package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

// do sends a command whose answer does not matter.
func do(t *testing.T, client rueidis.Client, command ...string) {
	t.Helper()
	if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
}

func TestRedisThatIsDownDidNothing(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t)
	s := on(t, server).Stock()
	supply(t, s, "all", inventory.Items{"tea": 1})
	server.Kill()
	// The first calls may find the end of an old connection, on which they might have been sent.
	const oldMax = 20
	var err error
	for range oldMax {
		if err = asks(reserveAsk("a", 1))(t.Context(), s); !errors.Is(err, fifty.ErrUnknownOutcome) {
			break
		}
	}
	if err == nil || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("a connection that was refused: %v, want a definite error", err)
	}
	server.Start()
	if err := insist(t.Context(), func() error { return asks(reserveAsk("a", 1))(t.Context(), s) }); err != nil {
		t.Error(err)
	}
}

func TestRedisCallThatIsCalledOffBeforeItIsSentDidNothing(t *testing.T) {
	t.Parallel()
	s := open(t).Stock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := asks(reserveAsk("a", 1))(ctx, s)
	if !errors.Is(err, context.Canceled) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
}

func TestRedisThatForgotItsScriptsIsToldThem(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t, "appendfsync no")
	client := connect(t, server.Addr(), server.Password())
	s := redis.New(client, redis.Config{}).Stock()
	supply(t, s, "all", inventory.Items{"tea": 2})
	for _, id := range []string{"a", "b"} {
		do(t, client, "SCRIPT", "FLUSH")
		if err := asks(reserveAsk(id, 1))(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
}

// TestRedisThatRefusesSaysWhyAndDidNothing: a replica, and a server without memory.
func TestRedisThatRefusesSaysWhyAndDidNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, end []string
		want       error
	}{
		"replica":       {[]string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, redis.ErrReadOnly},
		"out of memory": {[]string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, redis.ErrOutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redisserver.New(t, "appendfsync no", "replica-serve-stale-data yes")
			client := connect(t, server.Addr(), server.Password())
			store := redis.New(client, redis.Config{})
			s := store.Stock()
			supply(t, s, "all", inventory.Items{"tea": 2})
			if err := asks(reserveAsk("a", 1))(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			do(t, client, c.begin...)
			for _, call := range []func(context.Context, inventory.Store) error{asks(reserveAsk("b", 1)), asks(inventory.Ask{Act: inventory.Confirm, ID: "a"})} {
				if err := call(t.Context(), s); !errors.Is(err, c.want) || errors.Is(err, fifty.ErrUnknownOutcome) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			}
			sound(t, s) // to look is not refused
			do(t, client, c.end...)
			if got, want := level(t, s, "tea"), (inventory.Level{SKU: "tea", Supply: 2, Available: 1, Held: 1}); got != want {
				t.Errorf("the levels are %+v, want %+v", got, want)
			}
			sound(t, s)
		})
	}
}

// TestRedisUserNeedsWhatTheDocumentationSays: scripts, reading and writing, and the time.
func TestRedisUserNeedsWhatTheDocumentationSays(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t, "appendfsync no")
	do(t, connect(t, server.Addr(), server.Password()), "ACL", "SETUSER", "shop", "on", ">pass", "~{fifty}:*", "+@scripting", "+@read", "+@write", "+@connection", "+time")
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "shop", Password: "pass", ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	store := redis.New(client, redis.Config{})
	s := store.Stock()
	supply(t, s, "all", inventory.Items{"tea": 2})
	if err := asks(reserveAsk("a", 1))(t.Context(), s); err != nil {
		t.Error(err)
	}
	sound(t, s)
	if warnings, err := store.Check(t.Context()); err != nil || len(warnings) == 0 {
		t.Errorf("settings that can't be read: %q, %v", warnings, err)
	}
}

func TestRedisCheckNamesWhatLosesAnswers(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t)
	client := connect(t, server.Addr(), server.Password())
	store := redis.New(client, redis.Config{})
	if warnings, err := store.Check(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("a server that loses nothing: %q, %v", warnings, err)
	}
	for _, c := range []struct{ name, value, back string }{
		{"appendfsync", "everysec", "always"},
		{"appendonly", "no", "yes"},
		{"maxmemory-policy", "allkeys-lru", "noeviction"},
		{"no-appendfsync-on-rewrite", "yes", "no"},
	} {
		do(t, client, "CONFIG", "SET", c.name, c.value)
		warnings, err := store.Check(t.Context())
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], c.name+" is "+c.value) {
			t.Errorf("%s %s: %q, %v", c.name, c.value, warnings, err)
		}
		do(t, client, "CONFIG", "SET", c.name, c.back)
	}
	do(t, client, "REPLICAOF", "127.0.0.1", "1")
	if warnings, err := store.Check(t.Context()); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "replica") {
		t.Errorf("a replica: %q, %v", warnings, err)
	}
}

func TestRedisCheckOfTheBooksIsBounded(t *testing.T) {
	t.Parallel()
	server := redisserver.New(t, "appendfsync no")
	store := redis.New(connect(t, server.Addr(), server.Password()), redis.Config{CheckMax: 3})
	supply(t, store.Stock(), "all", inventory.Items{"tea": 1, "cup": 1}) // two levels and a delivery
	sound(t, store.Stock())
	if err := asks(reserveAsk("a", 1))(t.Context(), store.Stock()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Stock().Check(t.Context()); !errors.Is(err, redis.ErrTooMany) {
		t.Errorf("got %v", err)
	}
}

func TestRedisBadConfigurationNamesItsField(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]redis.Config{
		"Config.Prefix":   {Prefix: "{a}"},
		"Config.CheckMax": {CheckMax: -1},
	} {
		var invalid *fifty.InvalidError
		if err := cfg.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (redis.Config{Prefix: strings.Repeat("x", 200)}).Validate(); !errors.Is(err, fifty.ErrInvalid) {
		t.Errorf("a long prefix: %v", err)
	}
}
