package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// reserve is an ask for a hold of an hour.
func reserve(id string, items inventory.Items) inventory.Ask {
	return inventory.Ask{Act: inventory.Reserve, ID: id, Items: items, TTL: time.Hour, RefusalsMax: 1000}
}

func confirm(id string) inventory.Ask { return inventory.Ask{Act: inventory.Confirm, ID: id} }

func release(id string) inventory.Ask { return inventory.Ask{Act: inventory.Release, ID: id} }

func extend(id string) inventory.Ask {
	return inventory.Ask{Act: inventory.Extend, ID: id, TTL: 2 * time.Hour}
}

func supply[Tx any](tb testing.TB, s postgres.Stock[Tx], items inventory.Items, buckets int) {
	tb.Helper()
	if err := s.Supply(tb.Context(), inventory.Delivery{ID: rand.Text(), Items: items, Buckets: buckets}); err != nil {
		tb.Fatal(err)
	}
}

// asked sends asks, the reservations and the rest apart.
func asked[Tx any](tb testing.TB, s postgres.Stock[Tx], asks ...inventory.Ask) []inventory.Answer {
	tb.Helper()
	act := s.Settle
	if asks[0].Act == inventory.Reserve {
		act = s.Reserve
	}
	answers, err := act(tb.Context(), asks)
	if err != nil {
		tb.Fatal(err)
	}
	return answers
}

// held is one that must be given.
func heldBy[Tx any](tb testing.TB, s postgres.Stock[Tx], id string, items inventory.Items) inventory.Hold {
	tb.Helper()
	a := asked(tb, s, reserve(id, items))[0]
	if a.Err != nil || a.Hold.State != inventory.Held || a.Hold.Replayed {
		tb.Fatalf("%s: %+v", id, a)
	}
	return a.Hold
}

// expireHoldSQL makes the hold $1 as it would be had everything happened $2 seconds earlier.
const expireHoldSQL = `
with h as (update fifty.holds set expires = expires - $2, reserved = reserved - $2 * interval '1 second' where id = $1 returning *),
parts as (
    select sku, 0 as bucket, quantity as units, expires + $2 as was from h where parts is null and items is null
    union all select i.key, 0, i.value::bigint, expires + $2 from h, jsonb_each_text(items) i where parts is null
    union all select p.value->>0, (p.value->>1)::int, (p.value->>2)::bigint, expires + $2 from h, jsonb_array_elements(parts) p
),
fewer as (
    update fifty.expiring e set units = e.units - p.units from parts p
    where e.sku = p.sku and e.bucket = p.bucket and e.second = p.was and e.units > p.units returning 1
),
none as (
    delete from fifty.expiring e using parts p
    where e.sku = p.sku and e.bucket = p.bucket and e.second = p.was and e.units = p.units returning 1
)
insert into fifty.expiring as e (sku, bucket, second, units) select sku, bucket, was - $2, sum(units) from parts group by 1, 2, 3
on conflict (sku, bucket, second) do update set units = e.units + excluded.units`

// expire makes holds as they would be had everything happened so much earlier.
func (b bundle) expire(tb testing.TB, seconds int, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		b.exec(tb, expireHoldSQL, id, seconds)
	}
}

// level is that of one SKU.
func level[Tx any](tb testing.TB, s postgres.Stock[Tx], sku string) inventory.Level {
	tb.Helper()
	levels, err := s.Availability(tb.Context(), []string{sku})
	if err != nil {
		tb.Fatal(err)
	}
	return levels[0]
}

// balanced fails unless the books add up.
func balanced[Tx any](tb testing.TB, s postgres.Stock[Tx]) {
	tb.Helper()
	faults, err := s.Check(tb.Context())
	if err != nil || len(faults) > 0 {
		tb.Fatalf("%+v, %v", faults, err)
	}
}

// points remembers the round trips of a store.
func points(s *postgres.Store[pgx.Tx]) *[]string {
	var all []string
	s.SetHook(func(_ context.Context, point string) { all = append(all, point) })
	return &all
}

func TestPostgresPlainOrderTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 10, "b": 10}, 0)
	trips := points(b.Store)
	heldBy(t, s, "one", inventory.Items{"a": 1})
	heldBy(t, s, "two", inventory.Items{"a": 2, "b": 1})
	several := asked(t, s, reserve("5", inventory.Items{"a": 1}), reserve("6", inventory.Items{"b": 2}))
	answers := asked(t, s, reserve("3", inventory.Items{"a": 1}), reserve("4", inventory.Items{"a": 1}), reserve("one", inventory.Items{"a": 1}))
	if several[0].Err != nil || several[1].Err != nil || !answers[2].Hold.Replayed || answers[0].Hold.Replayed || answers[1].Err != nil {
		t.Errorf("%+v, %+v", several, answers)
	}
	if want := []string{"reserve.one", "reserve.enter+reserve.new", "reserve.enter+reserve.new", "reserve.many", "reserve.lock+reserve.all"}; !slices.Equal(*trips, want) {
		t.Errorf("%q, want %q", *trips, want)
	}
	if l := level(t, s, "a"); l != (inventory.Level{SKU: "a", Supply: 10, Available: 4, Held: 6}) {
		t.Errorf("%+v", l)
	}
	balanced(t, s)
}

func TestPostgresHoldGoesItsWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, buckets := range map[string]int{"whole": 0, "split": 3} {
		s := b.Stock()
		a, c := name+" a", name+" c"
		id := func(n string) string { return name + n }
		supply(t, s, inventory.Items{a: 10, c: 10}, buckets)
		heldBy(t, s, id("1"), inventory.Items{a: 7, c: 1})
		heldBy(t, s, id("2"), inventory.Items{a: 1})
		heldBy(t, s, id("3"), inventory.Items{a: 1})
		if got := asked(t, s, reserve(id("4"), inventory.Items{a: 2}))[0]; !errors.Is(got.Err, inventory.ErrSoldOut) {
			t.Errorf("%+v", got)
		}
		if got := asked(t, s, reserve(id("4"), inventory.Items{a: 2}))[0]; !errors.Is(got.Err, inventory.ErrSoldOut) || !got.Hold.Replayed {
			t.Errorf("%+v", got)
		}
		if got := asked(t, s, reserve(id("1"), inventory.Items{a: 2}))[0]; !errors.Is(got.Err, inventory.ErrMismatch) {
			t.Errorf("%+v", got)
		}
		part := confirm(id("1"))
		part.Items = inventory.Items{a: 6}
		got := asked(t, s, part, extend(id("2")), release(id("3")), release(id("3")), confirm("none"))
		if got[0].Err != nil || got[0].Hold.State != inventory.Confirmed || got[0].Hold.Sold[a] != 6 ||
			got[1].Err != nil || got[1].Hold.ExpiresIn < time.Hour+time.Minute ||
			got[2].Err != nil || got[2].Hold.State != inventory.Released || !got[3].Hold.Replayed || !errors.Is(got[4].Err, inventory.ErrNotFound) {
			t.Errorf("%+v", got)
		}
		if l := level(t, s, a); l != (inventory.Level{SKU: a, Supply: 10, Available: 3, Held: 1, Sold: 6}) {
			t.Errorf("%+v", l)
		}
		if l := level(t, s, c); l != (inventory.Level{SKU: c, Supply: 10, Available: 10}) {
			t.Errorf("%+v", l)
		}
		log, err := s.History(t.Context(), id("1"))
		if err != nil || len(log) != 2 || log[0].What != "reserved" || log[1].What != "confirmed" || log[1].Items[a] != 6 {
			t.Errorf("%+v, %v", log, err)
		}
		balanced(t, s)
	}
}

func TestPostgresExpiredUnitsGoToWhoNeedsThemAndAreConfirmedWhileTheyAreThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 2}, 0)
	heldBy(t, s, "1", inventory.Items{"a": 1})
	heldBy(t, s, "2", inventory.Items{"a": 1})
	b.expire(t, 7200, "1", "2")
	if l := level(t, s, "a"); l.Available != 2 || l.Held != 0 {
		t.Errorf("%+v", l)
	}
	heldBy(t, s, "3", inventory.Items{"a": 1})
	if got := asked(t, s, confirm("1"))[0]; got.Err != nil || got.Hold.State != inventory.Confirmed {
		t.Errorf("the units of 1 are still there: %+v", got)
	}
	for range 2 {
		got := asked(t, s, confirm("2"))[0]
		if !errors.Is(got.Err, inventory.ErrHoldExpired) || got.Hold.State != inventory.Lapsed {
			t.Errorf("the units of 2 are gone: %+v", got)
		}
	}
	balanced(t, s)
	if l := level(t, s, "a"); l != (inventory.Level{SKU: "a", Supply: 2, Held: 1, Sold: 1}) {
		t.Errorf("%+v", l)
	}
}

func TestPostgresDeliveryCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	d := inventory.Delivery{ID: "d", Items: inventory.Items{"a": 5}}
	for range 2 {
		if err := s.Supply(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	d.Items = inventory.Items{"a": 6}
	if err := s.Supply(t.Context(), d); !errors.Is(err, inventory.ErrMismatch) {
		t.Errorf("%v", err)
	}
	away := inventory.Delivery{ID: "e", Items: inventory.Items{"a": 6}, Away: true}
	if err := s.Supply(t.Context(), away); !errors.Is(err, inventory.ErrSoldOut) {
		t.Errorf("%v", err)
	}
	away.Items = inventory.Items{"a": 1}
	if err := s.Supply(t.Context(), away); err != nil {
		t.Errorf("%v", err)
	}
	if l := level(t, s, "a"); l.Supply != 4 || l.Available != 4 {
		t.Errorf("%+v", l)
	}
	if _, err := s.Availability(t.Context(), []string{"a", "b"}); !errors.Is(err, inventory.ErrUnknownSKU) {
		t.Errorf("%v", err)
	}
	balanced(t, s)
}

func TestPostgresSplitMovesEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 20, "b": 20}, 0)
	heldBy(t, s, "1", inventory.Items{"a": 3, "b": 1})
	for _, count := range []int{4, 7, 2, 1, 5} {
		if err := s.Split(t.Context(), "a", count); err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		id := strings.Repeat("x", count)
		heldBy(t, s, id, inventory.Items{"a": 2})
		heldBy(t, s, id+"b", inventory.Items{"a": 1, "b": 1})
		if got := asked(t, s, confirm(id+"b"))[0]; got.Err != nil {
			t.Errorf("%+v", got)
		}
		balanced(t, s)
	}
	if got := asked(t, s, confirm("1"))[0]; got.Err != nil {
		t.Errorf("%+v", got)
	}
	heldBy(t, s, "rest", inventory.Items{"a": 2})
	if got := asked(t, s, reserve("more", inventory.Items{"a": 1}))[0]; !errors.Is(got.Err, inventory.ErrSoldOut) {
		t.Errorf("%+v", got)
	}
	balanced(t, s)
	if err := s.Split(t.Context(), "none", 2); !errors.Is(err, inventory.ErrUnknownSKU) {
		t.Errorf("%v", err)
	}
}

func TestPostgresSweepFoldsWhatItForgets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.Stock()
	supply(t, s, inventory.Items{"a": 10, "b": 10}, 0)
	heldBy(t, s, "sold", inventory.Items{"a": 2, "b": 1})
	heldBy(t, s, "released", inventory.Items{"a": 1})
	heldBy(t, s, "expired", inventory.Items{"a": 1})
	heldBy(t, s, "held", inventory.Items{"a": 3})
	asked(t, s, confirm("sold"), release("released"))
	asked(t, s, reserve("refused", inventory.Items{"a": 100}))
	b.expire(t, 24*3600, "expired")
	if n, err := s.Sweep(t.Context(), 48*time.Hour, 100); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if free := one[int](t, b.pool, `select available::int from fifty.stock where sku = 'a'`); free != 5 {
		t.Errorf("%d are available, want 5: what has expired is freed", free)
	}
	b.exec(t, `update fifty.holds set reserved = reserved - interval '3 days', changed = changed - interval '3 days'`)
	b.exec(t, `update fifty.deliveries set at = at - interval '3 days'`)
	if n, err := s.Sweep(t.Context(), time.Hour, 100); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	balanced(t, s)
	if left := one[string](t, b.pool, `select string_agg(id, ' ' order by id) from fifty.holds`); left != "held" {
		t.Errorf("%q are left", left)
	}
	if n := one[int](t, b.pool, `select sum(refusals)::int from fifty.stock`); n != 0 {
		t.Errorf("%d refusals are counted", n)
	}
	if n, err := s.Sweep(t.Context(), time.Hour, 100); n != 0 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
}
