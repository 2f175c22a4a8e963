package postgres_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// complaints are the errors that the server sends, by their SQLSTATE: what its log would show.
type complaints struct {
	mu    sync.Mutex
	codes []string
}

func (c *complaints) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.codes)
}

// overheard is a store on b's database, its stock broken as said, and what the server complains about to it.
func (b bundle) overheard(tb testing.TB, changes ...change) (*postgres.Store[pgx.Tx], *complaints) {
	tb.Helper()
	heard := &complaints{}
	pool := newPool(tb, b.url, func(c *pgxpool.Config) {
		c.ConnConfig.OnPgError = func(_ *pgconn.PgConn, err *pgconn.PgError) bool {
			heard.mu.Lock()
			defer heard.mu.Unlock()
			heard.codes = append(heard.codes, err.Code)
			return err.Severity != "FATAL"
		}
	})
	return postgres.New(pool, postgres.Config{}).BreakStock(breakingStock(tb, changes)), heard
}

// An id that comes again may fail on the server once. Then the store asks first, for some thousand batches.
func TestPostgresIDsThatComeAgainAreSeldomErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	const one, many = `and not exists (select from "fifty".holds h where h.id = $1::text)`, `and (select count(*) from "fifty".holds h where h.id = any ($1::text[])) = 0`
	for name, c := range map[string]struct {
		drop change
		also []inventory.Ask
	}{
		"one":          {change{"reserve.one", one, ""}, nil},
		"many":         {change{"reserve.many", many, ""}, []inventory.Ask{reserve("x", inventory.Items{"a": 1})}},
		"several":      {change{"reserve.new", many, ""}, []inventory.Ask{reserve("x", inventory.Items{"b": 1})}},
		"order of two": {change{"reserve.new", many, ""}, []inventory.Ask{reserve("x", inventory.Items{"a": 1, "b": 1})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := func(changes ...change) (surprised, wary []string) {
				b := setup(t)
				store, heard := b.overheard(t, changes...)
				supply(t, b.Stock(), inventory.Items{"a": 100, "b": 100}, 0)
				asks := append([]inventory.Ask{reserve("known", inventory.Items{"a": 1})}, c.also...)
				heldBy(t, b.Stock(), "known", inventory.Items{"a": 1})
				play := func() {
					for i, a := range asked(t, store.Stock(), asks...) {
						if a.Err != nil || a.Hold.State != inventory.Held || a.Hold.Replayed != (asks[i].ID == "known") {
							t.Errorf("%+v", a)
						}
						if i > 0 {
							asks[i].ID += "x"
						}
					}
				}
				play()
				surprised = heard.all()
				for range 3 {
					store.SawKnown(false)
					play()
				}
				balanced(t, b.Stock())
				return surprised, heard.all()[len(surprised):]
			}
			if surprised, wary := again(); !slices.Equal(surprised, []string{"23505"}) || len(wary) > 0 {
				t.Errorf("the server complains of %q when it comes as a surprise, and later of %q", surprised, wary)
			}
			if _, wary := again(c.drop); len(wary) == 0 {
				t.Error("a store that never asks goes unnoticed")
			}
		})
	}
}

// Two batches want the same three SKUs, and a stranger holds the one in the middle (H13).
func TestPostgresBatchesOfNewOrdersLockTheirSKUsInOrder(t *testing.T) {
	t.Parallel()
	play := func(changes ...change) []string {
		b := setup(t)
		supply(t, b.Stock(), inventory.Items{"a": 10, "m": 10, "z": 10}, 0)
		unlock := b.lockSKU(t, "m")
		first, heard := b.overheard(t)
		second, alsoHeard := b.overheard(t, changes...)
		errs := make([]error, 2)
		var both sync.WaitGroup
		for i, skus := range [][]string{{"a", "m", "z"}, {"z", "m", "a"}} {
			var asks []inventory.Ask
			for _, sku := range skus {
				asks = append(asks, reserve(sku+skus[0], inventory.Items{sku: 1}))
			}
			s := []*postgres.Store[pgx.Tx]{first, second}[i].Stock()
			both.Go(func() {
				answers, err := s.Reserve(t.Context(), asks)
				for _, a := range answers {
					err = errors.Join(err, a.Err)
				}
				errs[i] = err
			})
			b.untilBlocked(t, i+1)
		}
		unlock()
		both.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		balanced(t, b.Stock())
		return append(heard.all(), alsoHeard.all()...)
	}
	if codes := play(); len(codes) > 0 {
		t.Errorf("the server complains of %q", codes)
	}
	const order = "from unnest($6::text[], $7::bigint[]) as t (sku, units)"
	if codes := play(change{"reserve.new", order, "from (select * from unnest($6::text[], $7::bigint[]) as t (sku, units) order by sku desc offset 0) as t"}); !slices.Contains(codes, "40P01") {
		t.Errorf("another order goes unnoticed: %q", codes)
	}
}
