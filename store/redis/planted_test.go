package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
	"github.com/fiftyhosts/fifty/store/redis"
)

// planted are the scripts, each with one condition gone, and a case of the contract that must notice.
var planted = []struct{ script, old, replacement, by string }{
	{"reserve", "if loaded[sku].available < items.units[sku] then return sku end", "", "an order of several SKUs is held as a whole or not at all"},
	{"reserve", "fresh[#fresh + 1] = id\n\treturn 'S' .. texts[id]", "local text = texts[id]\n\ttexts[id] = nil\n\treturn 'S' .. text", "a refused id stays refused, also when there is stock again"},
	{"reserve", "if record then", "if false then", "an id gets its yes again, with what has become of it, and nothing changes"},
	{"reserve", "decode(id, record).items == kind.text and 'A' or 'M'", "'A'", "an id with other items is a mismatch and changes nothing"},
	{"reserve", "if k.refusals >= kind.max then return 'B' end", "", "the refusals of a SKU are bounded, and at the bound none is forgotten"},
	// The short way of a lone ask.
	{"reserve", "if found[1] and not found[2] then", "if found[1] then", "an id gets its yes again, with what has become of it, and nothing changes"},
	{"reserve", "if adds and available >= units then", "if adds then", "the last unit is sold, and not one more"},
	{"reserve", "call('RPUSH', KEYS[2], ARGV[5])", "", "a sweep forgets what is over, and the levels stay"},
	{"reserve", "if was == 0 then call('ZADD', KEYS[3], 0, field) end", "", "units of an expired hold are free for the next order, without a sweep"},
	{"reserve", "if first == 0 or second < first then\n\t\t\t\tfirst = second", "if false then", "units of an expired hold are free for the next order, without a sweep"},
	{"reserve", "format('%d', was + units)", "format('%d', units)", "the last unit is sold, and not one more"},
	{"settle", "if r.state ~= '1' then return 'T' end\n\tback(r)", "back(r)", "what was confirmed is not released, and what was released is not confirmed"},
	{"settle", "if r.state == '3' or r.state == '5' then return 'P' end", "", "a release gives units back, once"},
	{"settle", "if has(r, k.sku) then", "if true then", "an expired hold that was released stays released"},
	{"settle", "if sku then\n\t\tr.state = '5'", "if false then\n\t\tr.state = '5'", "an expired hold whose units are gone lapses for good"},
	{"settle", "if r.expires <= now or not has(r, items.skus[i]) then return 'X' end", "", "an extension never revives"},
	{"settle", "if second > r.expires then", "if true then", "an extension moves the expiry, and never back"},
	{"settle", "if not within(parse(text), parse(r.items)) then return 'I' end", "", "a confirm of more than is held is refused and changes nothing"},
	{"supply", "if first then", "if false then", "a delivery counts once, however often it arrives"},
	{"supply", "and k.available < units", "and false", "what is withdrawn comes from what is available, and no more"},
	{"supply", "k.supply > max - units", "false", "a supply above the bound is refused as a whole"},
	{"sweep", "k.soldfolded = k.soldfolded + sold.units[sku]", "", "a sweep forgets what is over, and the levels stay"},
	{"sweep", "k.refusals = k.refusals - 1", "", "a sweep makes room for refusals, and only for those that it forgets"},
}

// TestRedisSuiteCatchesEveryPlantedFault breaks the scripts that are shipped. It changes the package, so it runs
// alone.
func TestRedisSuiteCatchesEveryPlantedFault(t *testing.T) {
	server := redisserver.New(t, "appendfsync no")
	for i, p := range planted {
		t.Run(p.script+": "+p.old, func(t *testing.T) {
			repair, ok := redis.Plant(p.script, p.old, p.replacement)
			if !ok {
				t.Fatal("the script has no such line, or several")
			}
			defer repair()
			stores := func(tb testing.TB, hook inventorytest.Hook) inventory.Store {
				client := connect(tb, server.Addr(), server.Password())
				return redis.New(client, redis.Config{Prefix: fmt.Sprint("planted ", i)}).WithHook(hook).Stock()
			}
			if caught := inventorytest.Catch(t, stores, features, p.by); len(caught) == 0 {
				t.Error("the case noticed nothing")
			}
		})
	}
}

// twoCalls is the store that one writes first: a look by one call, and then the write by another. Each is a
// script, decided as a whole, and so are the levels never wrong; but what was seen may be gone.
type twoCalls struct {
	redis.Stock
	step inventorytest.Hook
}

func (s twoCalls) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	for i, a := range asks {
		levels, err := s.Availability(ctx, a.Items.SKUs())
		if err != nil {
			return nil, err
		}
		for _, l := range levels {
			if l.Available < a.Items[l.SKU] {
				answers := make([]inventory.Answer, len(asks))
				answers[i].Err = &inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: l.SKU, Wanted: a.Items[l.SKU], Available: l.Available}}
				return answers, nil
			}
		}
	}
	s.step(ctx, "between")
	return s.Stock.Reserve(ctx, asks)
}

// TestRedisLookThatTheWriteTrustsIsCaught: the script no longer looks whether there is enough. The law in it
// still stops a sale of what is not there, but the buyer gets no answer.
func TestRedisLookThatTheWriteTrustsIsCaught(t *testing.T) {
	server := redisserver.New(t, "appendfsync no")
	repair, ok := redis.Plant("reserve", "if loaded[sku].available < items.units[sku] then return sku end", "")
	if !ok {
		t.Fatal("the script has no such line")
	}
	defer repair()
	stores := func(tb testing.TB, hook inventorytest.Hook) inventory.Store {
		return twoCalls{on(tb, server).WithHook(hook).Stock(), hook}
	}
	const by = "in every order one of two reservations gets the last unit"
	if caught := inventorytest.Catch(t, stores, features, by); !slices.Equal(caught, []string{by}) {
		t.Errorf("caught by %q", caught)
	}
}

// TestRedisLawStopsAScriptThatWouldSellTwice, whatever is wrong with its decision: before its first write.
func TestRedisLawStopsAScriptThatWouldSellTwice(t *testing.T) {
	s := open(t).Stock()
	supply(t, s, "all", inventory.Items{"tea": 1})
	repair, ok := redis.Plant("reserve", "if loaded[sku].available < items.units[sku] then return sku end", "")
	if !ok {
		t.Fatal("the script has no such line")
	}
	err := asks(reserveAsk("a", 1), reserveAsk("b", 1))(t.Context(), s)
	repair()
	if !errors.Is(err, redis.ErrBroken) || errors.Is(err, fifty.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	if got, want := level(t, s, "tea"), (inventory.Level{SKU: "tea", Supply: 1, Available: 1}); got != want {
		t.Errorf("the levels are %+v, want %+v", got, want)
	}
	sound(t, s)
}
