// Command onesweep sweeps the keys of a Postgres database once: onesweep DATABASE RETENTION TOMBSTONE.
// The end-to-end tests run it as a host of its own, whose clock they choose.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/internal/wall"
	"github.com/fiftyhosts/fifty/store/postgres"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "onesweep:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: onesweep DATABASE RETENTION TOMBSTONE")
	}
	retention, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	tombstone, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, args[0])
	if err != nil {
		return err
	}
	defer pool.Close()
	keys := idempotency.New(postgres.New(pool, postgres.Config{}).Keys(), idempotency.Config{Retention: retention, Tombstone: tombstone})
	removed, err := keys.Sweep(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("clock %d removed %d\n", wall.Now().Unix(), removed)
	return err
}
