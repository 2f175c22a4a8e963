package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

// waitMax bounds each wait in these tests; a wait that gets there has failed.
const waitMax = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens a client that ends with the test.
func connect(tb testing.TB, addr, password string) rueidis.Client {
	tb.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, Username: "default", Password: password, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// open makes a store on the shared server, with keys of its own.
func open(tb testing.TB) *redis.Store {
	tb.Helper()
	server := redisserver.Shared(tb)
	return redis.New(connect(tb, server.Addr(), server.Password()), redis.Config{Prefix: rand.Text()})
}

// on makes a store on a test's own server.
func on(tb testing.TB, server *redisserver.Server) *redis.Store {
	tb.Helper()
	return redis.New(connect(tb, server.Addr(), server.Password()), redis.Config{})
}

func supply(tb testing.TB, s inventory.Store, id string, items inventory.Items) {
	tb.Helper()
	if err := s.Supply(context.Background(), inventory.Delivery{ID: id, Items: items}); err != nil {
		tb.Fatal(err)
	}
}

// level is that of one SKU.
func level(tb testing.TB, s inventory.Store, sku string) inventory.Level {
	tb.Helper()
	levels, err := s.Availability(context.Background(), []string{sku})
	if err != nil {
		tb.Fatal(err)
	}
	return levels[0]
}

// sound fails the test if the books don't add up.
func sound(tb testing.TB, s inventory.LedgerStore) {
	tb.Helper()
	if faults, err := s.Check(context.Background()); err != nil || len(faults) > 0 {
		tb.Errorf("the books are off: %+v, %v", faults, err)
	}
}

// insist calls until the answer is one, as a caller does that wants to know: with the same id.
func insist(ctx context.Context, call func() error) error {
	for {
		err := call()
		again := errors.Is(err, inventory.ErrUnavailable) || errors.Is(err, fifty.ErrUnknownOutcome)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}
