package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

var redisCases = []Case{
	{
		Name: "redis-256",
		Goal: atLeast(3),
		What: "256 callers of one process reserve one unit of one SKU in Redis. Ours: Reserve, Combined: one script for each batch. Theirs: one hand-written script for each order, by go-redis or rueidis, over its best pool.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			s, err := newRedisSale(ctx, b)
			if err != nil {
				return 0, err
			}
			var theirs []Side
			for _, connections := range handPools {
				goredis, err := s.goRedis(b, connections)
				if err != nil {
					return 0, err
				}
				rueidis, err := s.rueidis(b, connections)
				if err != nil {
					return 0, err
				}
				theirs = append(theirs, goredis, rueidis)
			}
			return medianOf(throughput(ctx, b, saleCallers, s.ours(), theirs...))
		},
	},
	{
		Name: "redis-256-pipelined",
		Goal: atLeast(1.0),
		What: "The same, against a client that combines on the wire: rueidis sends the scripts of all callers down one connection, without waiting for answers.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			s, err := newRedisSale(ctx, b)
			if err != nil {
				return 0, err
			}
			return medianOf(throughput(ctx, b, saleCallers, s.ours(), s.pipelined()))
		},
	},
	{
		Name: "redis-alone",
		Goal: atLeast(0.9),
		What: "One caller reserves one unit in Redis. Orders per second, from the latency of calls that alternate.",
		Run: func(ctx context.Context, b *bench) (float64, error) {
			s, err := newRedisSale(ctx, b)
			if err != nil {
				return 0, err
			}
			goredis, err := s.goRedis(b, handPools[0])
			if err != nil {
				return 0, err
			}
			r, err := latency(ctx, b, s.ours(), goredis, s.pipelined())
			return 1 / max(r.Median, math.SmallestNonzeroFloat64), err
		},
	},
}

// handScript is what one writes by hand: the id is looked at, the level decides, and the same is written as by
// ours: the levels, the hold, the units that expire in its second, and the order in which ids came.
const handScript = `local known = redis.call('HGET', KEYS[2], ARGV[1])
if known then return known end
local units = tonumber(ARGV[3])
local available = tonumber(redis.call('HGET', KEYS[1], 'available'))
if not available or available < units then return 'no' end
local time = redis.call('TIME')
local second = time[1] + ARGV[4]
redis.call('HINCRBY', KEYS[1], 'available', -units)
redis.call('HINCRBY', KEYS[1], 'held', units)
if redis.call('HINCRBY', KEYS[3], second, units) == units then
  redis.call('ZADD', KEYS[4], second, second)
end
local hold = 'held ' .. second .. ' ' .. time[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[2], ARGV[1], hold)
redis.call('RPUSH', KEYS[5], ARGV[1])
return hold`

// handKeys are the keys of the hand-written side.
var handKeys = []string{"{hand}:stock:" + saleSKU, "{hand}:holds", "{hand}:expiring", "{hand}:seconds", "{hand}:order"}

// redisSale is one server, on which each answer is on the disk, and both sides' stock on it.
type redisSale struct {
	url    string
	client rueidis.Client
	stock  *inventory.Stock
}

func newRedisSale(ctx context.Context, b *bench) (*redisSale, error) {
	server, err := startRedis(b)
	if err != nil {
		return nil, err
	}
	b.Explain("By hand, on the same Redis (appendonly yes, appendfsync always):\n%s", handScript)
	s := &redisSale{url: server.URL()}
	if s.client, err = s.connect(b, func(*rueidis.ClientOption) {}); err != nil {
		return nil, err
	}
	s.stock = inventory.New(redis.New(s.client, redis.Config{}).Stock(), inventory.Config{})
	if err := s.stock.Supply(ctx, "delivery", inventory.Items{saleSKU: saleSupply}); err != nil {
		return nil, err
	}
	levels := s.client.B().Hset().Key(handKeys[0]).FieldValue().FieldValue("available", strconv.Itoa(saleSupply)).FieldValue("held", "0").Build()
	return s, s.client.Do(ctx, levels).Error()
}

func (s *redisSale) connect(b *bench, change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	options, err := rueidis.ParseURL(s.url)
	if err != nil {
		return nil, err
	}
	change(&options)
	client, err := rueidis.NewClient(options)
	if err == nil {
		b.Cleanup(func() error { client.Close(); return nil })
	}
	return client, err
}

func (s *redisSale) ours() Side {
	return Side{Name: "Combined", Op: func(ctx context.Context, _ int) error {
		_, err := s.stock.Reserve(ctx, saleID(), inventory.Items{saleSKU: 1}, saleTTL)
		return err
	}}
}

func handArgs() []string {
	return []string{saleID(), saleSKU, "1", strconv.Itoa(int(saleTTL.Seconds()))}
}

// goRedis is the hand-written side by go-redis, with so many connections.
func (s *redisSale) goRedis(b *bench, connections int) (Side, error) {
	options, err := goredis.ParseURL(s.url)
	if err != nil {
		return Side{}, err
	}
	options.PoolSize, options.MinIdleConns = connections, connections
	options.PoolTimeout = time.Minute // with few connections, callers queue
	client := goredis.NewClient(options)
	b.Cleanup(client.Close)
	script := goredis.NewScript(handScript)
	return Side{Name: fmt.Sprintf("by hand, go-redis, pool of %d", connections), Op: func(ctx context.Context, _ int) error {
		a := handArgs()
		said, err := script.Run(ctx, client, handKeys, a[0], a[1], a[2], a[3]).Text()
		return taken(said, err)
	}}, nil
}

// rueidis is the hand-written side by rueidis, with so many connections and one call at a time on each.
func (s *redisSale) rueidis(b *bench, connections int) (Side, error) {
	client, err := s.connect(b, func(o *rueidis.ClientOption) {
		o.DisableAutoPipelining, o.BlockingPoolSize, o.BlockingPoolMinSize = true, connections, connections
	})
	return rueidisSide(client, fmt.Sprintf("by hand, rueidis, pool of %d", connections)), err
}

// pipelined is the hand-written side by rueidis as it is without settings.
func (s *redisSale) pipelined() Side { return rueidisSide(s.client, "by hand, rueidis, pipelined") }

func rueidisSide(client rueidis.Client, name string) Side {
	script := rueidis.NewLuaScript(handScript)
	return Side{Name: name, Op: func(ctx context.Context, _ int) error {
		said, err := script.Exec(ctx, client, handKeys, handArgs()).ToString()
		return taken(said, err)
	}}
}

func taken(said string, err error) error {
	if err == nil && said == "no" {
		err = errors.New("the script by hand did nothing")
	}
	return err
}

// startRedis starts a server that ends with the case.
func startRedis(b *bench) (server *redisserver.Server, err error) {
	o := &owner{}
	defer func() {
		switch cause := recover().(type) {
		case nil:
			b.Cleanup(o.end)
		case fatalError:
			err = errors.Join(cause, o.end())
		default:
			panic(cause)
		}
	}()
	return redisserver.New(o), nil
}
