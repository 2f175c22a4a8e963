package redis_test

import (
	"context"
	"testing"

	"github.com/fiftyhosts/fifty/faults/redisserver"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

var features = inventorytest.Features{
	NoSplit:      "Redis runs one script at a time, so splitting a SKU gains nothing",
	SchedulesMin: 72, // each caller is one script, and none waits for a lock
	Blocked:      func(context.Context) int { return 0 },
}

// contract makes stores for the suite, on one server.
func contract(server *redisserver.Server) func(testing.TB, inventorytest.Hook) inventory.Store {
	return func(tb testing.TB, hook inventorytest.Hook) inventory.Store {
		return on(tb, server).WithHook(hook).Stock()
	}
}

func TestRedisKeepsTheContractOfAStock(t *testing.T) {
	t.Parallel()
	inventorytest.Run(t, contract(redisserver.New(t, "appendfsync no")), features)
}
