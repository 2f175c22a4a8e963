package e2e

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/store/redis"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// saleStore is a process's own way to the stock of a sale.
type saleStore struct {
	inventory.Store
	ledger inventory.LedgerStore
	close  func()
}

// saleConns is how many connections one host has to Postgres.
const saleConns = 8

// openSale opens the stock behind a URL; the tables must be there, unless prepare says to make them. Redis's may end
// in # and a prefix of keys.
func openSale(ctx context.Context, url string, prepare bool) (*saleStore, error) {
	kind, _, _ := strings.Cut(url, ":")
	switch kind {
	case "sqlite":
		return saleOnSQLite(ctx, strings.TrimPrefix(url, "sqlite://"), prepare)
	case "redis":
		return saleOnRedis(url)
	case "postgres", "postgresql":
		return saleOnPostgres(ctx, url, prepare)
	}
	return nil, fmt.Errorf("no stock is kept in %q", kind)
}

func saleOnSQLite(ctx context.Context, path string, prepare bool) (*saleStore, error) {
	store, err := sqlite.Open(ctx, path, sqlite.Config{})
	if err != nil {
		return nil, err
	}
	if prepare {
		if err := store.Migrate(ctx); err != nil {
			return nil, err
		}
	}
	stock := store.Stock()
	return &saleStore{stock, stock, func() { _ = store.Close() }}, nil
}

func saleOnPostgres(ctx context.Context, url string, prepare bool) (*saleStore, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = saleConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	store := postgres.New(pool, postgres.Config{})
	if prepare {
		if err := store.Migrate(ctx); err != nil {
			return nil, err
		}
	}
	stock := store.Stock()
	return &saleStore{stock, stock, pool.Close}, nil
}

func saleOnRedis(url string) (*saleStore, error) {
	url, prefix, _ := strings.Cut(url, "#")
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	option.ForceSingleClient, option.DisableCache = true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	stock := redis.New(client, redis.Config{Prefix: prefix}).Stock()
	return &saleStore{stock, stock, client.Close}, nil
}
