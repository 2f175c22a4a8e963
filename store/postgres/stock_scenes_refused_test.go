package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/inventory"
)

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
