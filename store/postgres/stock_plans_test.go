package postgres_test

import (
	"strings"
	"testing"
)

// Those statements of the stock that find rows by their keys and run without settings of their own, and those that
// run behind the settings of stock.enter or reserve.lock.
var (
	stockByKey          = []string{"reserve.one", "reserve.many", "reservetx.one", "reserve.lock", "history"}
	stockBehindSettings = []string{
		"stock.lock", "stock.levels", "stock.holds", "delivery.find", "reserve.all", "reserve.several", "reserve.new", "reserve.none",
		"holds.update", "stock.update", "expiring.freed", "expiring.fewer", "expiring.more",
	}
)

// stockScans are the statements that would read a whole table.
func (b bundle) stockScans(tb testing.TB, when string) (all []string) {
	tb.Helper()
	look := func(names []string, settings ...string) {
		for _, name := range names {
			for _, text := range b.StockTexts(name) {
				plan := b.genericOf(tb, text, settings...)
				for _, table := range []string{"stock", "holds", "expiring", "deliveries"} {
					if strings.Contains(plan, "Seq Scan on "+table) {
						tb.Logf("%s, %s:\n%s", when, name, plan)
						all = append(all, name)
					}
				}
			}
		}
	}
	look(stockByKey)
	look(stockBehindSettings, "set enable_seqscan = off", "set jit = off")
	return all
}

// shrink takes away the empty pages of tables. The server keeps them as long as somebody may still see the rows
// in them, and that is also asked of connections that are just being made, to whatever database.
func (b bundle) shrink(tb testing.TB, tables ...string) {
	tb.Helper()
	for _, table := range tables {
		for tries := 1000; ; tries-- {
			b.exec(tb, "vacuum full fifty."+table)
			if one[int64](tb, b.pool, `select pg_relation_size($1::regclass)`, "fifty."+table) == 0 {
				break
			}
			if tries == 0 {
				tb.Fatalf("fifty.%s keeps its pages", table)
			}
		}
	}
}

func TestPostgresPlansOfTheStockMadeWhileItIsEmptyFitASale(t *testing.T) {
	t.Parallel()
	grow := func(b bundle) (scans []string) {
		for _, step := range []struct{ when, sql string }{
			{"as they were made", "select 1"},
			{"empty, with statistics", "vacuum analyze fifty.stock, fifty.holds, fifty.expiring, fifty.deliveries"},
			{"one SKU", "insert into fifty.stock (supply, available, held, sold, bucket, buckets, sku) values (100, 100, 0, 0, 0, 1, 'a')"},
			{"one SKU, with statistics", "vacuum analyze fifty.stock"},
			{"some holds", "insert into fifty.holds (expires, quantity, reserved, state, sku, id) select 1, 1, now(), 1, 'a', i::text from generate_series(1, 60) i"},
			{"some holds, with statistics", "vacuum analyze fifty.holds"},
			{"many holds", "insert into fifty.holds (expires, quantity, reserved, state, sku, id) select 1, 1, now(), 1, 'a', 'm' || i from generate_series(1, 20000) i"},
			{"many holds, with statistics", "vacuum analyze fifty.holds"},
		} {
			b.exec(t, step.sql)
			scans = append(scans, b.stockScans(t, step.when)...)
		}
		return scans
	}
	b := setup(t)
	if scans := grow(b); len(scans) > 0 {
		t.Errorf("whole tables are read by %q", scans)
	}
	small := setup(t)
	small.shrink(t, "stock", "holds", "expiring")
	if scans := grow(small); len(scans) == 0 {
		t.Error("tables that look small go unnoticed")
	}
}
