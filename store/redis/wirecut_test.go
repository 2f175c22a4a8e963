package redis_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/faults/respwire"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

const ttl = time.Hour

// operation is one call, what is there before it, and what must be there behind it, however often it arrived.
type operation struct {
	name    string
	prepare func(ctx context.Context, s *inventory.Stock) error
	call    func(ctx context.Context, s inventory.Store) error
	want    inventory.Level
}

func asks(all ...inventory.Ask) func(context.Context, inventory.Store) error {
	return func(ctx context.Context, s inventory.Store) error {
		act := s.Settle
		if all[0].Act == inventory.Reserve {
			act = s.Reserve
		}
		answers, err := act(ctx, all)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		return err
	}
}

func reserveAsk(id string, units int64) inventory.Ask {
	return inventory.Ask{Act: inventory.Reserve, ID: id, Items: inventory.Items{"tea": units}, TTL: ttl, RefusalsMax: 10}
}

var operations = []operation{
	{"supply", nil, func(ctx context.Context, s inventory.Store) error {
		return s.Supply(ctx, inventory.Delivery{ID: "more", Items: inventory.Items{"tea": 5}})
	}, inventory.Level{SKU: "tea", Supply: 15, Available: 15}},
	{"withdraw", nil, func(ctx context.Context, s inventory.Store) error {
		return s.Supply(ctx, inventory.Delivery{ID: "less", Items: inventory.Items{"tea": 4}, Away: true})
	}, inventory.Level{SKU: "tea", Supply: 6, Available: 6}},
	{"reserve", nil, asks(reserveAsk("a", 3)), inventory.Level{SKU: "tea", Supply: 10, Available: 7, Held: 3}},
	{"reserve a batch", nil, asks(reserveAsk("a", 3), reserveAsk("b", 4), reserveAsk("c", 2)), inventory.Level{SKU: "tea", Supply: 10, Available: 1, Held: 9}},
	{"confirm", held, asks(inventory.Ask{Act: inventory.Confirm, ID: "h"}), inventory.Level{SKU: "tea", Supply: 10, Available: 8, Sold: 2}},
	{"release", held, asks(inventory.Ask{Act: inventory.Release, ID: "h"}), inventory.Level{SKU: "tea", Supply: 10, Available: 10}},
	{"extend", held, asks(inventory.Ask{Act: inventory.Extend, ID: "h", TTL: 2 * ttl}), inventory.Level{SKU: "tea", Supply: 10, Available: 8, Held: 2}},
}

func held(ctx context.Context, s *inventory.Stock) error {
	_, err := s.Reserve(ctx, "h", inventory.Items{"tea": 2}, ttl)
	return err
}

// cut is a stock behind a proxy.
type cut struct {
	proxy  *faults.Proxy
	direct rueidis.Client
	near   *redis.Store // without the proxy
	far    *redis.Store // through it
	stock  *inventory.Stock
}

func newCut(t *testing.T) *cut {
	t.Helper()
	server := redisserver.New(t, "appendfsync no")
	proxy, err := faults.Start(faults.Config{Upstream: server.Addr(), Protocol: respwire.Protocol{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &cut{proxy: proxy, direct: connect(t, server.Addr(), server.Password())}
	c.near = redis.New(c.direct, redis.Config{})
	c.far = redis.New(connect(t, proxy.Addr(), server.Password()), redis.Config{})
	c.stock = inventory.New(c.near.Stock(), inventory.Config{})
	return c
}

// reset empties Redis, its scripts included, and prepares for an operation.
func (c *cut) reset(ctx context.Context, op operation) error {
	err := errors.Join(
		c.direct.Do(ctx, c.direct.B().Flushall().Build()).Error(),
		c.stock.Supply(ctx, "first", inventory.Items{"tea": 10}))
	if op.prepare != nil {
		err = errors.Join(err, op.prepare(ctx, c.stock))
	}
	return errors.Join(err, c.direct.Do(ctx, c.direct.B().ScriptFlush().Build()).Error())
}

// TestRedisEveryMessageThatIsLostTakesEffectOnce cuts each message of each operation, in each way; the caller
// then asks again on another connection, with the same id.
func TestRedisEveryMessageThatIsLostTakesEffectOnce(t *testing.T) {
	t.Parallel()
	c := newCut(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*waitMax)
	defer cancel()
	points := 0
	for _, op := range operations {
		if err := c.reset(ctx, op); err != nil {
			t.Fatal(err)
		}
		c.proxy.Arm(nil)
		if err := op.call(ctx, c.far.Stock()); err != nil {
			t.Fatal(err)
		}
		for _, p := range faults.Points(c.proxy.Trace()) {
			points++
			if err := c.strike(ctx, op, p); err != nil {
				t.Errorf("%s, %v: %v", op.name, p, err)
			}
			if got := level(t, c.near.Stock(), "tea"); got != op.want {
				t.Errorf("%s, %v: the levels are %+v, want %+v", op.name, p, got, op.want)
			}
			sound(t, c.near.Stock())
		}
	}
	// A script that Redis doesn't know yet is sent twice: by its name, and then as a whole.
	if want := len(operations) * 2 * 4; points != want {
		t.Errorf("%d points were cut, want %d", points, want)
	}
}

// strike calls an operation with a fault, and asks again.
func (c *cut) strike(ctx context.Context, op operation, p faults.Point) error {
	if err := c.reset(ctx, op); err != nil {
		return err
	}
	c.proxy.Arm(p.Plan())
	err := op.call(ctx, c.far.Stock())
	if !errors.Is(err, fifty.ErrUnknownOutcome) {
		return errors.Join(errors.New("the first answer is no unknown outcome"), err)
	}
	s, err := c.proxy.WaitStrike(ctx, 1)
	if err != nil {
		return err
	}
	if err := op.call(ctx, c.far.Stock()); err != nil {
		return err
	}
	s.Release()
	if err := s.Wait(ctx); err != nil {
		return err
	}
	return op.call(ctx, c.far.Stock()) // and the answer stays
}

// TestRedisRefusalWhoseAnswerIsLostStaysOne: what was told as sold out is not sold when stock comes.
func TestRedisRefusalWhoseAnswerIsLostStaysOne(t *testing.T) {
	t.Parallel()
	c := newCut(t)
	ctx := t.Context()
	if err := c.reset(ctx, operations[0]); err != nil {
		t.Fatal(err)
	}
	c.proxy.Arm(faults.At(2, faults.ReplyLost))
	sale := inventory.New(c.far.Stock(), inventory.Config{})
	for range 2 {
		if _, err := sale.Reserve(ctx, "late", inventory.Items{"tea": 11}, ttl); !errors.Is(err, inventory.ErrSoldOut) {
			t.Fatalf("got %v, want sold out", err)
		}
		if err := sale.Supply(ctx, "more", inventory.Items{"tea": 5}); err != nil {
			t.Fatal(err)
		}
	}
	if counts := c.proxy.Counts(); counts[faults.ReplyLost] != 1 {
		t.Errorf("the fault struck %v times", counts)
	}
}

// TestRedisCombinedCallersOutliveALostBatch: the members of a batch whose answer is lost ask again by
// themselves.
func TestRedisCombinedCallersOutliveALostBatch(t *testing.T) {
	t.Parallel()
	c := newCut(t)
	ctx := t.Context()
	if err := c.reset(ctx, operations[0]); err != nil {
		t.Fatal(err)
	}
	c.proxy.Arm(faults.Random(faults.RandomConfig{Seed: 1, OneIn: 3, Budget: 20}))
	sale := inventory.New(c.far.Stock(), inventory.Config{})
	const buyers = 16
	outcomes := make(chan error, buyers)
	for i := range buyers {
		go func() {
			id := string(rune('a' + i))
			outcomes <- insist(ctx, func() error {
				_, err := sale.Reserve(ctx, id, inventory.Items{"tea": 1}, ttl)
				if err == nil {
					_, err = sale.Confirm(ctx, id)
				}
				return err
			})
		}()
	}
	var errs []error
	for range buyers {
		errs = append(errs, <-outcomes)
	}
	soldOut := 0
	for _, err := range errs {
		if errors.Is(err, inventory.ErrSoldOut) {
			soldOut++
		} else if err != nil {
			t.Error(err)
		}
	}
	got := level(t, c.near.Stock(), "tea")
	if want := (inventory.Level{SKU: "tea", Supply: 10, Sold: 10}); got != want || soldOut != buyers-10 {
		t.Errorf("%d were refused, the levels are %+v", soldOut, got)
	}
	sound(t, c.near.Stock())
	if !slices.ContainsFunc(c.proxy.Strikes(), func(s *faults.Strike) bool { return s.Fault == faults.ReplyLost || s.Fault == faults.ClientGone }) {
		t.Error("no answer was lost")
	}
}
