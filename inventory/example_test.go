package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/memory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// Two shoppers want the last three tickets. The order's id makes each ask safe to repeat: a yes stays a yes, and a
// no stays a no, also when there are tickets again.
func Example() {
	ctx := context.Background()
	stock := inventory.New(memory.New(memory.Config{}).Stock(), inventory.Config{})
	if err := stock.Supply(ctx, "delivery 1", inventory.Items{"seat": 3}); err != nil {
		log.Fatal(err)
	}

	hold, err := stock.Reserve(ctx, "order 7", inventory.Items{"seat": 2}, 10*time.Minute)
	fmt.Println(hold.State, hold.Items, err)

	_, err = stock.Reserve(ctx, "order 8", inventory.Items{"seat": 2}, 10*time.Minute)
	if short, ok := errors.AsType[*inventory.SoldOutError](err); ok {
		fmt.Println(short.SKU, "wanted", short.Wanted, "available", short.Available)
	}

	again, err := stock.Reserve(ctx, "order 7", inventory.Items{"seat": 2}, 10*time.Minute)
	fmt.Println(again.State, again.Replayed, err)

	sold, err := stock.Confirm(ctx, "order 7") // the shopper has paid
	fmt.Println(sold.State, sold.Sold, err)
	// Output:
	// held map[seat:2] <nil>
	// seat wanted 2 available 1
	// held true <nil>
	// confirmed map[seat:2] <nil>
}

// The units and the order's row are there together, or neither is.
func ExampleTxStock_ReserveTx() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	stock := inventory.NewTx(postgres.New(pool, postgres.Config{}).Stock(), inventory.Config{})

	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into orders (id, customer) values ($1, $2)`, "order 7", "ann"); err != nil {
			return err
		}
		_, err := stock.ReserveTx(ctx, tx, "order 7", inventory.Items{"seat": 2, "programme": 1}, 10*time.Minute)
		return err // sold out: the order's row is rolled back as well
	})
	if errors.Is(err, inventory.ErrSoldOut) {
		fmt.Println("sold out")
	}
}

// A SKU that is sold faster than one row can be locked is spread over several.
func ExampleBuckets() {
	ctx := context.Background()
	stock := inventory.New(memory.New(memory.Config{}).Stock(), inventory.Config{Strategy: inventory.Buckets(16)})
	if err := stock.Supply(ctx, "delivery 1", inventory.Items{"seat": 1000}); err != nil {
		log.Fatal(err)
	}
	levels, err := stock.Availability(ctx, "seat")
	fmt.Println(levels[0].Available, err)
	// Output:
	// 1000 <nil>
}
