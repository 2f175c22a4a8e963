package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

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
	if err := s.stocked(1, 0); err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(rand.Text(), inventory.Items{s.a: 2, s.c: 2})}, inventory.ErrSoldOut); err != nil {
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
	for len(ids) < 5 {
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
	first, second := s.a, s.c
	if err := s.stocked(100, 2); err != nil { // others: the store remembers those that are split
		return err
	}
	if err := s.asks([]inventory.Ask{reserve(ids[3], of(s.a, 1)), reserve(ids[4], of(s.c, 1))}, nil, nil); err != nil {
		return err
	}
	var elsewhere int64
	err := s.b.pool.QueryRow(s.ctx, `select sum(held)::bigint from fifty.stock where sku in ($1, $2, $3, $4) and bucket = 0`,
		first, second, s.a, s.c).Scan(&elsewhere)
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

// adds reserves n units in a second in which others expire as well: in each that it can be.
func adds(n int) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(10, 0); err != nil {
			return err
		}
		others, err := s.othersExpire(time.Hour)
		if err != nil {
			return err
		}
		asks, want := make([]inventory.Ask, n), make([]error, n)
		for i := range asks {
			asks[i] = reserve(rand.Text(), of(s.a, 1))
		}
		if err := s.asks(asks, want...); err != nil {
			return err
		}
		return s.expiring(others + int64(n))
	}
}

// togetherAdds is adds(2) for orders of two SKUs, some of which expire in the same second as others.
func togetherAdds(s *shop) error {
	if err := s.stocked(10, 0); err != nil {
		return err
	}
	others, err := s.othersExpire(time.Hour)
	if err != nil {
		return err
	}
	asks := []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.c, 1)), reserve(rand.Text(), of(s.a, 2))}
	asks[2].TTL += time.Nanosecond
	if err := s.asks(asks, nil, nil, nil); err != nil {
		return err
	}
	return s.expiring(others + 3)
}

// extendAdds extends a hold into a second in which others expire as well: in each that it can be.
func extendAdds(s *shop) error {
	if err := s.stocked(10, 0); err != nil {
		return err
	}
	id := rand.Text()
	if err := s.asks([]inventory.Ask{reserve(id, of(s.a, 1))}, nil); err != nil {
		return err
	}
	others, err := s.othersExpire(2 * time.Hour)
	if err != nil {
		return err
	}
	if err := s.asks([]inventory.Ask{extend(id)}, nil); err != nil {
		return err
	}
	return s.expiring(others + 1)
}

// othersExpire has a unit expire in each second in which one can that is held for so long from now on. It says how
// many there are.
func (s *shop) othersExpire(ttl time.Duration) (units int64, err error) {
	const seconds = 300
	return seconds, s.exec(`insert into fifty.expiring (sku, bucket, second, units)
		select $1, 0, extract(epoch from now())::bigint + $2::bigint + i, 1 from generate_series(-1, $3::bigint - 2) i`,
		s.a, int64(ttl.Seconds()), seconds)
}

// expiring checks how many units expire.
func (s *shop) expiring(want int64) error {
	var sum int64
	err := s.b.pool.QueryRow(s.ctx, `select sum(units)::bigint from fifty.expiring where sku = $1`, s.a).Scan(&sum)
	if err == nil && sum != want {
		err = fmt.Errorf("%d units expire, want %d", sum, want)
	}
	return err
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
