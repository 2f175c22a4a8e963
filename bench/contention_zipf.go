package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
)

// zipfSKUs is how many SKUs the shop has.
const zipfSKUs = 10_000

var zipfCases = []Case{
	{
		Name: "zipf-4",
		Goal: atLeast(0.8),
		What: "4 callers reserve one unit of one of 10,000 SKUs, whose popularity falls as 1/rank. Theirs: the one statement at its best pool size.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return zipf(ctx, b, 4) },
	},
	{
		Name: "zipf-16",
		Goal: atLeast(1.5),
		What: "The same by 16 callers.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return zipf(ctx, b, 16) },
	},
	{
		Name: "zipf-256",
		Goal: atLeast(6),
		What: "The same by 256 callers.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return zipf(ctx, b, 256) },
	},
	{
		Name: "tx",
		Goal: atLeast(0.8),
		What: "16 callers write an order and reserve one unit in one transaction of theirs, of one SKU. Ours: ReserveTx. Theirs: the one statement.",
		Run:  reserveTx,
	},
}

// popularity draws SKUs.
type popularity struct {
	skus  []string
	below []float64 // the share of the SKUs up to each
}

func newPopularity(n int) popularity {
	p := popularity{skus: make([]string, n), below: make([]float64, n)}
	var sum float64
	for i := range n {
		p.skus[i] = fmt.Sprintf("sku-%05d", i*7919%n) // neighbours in rank are none in the index
		sum += 1 / float64(i+1)
		p.below[i] = sum
	}
	for i := range p.below {
		p.below[i] /= sum
	}
	return p
}

func (p popularity) draw() string {
	return p.skus[min(sort.SearchFloat64s(p.below, rand.Float64()), len(p.skus)-1)]
}

func zipf(ctx context.Context, b *bench, callers int) (float64, error) {
	p := newPopularity(zipfSKUs)
	s, err := newSale(ctx, b, saleSupply, p.skus...)
	if err != nil {
		return 0, err
	}
	b.Explain("By hand:\n%s", handReserve)
	theirs, err := s.byHand(ctx, b, handPools, handReserve, func(int) []any { return []any{saleID(), p.draw(), int64(1)} })
	if err != nil {
		return 0, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	ours := func(ctx context.Context, _ int) error {
		_, err := s.stock.Reserve(ctx, saleID(), inventory.Items{p.draw(): 1}, saleTTL)
		return err
	}
	return medianOf(throughput(ctx, b, callers, Side{Name: "Combined", Op: ours}, theirs...))
}

func reserveTx(ctx context.Context, b *bench) (float64, error) {
	s, err := newSale(ctx, b, saleSupply, saleSKU)
	if err != nil {
		return 0, err
	}
	if _, err := s.pool.Exec(ctx, ordersTable); err != nil {
		return 0, err
	}
	b.Explain("In a transaction of the caller's, after the order:\n%s\nby hand:\n%s", orderInsert, handReserve)
	pool, err := openPool(ctx, b, s.url, pgWorkers)
	if err != nil {
		return 0, err
	}
	if err := settlePostgres(ctx, s.url); err != nil {
		return 0, err
	}
	return medianOf(throughput(ctx, b, pgWorkers,
		Side{Name: "ReserveTx", Op: op(func(ctx context.Context) error {
			return withOrder(ctx, pool, func(tx pgx.Tx) error {
				_, err := s.stock.ReserveTx(ctx, tx, saleID(), inventory.Items{saleSKU: 1}, saleTTL)
				return err
			})
		})},
		Side{Name: "by hand", Op: op(func(ctx context.Context) error {
			return withOrder(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, handReserve, saleID(), saleSKU, int64(1), saleTTL.Microseconds())
				return err
			})
		})}))
}

// withOrder writes an order and what goes with it in one transaction.
func withOrder(ctx context.Context, pool *pgxpool.Pool, with func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, orderInsert, customer, 1999); err != nil {
			return err
		}
		return with(tx)
	})
}

func isSoldOut(err error) bool { return errors.Is(err, inventory.ErrSoldOut) }
