package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// A stockGuard is a condition in the SQL of the stock. Its check passes on the shipped statements; without the
// condition it must fail.
type stockGuard struct {
	name    string
	changes []change
	check   func(s *shop) error
}

// shop is a store under test, and a whole one on the same database, with SKUs of its own: a and b.
type shop struct {
	t       *testing.T
	b       bundle
	ctx     context.Context
	store   *postgres.Store[pgx.Tx]
	stock   postgres.Stock[pgx.Tx]
	whole   postgres.Stock[pgx.Tx]
	a, c, n string
}

// stocked supplies a and c, and a neighbour that nobody touches.
func (s *shop) stocked(units int64, buckets int) error {
	salt := rand.Text()
	s.a, s.c, s.n = salt+"-a", salt+"-c", salt+"-neighbour"
	items := inventory.Items{s.a: units, s.c: units, s.n: units}
	return s.whole.Supply(s.ctx, inventory.Delivery{ID: rand.Text(), Items: items, Buckets: buckets})
}

// asks sends asks to the store under test, and compares the errors.
func (s *shop) asks(asks []inventory.Ask, want ...error) error {
	act := s.stock.Settle
	if asks[0].Act == inventory.Reserve {
		act = s.stock.Reserve
	}
	got, err := act(s.ctx, asks)
	if err != nil {
		return err
	}
	for i, a := range got {
		if !errors.Is(a.Err, want[i]) || (a.Err != nil && want[i] == nil) {
			return fmt.Errorf("ask %d got %v, want %v", i, a.Err, want[i])
		}
	}
	return nil
}

// balanced says what is off.
func (s *shop) balanced() error {
	faults, err := s.whole.Check(s.ctx)
	if err == nil && len(faults) > 0 {
		err = fmt.Errorf("off: %+v", faults)
	}
	return err
}

func (s *shop) exec(sql string, args ...any) error {
	_, err := s.b.pool.Exec(s.ctx, sql, args...)
	return err
}

func of(sku string, units int64) inventory.Items { return inventory.Items{sku: units} }

// breakingStock makes the changes to the stock's statements.
func breakingStock(tb testing.TB, changes []change) func(*postgres.StockStatements) {
	return func(sql *postgres.StockStatements) {
		for _, c := range changes {
			if !sql.Replace(c.statement, c.old, c.new) {
				tb.Errorf("%s does not contain %q: plant the fault elsewhere", c.statement, c.old)
			}
		}
	}
}

func stockGuards() []stockGuard {
	const one, oneTx, many, none = "reserve.one", "reservetx.one", "reserve.many", "reserve.none"
	pair := func(s *shop) []inventory.Ask {
		return []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.a, 1))}
	}
	single := func(s *shop) []inventory.Ask { return []inventory.Ask{reserve(rand.Text(), of(s.a, 1))} }
	guards := []stockGuard{
		{"one of its SKU", []change{{one, "s.sku = $2::text", "s.sku = (select max(sku) from fifty.stock)"}}, plainSale},
		{"one of what is not split", []change{{one, "and s.buckets = 1", ""}}, atHome},
		{"one of what there is enough of", []change{{one, "and s.available >= $3::bigint", ""}}, lastUnit},
		{"one that outlasts what was freed", []change{{one, ", t.freed_to + 1)", ", 0)"}, {one, ", t.freed_to + 1)", ", 0)"}}, freedLater},
		{"one whose id is new", []change{{one, "t.now\nfrom took t", "t.now\nfrom took t\non conflict do nothing"}}, idTaken()},
		{"one adds to what expires", []change{{one, "e.units + excluded.units", "excluded.units"}}, adds(1)},
		{"many of their SKU", []change{{many, "s.sku = $4::text", "s.sku = (select max(sku) from fifty.stock)"}}, plainSale},
		{"many of what is not split", []change{{many, "and s.buckets = 1", ""}}, atHome},
		{"many of what there is enough of", []change{{many, "and s.available >= $5::bigint", ""}}, lastUnit},
		{"many that outlast what was freed", []change{{many, ", t.freed_to + 1)", ", 0)"}, {many, ", t.freed_to + 1)", ", 0)"}}, freedLater},
		{"many whose ids are new", []change{{many, "as a (id, quantity, ttl)", "as a (id, quantity, ttl)\non conflict do nothing"}}, idTaken("a")},
		{"many add to what expires", []change{{many, "e.units + excluded.units", "excluded.units"}}, adds(2)},
		{"many behind the lock", []change{{many, "and s.available >= $5::bigint", "and (select available from fifty.stock where sku = $4::text) >= $5::bigint"}}, stockBehind(2, pair, nil, inventory.ErrSoldOut)},
		{"none of their SKU", []change{{none, "s.sku = $3::text", "s.sku = replace($3::text, '-a', '-c')"}}, refusals},
		{"none of what is not split", []change{{none, "and s.buckets = 1", ""}}, refusalsOfSplit},
		{"none where there is not enough", []change{{none, "and s.available < $4::bigint", ""}}, refusals},
		{"none up to the bound", []change{{none, "and s.refusals + cardinality($1::text[]) <= $5::bigint", ""}}, refusals},
		{"none where nothing has expired", []change{{none, "and e.second <= floor(extract(epoch from now))::bigint", "and false"}}, refusals},
		{"none whose ids are new", []change{
			{none, `and not exists (select from "fifty".holds h where h.id = any ($1::text[]))`, ""},
			{none, "as a (id, quantity)\n", "as a (id, quantity)\n    on conflict do nothing\n"},
		}, knownRefusals},
		{"none behind the lock", []change{{none, "s.available <", "(select available from fifty.stock where sku = $3::text) <"}, {"reserve.lock", "for update", ""}}, refusedBehind},
		{"one behind the lock", []change{{one, "and s.available >= $3::bigint", "and (select available from fifty.stock where sku = $2::text) >= $3::bigint"}}, stockBehind(1, single, inventory.ErrSoldOut)},

		{"a Batch behind the lock", []change{{"stock.lock", "for update of s", ""}}, stockBehind(1, func(s *shop) []inventory.Ask {
			// Remembered as short, so that a Batch decides.
			_, _ = s.stock.Reserve(s.ctx, []inventory.Ask{reserve(rand.Text(), of(s.a, 100))})
			return []inventory.Ask{reserve(rand.Text(), inventory.Items{s.a: 1, s.c: 1})}
		}, inventory.ErrSoldOut)},
		{"due is what has expired", []change{{"stock.levels", "and e.second <= floor(extract(epoch from now))::bigint", ""}}, expires},
		{"due is of the SKU", []change{{"stock.levels", "e.sku = s.sku and", ""}}, expires},
		{"due is of the bucket", []change{{"stock.levels", "and e.bucket = s.bucket", ""}}, expires},
		{"freed is what has expired", []change{{"expiring.freed", "and e.second <= f.second", ""}}, expires},
		{"freed is of the SKU", []change{{"expiring.freed", "e.sku = f.sku and", ""}}, freedApart},
		{"freed is of the bucket", []change{{"expiring.freed", "and e.bucket = f.bucket", ""}}, freedApart},
		{"a changed hold is still there", []change{{"holds.update", "(select count(*) from changed) = cardinality($1::text[])", "true"}}, removedMeanwhile},
		{"a change is of its hold", []change{{"holds.update", "where h.id = c.id", "where h.id <> ''"}}, expires},
		{"levels are of their bucket", []change{{"stock.update", "and s.bucket = b.bucket", ""}}, expires},
		{"levels are of their SKU", []change{{"stock.update", "s.sku = b.sku and", ""}}, expires},
		{"more adds to what expires", []change{{"expiring.more", "e.units + excluded.units", "excluded.units"}}, extendAdds},
		{"fewer of what is more", []change{{"expiring.fewer", "      and e.units > f.units\n", ""}}, expires},
		{"fewer leaves nothing of nothing", []change{{"expiring.fewer", "and e.units > f.units", "and false"}, {"expiring.fewer", "and e.units = f.units", ""}}, fewerLeavesTheRest},
	}
	guards = append(guards,
		stockGuard{"one in a transaction of what there is enough of", []change{{oneTx, "and s.available >= $3::bigint", ""}}, lastUnitTx},
		stockGuard{"one in a transaction of its SKU", []change{{oneTx, "s.sku = $2::text", "s.sku = (select max(sku) from fifty.stock)"}}, plainTx})
	return slices.Concat(guards, togetherGuards(), stockSweepGuards())
}

func TestPostgresEveryConditionOfTheStockIsNeeded(t *testing.T) {
	t.Parallel()
	for _, g := range stockGuards() {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			play := func(changes []change) error {
				b := setup(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
				defer cancel()
				broken := postgres.New(b.pool, postgres.Config{}).BreakStock(breakingStock(t, changes))
				return g.check(&shop{t: t, b: b, ctx: ctx, store: broken, stock: broken.Stock(), whole: b.Stock()})
			}
			if err := play(nil); err != nil {
				t.Fatalf("with the condition: %v", err)
			}
			if t.Failed() {
				return
			}
			err := play(g.changes)
			if err == nil {
				t.Fatal("without the condition nothing is noticed")
			}
			t.Logf("without it: %v", err)
		})
	}
}
