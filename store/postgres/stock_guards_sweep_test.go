package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

const stockKeep = 24 * time.Hour

// old makes everything of a hold as it would be had it happened two days earlier.
const (
	reservedOld = `reserved = reserved - interval '2 days'`
	changedOld  = `changed = changed - interval '2 days'`
)

// stockSwept reserves, settles as act says, ages and sweeps a hold, and finds it gone or not.
func stockSwept(act inventory.Act, gone bool, changes ...string) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(5, 0); err != nil {
			return err
		}
		id, other := rand.Text(), rand.Text()
		if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id, of(s.a, 2)), reserve(other, of(s.a, 1))}); err != nil || a[0].Err != nil {
			return errors.Join(err, a[0].Err)
		}
		if act != inventory.Reserve {
			if a, err := s.whole.Settle(s.ctx, []inventory.Ask{{Act: act, ID: id, TTL: 2 * time.Hour}}); err != nil || a[0].Err != nil {
				return errors.Join(err, a[0].Err)
			}
		}
		for _, set := range changes {
			if err := s.exec(`update fifty.holds set `+set+` where id = $1`, id); err != nil {
				return err
			}
		}
		return s.sweptAway(id, gone)
	}
}

func (s *shop) sweptAway(id string, gone bool) error {
	if _, err := s.stock.Sweep(s.ctx, stockKeep, 100); err != nil {
		return err
	}
	_, err := s.whole.History(s.ctx, id)
	if errors.Is(err, inventory.ErrNotFound) != gone {
		return fmt.Errorf("the hold is there: %v, want gone %v", err, gone)
	}
	return s.balanced()
}

// expiredHold is one that expired hours ago and was never settled; its bucket may be locked, so that nobody
// frees it.
func expiredHold(hours int, gone, locked bool) func(*shop) error {
	return func(s *shop) error {
		if err := s.stocked(5, 0); err != nil {
			return err
		}
		id := rand.Text()
		if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id, of(s.a, 2))}); err != nil || a[0].Err != nil {
			return errors.Join(err, a[0].Err)
		}
		s.b.expire(s.t, (hours+1)*3600, id)
		if err := s.exec(`update fifty.holds set `+reservedOld+` where id = $1`, id); err != nil {
			return err
		}
		if locked {
			tx, err := s.b.pool.Begin(s.ctx)
			if err != nil {
				return err
			}
			defer tx.Rollback(s.ctx) //nolint:errcheck // it only holds a lock
			if _, err := tx.Exec(s.ctx, `select from fifty.stock where sku = $1 for update`, s.a); err != nil {
				return err
			}
		}
		return s.sweptAway(id, gone)
	}
}

// refusedHold is a refusal that is old: it is gone, and no longer counted.
func refusedHold(s *shop) error {
	if err := s.stocked(5, 0); err != nil {
		return err
	}
	id := rand.Text()
	if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(id, of(s.a, 6))}); err != nil || a[0].Err == nil {
		return fmt.Errorf("%+v, %w", a, err)
	}
	if err := s.exec(`update fifty.holds set `+reservedOld+` where id = $1`, id); err != nil {
		return err
	}
	if err := s.sweptAway(id, true); err != nil {
		return err
	}
	var counted int64
	err := s.b.pool.QueryRow(s.ctx, `select refusals from fifty.stock where sku = $1`, s.a).Scan(&counted)
	if err == nil && counted != 0 {
		err = fmt.Errorf("%d refusals are counted", counted)
	}
	return err
}

// oldDelivery is one that is gone, and folded; a new one stays.
func oldDelivery(s *shop) error {
	if err := s.stocked(5, 0); err != nil {
		return err
	}
	if err := s.whole.Supply(s.ctx, inventory.Delivery{ID: rand.Text(), Items: of(s.a, 1)}); err != nil {
		return err
	}
	if err := s.exec(`update fifty.deliveries set at = at - interval '2 days' where items ? $1`, s.c); err != nil {
		return err
	}
	if n, err := s.stock.Sweep(s.ctx, stockKeep, 100); err != nil || n != 1 {
		return fmt.Errorf("swept %d, %w", n, err)
	}
	return s.balanced()
}

func stockSweepGuards() []stockGuard {
	const statement = "stocksweep.holds"
	both := func(old, replacement string) []change {
		return []change{{statement, old, replacement}, {"stocksweep.old", old, replacement}}
	}
	recently := ` and coalesce(h.changed, h.reserved) <= clock_timestamp() - $1::bigint * interval '1 microsecond'`
	unfreed := `where s.freed_to < h.expires`
	return []stockGuard{
		{"swept is what was settled long ago", both(recently, ""), stockSwept(inventory.Confirm, false, reservedOld)},
		{"swept is what was settled", both("h.state <> 1", "true"), stockSwept(inventory.Extend, false, reservedOld, changedOld)},
		{"swept is what expired long ago", both("and to_timestamp(h.expires) <= clock_timestamp() - $1::bigint * interval '1 microsecond'", ""), expiredHold(2, false, false)},
		{"swept is what expired", both("or h.state = 1", "or false"), expiredHold(30, true, false)},
		{"swept is what was freed", both(unfreed, "where false"), expiredHold(30, false, true)},
		{"swept is folded", []change{{statement, "s.sold_folded + c.sold", "s.sold_folded"}}, stockSwept(inventory.Confirm, true, reservedOld, changedOld)},
		{"swept refusals are no longer counted", []change{{statement, "s.refusals - c.refused", "s.refusals"}}, refusedHold},
		{"swept is one of those that were found", []change{{statement, "where h.id = any ($2::text[]) and", "where $2::text[] is not null and"}}, func(s *shop) error {
			// Nothing else is old, so it is found by what comes in between.
			return stockSweptBehind(s)
		}},
		{"swept deliveries are old", []change{{"stocksweep.deliveries", "where d.at <= clock_timestamp() - $1::bigint * interval '1 microsecond'", "where $1::bigint > 0"}}, oldDelivery},
		{"swept deliveries are folded", []change{{"stocksweep.deliveries", "s.delivered_folded + c.units", "s.delivered_folded"}}, oldDelivery},
	}
}

// stockSweptBehind has a hold of another SKU become old while a sweep is on its way: its row of the stock is not
// locked, so it must wait for the next sweep.
func stockSweptBehind(s *shop) error {
	if err := s.stocked(5, 0); err != nil {
		return err
	}
	found, late := rand.Text(), rand.Text()
	if a, err := s.whole.Reserve(s.ctx, []inventory.Ask{reserve(found, of(s.a, 1)), reserve(late, of(s.c, 1))}); err != nil || a[0].Err != nil {
		return errors.Join(err, a[0].Err)
	}
	if _, err := s.whole.Settle(s.ctx, []inventory.Ask{confirm(found), confirm(late)}); err != nil {
		return err
	}
	age := func(id string) error {
		return s.exec(`update fifty.holds set `+reservedOld+`, `+changedOld+` where id = $1`, id)
	}
	if err := age(found); err != nil {
		return err
	}
	s.store.SetHook(once("begin+stock.enter+stock.lock", func() {
		if err := age(late); err != nil {
			s.t.Error(err)
		}
	}))
	if err := s.sweptAway(found, true); err != nil {
		return err
	}
	if _, err := s.whole.History(s.ctx, late); err != nil {
		return fmt.Errorf("what became old behind the sweep: %w", err)
	}
	return s.balanced()
}
