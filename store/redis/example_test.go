package redis_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/redis"
)

// A ticket shop keeps its stock in Redis, and hears at its start what the server's settings may lose.
func Example() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store := redis.New(client, redis.Config{Prefix: "tickets"})
	warnings, err := store.Check(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range warnings {
		log.Print(warning)
	}
	stock := inventory.New(store.Stock(), inventory.Config{})
	if _, err := stock.Reserve(ctx, "order-7", inventory.Items{"seat": 2}, 10*time.Minute); err != nil {
		log.Print(err) // sold out, say
	}
}
