package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
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

// plain reserves one by one and together; the levels are what they should be, and the neighbours are as before.
func plainSale(s *shop) error {
	if err := s.stocked(20, 0); err != nil {
		return err
	}
	one := []inventory.Ask{reserve(rand.Text(), of(s.a, 2))}
	many := []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.a, 1))}
	all := []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.c, 1)), reserve(rand.Text(), of(s.a, 1))}
	several := []inventory.Ask{reserve(rand.Text(), inventory.Items{s.a: 1, s.c: 1})}
	for _, asks := range [][]inventory.Ask{one, many, all, several} {
		if err := s.asks(asks, nil, nil, nil); err != nil {
			return err
		}
	}
	return s.balanced()
}

// lastUnit sells the last unit once, one by one and together.
func lastUnit(s *shop) error {
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 1))}, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 1))}, inventory.ErrSoldOut); err != nil {
		return err
	}
	if err := s.stocked(1, 0); err != nil { // others: the store remembers those that were short
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.a, 1))}, nil, inventory.ErrSoldOut); err != nil {
		return err
	}
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), inventory.Items{s.a: 1, s.c: 2})}, inventory.ErrSoldOut); err != nil {
		return err
	}
	return s.balanced()
}

// unknownSKU asks for what was never supplied.
func unknownSKU(s *shop) error {
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	asks := []inventory.Ask{reserve(rand.Text(), of("none", 1)), reserve(rand.Text(), of(s.a, 1))}
	if err := s.asks(asks, inventory.ErrUnknownSKU, nil); err != nil {
		return err
	}
	return s.balanced()
}

// freedLater has a SKU of which everything up to a later second is freed: the store's clock went backwards.
func freedLater(s *shop) error {
	if err := s.stocked(10, 0); err != nil {
		return err
	}
	if err := s.exec(`update fifty.stock set freed_to = extract(epoch from now())::bigint + 86400 where sku in ($1, $2)`, s.a, s.c); err != nil {
		return err
	}
	id := rand.Text()
	if err := s.asks([]inventory.Ask{reserve(id, of(s.a, 1))}, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.c, 1)), reserve(rand.Text(), of(s.c, 1))}, nil, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.c, 1))}, nil, nil); err != nil {
		return err
	}
	return s.balanced()
}

// atHome asks for split SKUs, of which this store does not know yet: each id is served by its home.
func atHome(s *shop) error {
	if err := s.stocked(100, 2); err != nil {
		return err
	}
	var ids []string
	for len(ids) < 3 {
		if id := rand.Text(); inventory.Home(id, 2) == 1 {
			ids = append(ids, id)
		}
	}
	if err := s.asks([]inventory.Ask{reserve(ids[0], of(s.a, 1))}, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(ids[1], of(s.c, 1)), reserve(ids[2], of(s.c, 1))}, nil, nil); err != nil {
		return err
	}
	var elsewhere int64
	err := s.b.pool.QueryRow(s.ctx, `select sum(held)::bigint from fifty.stock where sku in ($1, $2) and bucket = 0`, s.a, s.c).Scan(&elsewhere)
	if err == nil && elsewhere != 0 {
		err = fmt.Errorf("%d units were taken elsewhere", elsewhere)
	}
	return errors.Join(err, s.balanced())
}

// stockBehind has asks wait for a transaction that takes one of the units, and then commits.
func stockBehind(units int64, asks func(s *shop) []inventory.Ask, wants ...error) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(units, 0); err != nil {
			return err
		}
		sent, hold := asks(s), rand.Text()
		var got func() (struct{}, error)
		err := s.b.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			a, err := s.whole.ReserveTx(ctx, tx, reserve(hold, of(s.a, 1)))
			if err != nil || a.Err != nil {
				return errors.Join(err, a.Err)
			}
			got = later(func() (struct{}, error) { return struct{}{}, s.asks(sent, wants...) })
			s.b.untilBlocked(s.t, 1)
			return nil
		})
		if err != nil {
			return err
		}
		_, err = got()
		return errors.Join(err, s.balanced())
	}
}

// idTaken has an ask wait for a transaction that has its id, for another SKU.
func idTaken(also ...string) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(10, 0); err != nil {
			return err
		}
		id := rand.Text()
		asks, want := []inventory.Ask{reserve(id, of(s.a, 1))}, []error{inventory.ErrMismatch}
		for _, sku := range also {
			asks, want = append(asks, reserve(rand.Text(), of(map[string]string{"a": s.a, "c": s.c}[sku], 1))), append(want, nil)
		}
		var got func() (struct{}, error)
		err := s.b.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
			if a, err := s.whole.ReserveTx(ctx, tx, reserve(id, of(s.n, 1))); err != nil || a.Err != nil {
				return errors.Join(err, a.Err)
			}
			got = later(func() (struct{}, error) { return struct{}{}, s.asks(asks, want...) })
			s.b.untilBlocked(s.t, 1)
			return nil
		})
		if err != nil {
			return err
		}
		_, err = got()
		return errors.Join(err, s.balanced())
	}
}

// atHomes are ids with the suffix of a SKU still to come, whose homes are 0, 1, … of count.
func (s *shop) atHomes(count int) (ids []string) {
	for home := range count {
		for len(ids) <= home {
			id := rand.Text()
			if inventory.Home(id+s.a, count) == home && inventory.Home(id+s.c, count) == home {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// freedApart frees what has expired in one of several buckets.
func freedApart(s *shop) error {
	if err := s.stocked(2, 2); err != nil {
		return err
	}
	gone, next := s.atHomes(2), s.atHomes(2)
	for _, id := range gone {
		for _, sku := range []string{s.a, s.c} {
			if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id+sku, of(sku, 1))}); err != nil || a[0].Err != nil {
				return errors.Join(err, a[0].Err)
			}
			s.b.expire(s.t, 7200, id+sku)
		}
	}
	if err := s.asks([]inventory.Ask{reserve(next[0]+s.a, of(s.a, 1))}, nil); err != nil {
		return err
	}
	return s.balanced()
}

// expires takes what has expired, and no more.
func expires(s *shop) error {
	if err := s.stocked(4, 2); err != nil {
		return err
	}
	gone, kept, next := s.atHomes(2), s.atHomes(2), s.atHomes(2)
	for _, sku := range []string{s.a, s.c} {
		for i := range 2 {
			for _, id := range []string{gone[i] + sku, kept[i] + sku} {
				a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id, of(sku, 1))})
				if err != nil || a[0].Err != nil {
					return errors.Join(err, a[0].Err)
				}
			}
		}
	}
	s.b.expire(s.t, 7200, gone[0]+s.a)
	if err := s.asks([]inventory.Ask{reserve(next[0]+s.c, of(s.c, 1))}, inventory.ErrSoldOut); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(next[1]+s.a, of(s.a, 2))}, inventory.ErrSoldOut); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(next[0]+s.a, of(s.a, 1))}, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{confirm(gone[0] + s.a), confirm(kept[0] + s.a), release(kept[1] + s.c), extend(gone[1] + s.c)},
		inventory.ErrHoldExpired, nil, nil, nil); err != nil {
		return err
	}
	return s.balanced()
}

// removed has a sweep take a hold away that a confirm has just read.
func removedMeanwhile(s *shop) error {
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	id := rand.Text()
	if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id, of(s.a, 1))}); err != nil || a[0].Err != nil {
		return errors.Join(err, a[0].Err)
	}
	s.b.expire(s.t, 48*3600, id)
	if _, err := s.whole.Sweep(s.ctx, 100*24*time.Hour, 1); err != nil { // it is freed
		return err
	}
	s.store.SetHook(once("holds.update", func() {
		if err := s.exec(`delete from fifty.holds where id = $1`, id); err != nil {
			s.t.Error(err)
		}
	}))
	if err := s.asks([]inventory.Ask{confirm(id)}, inventory.ErrNotFound); err != nil {
		return err
	}
	return s.balanced()
}

func stockGuards() []stockGuard {
	const one, oneTx, many, none, all, several = "reserve.one", "reservetx.one", "reserve.many", "reserve.none", "reserve.all", "reserve.several"
	yes := "and (select yes from fits)"
	firstYes, heldYes, dueYes := "s.bucket = 0\n      "+yes, "from new n\n    where (select yes from fits)", "from wanted w\n    where (select yes from fits)"
	two := func(s *shop) []inventory.Ask {
		return []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.c, 1))}
	}
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
		{"all of their SKUs", []change{{all, "from total t\n    where s.sku = t.sku and s.bucket = 0", "from total t\n    where s.bucket = 0"}}, plainSale},
		{"all of what is not split", []change{{all, "and s.buckets = 1", ""}}, atHome},
		{"all of what there is enough of", []change{{all, "and s.available >= t.units", ""}}, lastUnit},
		{"all that outlast what was freed", []change{{all, "and s.freed_to <= (select micros from at) / 1000000", ""}}, freedLater},
		{"all of known SKUs", []change{{all, "count(*) = count(s.sku)", "count(s.sku) > 0"}}, unknownSKU},
		{"all or none are taken", []change{{all, firstYes, "s.bucket = 0"}}, lastUnit},
		{"all or none are held", []change{{all, heldYes, "from new n"}}, lastUnit},
		{"all or none expire", []change{{all, dueYes, "from wanted w"}}, lastUnit},
		{"several or none are taken", []change{{several, firstYes, "s.bucket = 0"}}, lastUnit},
		{"several of the order's lines", []change{{several, "on l.number = a.number", "on true"}}, func(s *shop) error {
			return errors.Join(plainSale(s), severalSale(s))
		}},
		{"all whose id is new", []change{{all, "    order by n.number\n", "    order by n.number\n    on conflict do nothing\n"}}, idTaken("c")},
		{"all behind the lock", []change{{"reserve.lock", "for update", ""}}, stockBehind(1, two, inventory.ErrSoldOut, nil)},
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
		{"more adds to what expires", []change{{"expiring.more", "e.units + excluded.units", "excluded.units"}}, expires},
		{"fewer of what is more", []change{{"expiring.fewer", "      and e.units > f.units\n", ""}}, expires},
		{"fewer leaves nothing of nothing", []change{{"expiring.fewer", "and e.units > f.units", "and false"}, {"expiring.fewer", "and e.units = f.units", ""}}, fewerLeavesTheRest},
	}
	guards = append(guards,
		stockGuard{"one in a transaction of what there is enough of", []change{{oneTx, "and s.available >= $3::bigint", ""}}, lastUnitTx},
		stockGuard{"one in a transaction of its SKU", []change{{oneTx, "s.sku = $2::text", "s.sku = (select max(sku) from fifty.stock)"}}, plainTx})
	return append(guards, stockSweepGuards()...)
}

// adds reserves n units in a second in which others expire as well: in each that it can be.
func adds(n int) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(10, 0); err != nil {
			return err
		}
		const seconds = 300
		if err := s.exec(`insert into fifty.expiring (sku, bucket, second, units)
			select $1, 0, extract(epoch from now())::bigint + 3600 + i, 1 from generate_series(-1, $2::bigint - 2) i`, s.a, seconds); err != nil {
			return err
		}
		asks, want := make([]inventory.Ask, n), make([]error, n)
		for i := range asks {
			asks[i] = reserve(rand.Text(), of(s.a, 1))
		}
		if err := s.asks(asks, want...); err != nil {
			return err
		}
		var sum int64
		err := s.b.pool.QueryRow(s.ctx, `select sum(units)::bigint from fifty.expiring where sku = $1`, s.a).Scan(&sum)
		if err == nil && sum != seconds+int64(n) {
			err = fmt.Errorf("%d units expire, want %d", sum, seconds+n)
		}
		return err
	}
}

// short has the store under test remember that there is not enough of a and c.
func (s *shop) short() error {
	for _, sku := range []string{s.a, s.c} {
		for range 2 { // an order by itself, and together
			if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(sku, 100))}, inventory.ErrSoldOut); err != nil {
				return err
			}
		}
	}
	return nil
}

// refused sends two orders of a SKU at a time, and wants the same for both.
func (s *shop) refused(units int64, want error) error {
	return s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, units)), reserve(rand.Text(), of(s.a, units+1))}, want, want)
}

// refusals are true, stay, are counted and bounded; what has come back or expired is sold.
func refusals(s *shop) error {
	if err := errors.Join(s.stocked(3, 0), s.short()); err != nil {
		return err
	}
	if err := s.refused(50, inventory.ErrSoldOut); err != nil {
		return err
	}
	var counted int64
	if err := s.b.pool.QueryRow(s.ctx, `select refusals from fifty.stock where sku = $1`, s.a).Scan(&counted); err != nil || counted != 4 {
		return fmt.Errorf("%d refusals are counted, want 4; %w", counted, err)
	}
	bounded := []inventory.Ask{reserve(rand.Text(), of(s.a, 100)), reserve(rand.Text(), of(s.a, 100))}
	for i := range bounded {
		bounded[i].RefusalsMax = 5
	}
	if err := s.asks(bounded, inventory.ErrSoldOut, inventory.ErrBusy); err != nil {
		return err
	}
	hold := rand.Text()
	if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(hold, of(s.a, 3))}); err != nil || a[0].Err != nil {
		return errors.Join(err, a[0].Err)
	}
	if err := s.refused(1, inventory.ErrSoldOut); err != nil {
		return err
	}
	s.b.expire(s.t, 7200, hold)
	if err := s.refused(1, nil); err != nil {
		return err
	}
	return s.balanced()
}

// knownRefusals ask with an id that is known for other items, beside a new one.
func knownRefusals(s *shop) error {
	known := reserve(rand.Text(), inventory.Items{})
	if err := errors.Join(s.stocked(3, 0), s.short()); err != nil {
		return err
	}
	known.Items = of(s.a, 100)
	if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{known}); err != nil || a[0].Err == nil {
		return fmt.Errorf("%+v, %w", a, err)
	}
	known.Items = of(s.a, 101)
	if err := s.asks([]inventory.Ask{known, reserve(rand.Text(), of(s.a, 100))}, inventory.ErrMismatch, inventory.ErrSoldOut); err != nil {
		return err
	}
	return s.balanced()
}

// refusalsOfSplit asks for a SKU that another store splits after this one has seen it short.
func refusalsOfSplit(s *shop) error {
	if err := errors.Join(s.stocked(2, 0), s.short(), s.whole.Split(s.ctx, s.a, 2)); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 2))}, nil); err != nil {
		return err
	}
	return s.balanced()
}

// refusedBehind has an order that can't be had wait for a delivery.
func refusedBehind(s *shop) error {
	if err := errors.Join(s.stocked(1, 0), s.short()); err != nil {
		return err
	}
	tx, err := s.b.pool.Begin(s.ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(s.ctx) //nolint:errcheck // after a commit it does nothing
	if _, err := tx.Exec(s.ctx, `update fifty.stock set supply = supply + 1, available = available + 1, delivered_folded = delivered_folded + 1 where sku = $1`, s.a); err != nil {
		return err
	}
	got := later(func() (struct{}, error) {
		return struct{}{}, s.asks([]inventory.Ask{reserve(rand.Text(), of(s.a, 2))}, nil)
	})
	s.b.untilBlocked(s.t, 1)
	if err := tx.Commit(s.ctx); err != nil {
		return err
	}
	_, err = got()
	return errors.Join(err, s.balanced())
}

// severalSale reserves orders of several SKUs together.
func severalSale(s *shop) error {
	asks := []inventory.Ask{reserve(rand.Text(), inventory.Items{s.a: 1, s.c: 1}), reserve(rand.Text(), of(s.a, 1))}
	if err := s.asks(asks, nil, nil); err != nil {
		return err
	}
	return s.balanced()
}

// fewerLeavesTheRest releases one of two that expire in one second.
func fewerLeavesTheRest(s *shop) error {
	if err := s.stocked(10, 0); err != nil {
		return err
	}
	ids := []string{rand.Text(), rand.Text()}
	if err := s.asks([]inventory.Ask{reserve(ids[0], of(s.a, 1)), reserve(ids[1], of(s.a, 2))}, nil, nil); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{release(ids[0])}, nil); err != nil {
		return err
	}
	return s.balanced()
}

func (s *shop) inTx(asks []inventory.Ask, want ...error) error {
	return s.store.Txns().Transact(s.ctx, txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		for i, a := range asks {
			got, err := s.stock.ReserveTx(ctx, tx, a)
			if err != nil {
				return err
			}
			if !errors.Is(got.Err, want[i]) || (got.Err != nil && want[i] == nil) {
				return fmt.Errorf("ask %d got %v, want %v", i, got.Err, want[i])
			}
		}
		return nil
	})
}

func plainTx(s *shop) error {
	if err := s.stocked(10, 0); err != nil {
		return err
	}
	if err := s.inTx([]inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.a, 1))}, nil, nil); err != nil {
		return err
	}
	return s.balanced()
}

func lastUnitTx(s *shop) error {
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	if err := s.inTx([]inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.a, 1))}, nil, inventory.ErrSoldOut); err != nil {
		return err
	}
	return s.balanced()
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
				broken := postgres.New(b.pool, postgres.Config{}).BreakStock(func(sql *postgres.StockStatements) {
					for _, c := range changes {
						if !sql.Replace(c.statement, c.old, c.new) {
							t.Errorf("%s does not contain %q: plant the fault elsewhere", c.statement, c.old)
						}
					}
				})
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
