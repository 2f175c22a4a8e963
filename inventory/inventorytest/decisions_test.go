package inventorytest_test

import (
	"context"
	"maps"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

func invalid(field string) error { return &fifty.InvalidError{Field: field, Problem: "is wrong"} }

func (r *reference) isDue(s *state, h hold) bool {
	second := s.now.Unix()
	if r.fault == expiresLate {
		second--
	}
	return h.state == inventory.Held && !h.freed && h.expires <= second
}

// free gives back what expired holds have.
func (r *reference) free(s *state) {
	for id, h := range s.holds {
		if r.isDue(s, h) && r.fault != expiredNeverReturns {
			r.move(s, h.items, 1, -1, 0)
			h.freed = r.fault != freedAgain
			s.holds[id] = h
		}
	}
}

// move changes levels by items, times each factor.
func (r *reference) move(s *state, items inventory.Items, available, held, sold int64) {
	for sku, q := range items {
		l := s.levels[r.name(sku)]
		l.Available += available * q
		l.Held += held * q
		l.Sold += sold * q
		s.levels[r.name(sku)] = l
	}
}

// short is the first SKU of which there is not enough.
func (r *reference) short(s *state, items inventory.Items) *inventory.SoldOut {
	for _, sku := range items.SKUs() {
		wanted := items[sku]
		if r.fault == linesApart {
			wanted = 1
		}
		if l := s.levels[r.name(sku)]; l.Available < wanted {
			return &inventory.SoldOut{SKU: sku, Wanted: items[sku], Available: l.Available}
		}
	}
	return nil
}

func (r *reference) decide(s *state, a inventory.Ask) inventory.Answer {
	if a.Act == inventory.Reserve {
		return r.reserve(s, a)
	}
	r.free(s)
	h, ok := s.holds[a.ID]
	if !ok {
		return inventory.Answer{Err: inventory.ErrNotFound}
	}
	switch a.Act {
	case inventory.Confirm:
		return r.confirm(s, a, h)
	case inventory.Release:
		return r.release(s, a, h)
	default:
		return r.extend(s, a, h)
	}
}

func (r *reference) reserve(s *state, a inventory.Ask) inventory.Answer {
	if h, ok := s.holds[a.ID]; ok && (h.state != inventory.Refused || r.fault != notSticky) && r.fault != replayTakes {
		shown := r.show(s, a.ID, h, true)
		switch {
		case !maps.Equal(h.items, a.Items) && r.fault != anyItems:
			return inventory.Answer{Hold: shown, Err: &inventory.MismatchError{ID: a.ID, First: r.copied(h.items)}}
		case h.state == inventory.Refused:
			return inventory.Answer{Hold: shown, Err: &inventory.SoldOutError{SoldOut: h.short, Replayed: true}}
		}
		return inventory.Answer{Hold: shown}
	}
	h := hold{items: r.copied(a.Items), state: inventory.Held, reserved: s.now, expires: s.now.Add(a.TTL + time.Second - 1).Unix()}
	for sku := range a.Items {
		if _, ok := s.levels[r.name(sku)]; !ok {
			if r.fault == unknownUsesID {
				h.state, h.short = inventory.Refused, inventory.SoldOut{SKU: sku}
				s.holds[a.ID] = h
			}
			return inventory.Answer{Err: &inventory.UnknownSKUError{SKU: sku}}
		}
	}
	r.free(s)
	if short := r.short(s, a.Items); short != nil {
		if s.refusals[short.SKU] >= a.RefusalsMax && r.fault != refusalsUnbounded {
			return inventory.Answer{Err: inventory.ErrBusy}
		}
		if r.fault == halfHeld {
			for sku, q := range a.Items {
				if s.levels[sku].Available >= q {
					r.move(s, inventory.Items{sku: q}, -1, 1, 0)
				}
			}
		}
		s.refusals[short.SKU]++
		h.state, h.short, h.settled = inventory.Refused, *short, s.now
		s.holds[a.ID] = h
		return inventory.Answer{Hold: r.show(s, a.ID, h, false), Err: &inventory.SoldOutError{SoldOut: *short}}
	}
	r.move(s, a.Items, -1, 1, 0)
	s.holds[a.ID] = h
	return inventory.Answer{Hold: r.show(s, a.ID, h, false)}
}

func (r *reference) wrongState(s *state, a inventory.Ask, h hold) inventory.Answer {
	shown := r.show(s, a.ID, h, false)
	return inventory.Answer{Hold: shown, Err: &inventory.StateError{Wanted: a.Act.String(), Hold: shown}}
}

func (r *reference) confirm(s *state, a inventory.Ask, h hold) inventory.Answer {
	wanted := a.Items
	if wanted == nil {
		wanted = h.items
	}
	shown := r.show(s, a.ID, h, true)
	switch {
	case h.state == inventory.Confirmed && maps.Equal(h.sold, wanted) && r.fault != confirmsAgain:
		return inventory.Answer{Hold: shown}
	case h.state == inventory.Confirmed && r.fault == anyPart:
		return inventory.Answer{Hold: shown}
	case h.state == inventory.Confirmed && !maps.Equal(h.sold, wanted):
		return inventory.Answer{Hold: shown, Err: &inventory.MismatchError{ID: a.ID, First: h.sold}}
	case h.state == inventory.Lapsed && r.fault != lapsedRevived:
		return inventory.Answer{Hold: shown, Err: &inventory.HoldExpiredError{Hold: shown, Short: h.short}}
	case h.state != inventory.Held && h.state != inventory.Lapsed && h.state != inventory.Confirmed && r.fault != confirmUnchecked:
		return r.wrongState(s, a, h)
	}
	for sku, q := range wanted {
		if q > h.items[sku] && r.fault != sellsMore {
			return inventory.Answer{Hold: shown, Err: invalid("items")}
		}
	}
	if h.freed || h.state == inventory.Lapsed {
		if short := r.short(s, wanted); short != nil && r.fault != lateUnchecked {
			h.state, h.short, h.settled = inventory.Lapsed, *short, s.now
			h.log = append(h.log, inventory.Entry{What: "lapsed", Items: h.items, At: s.now, Times: 1})
			s.holds[a.ID] = h
			shown = r.show(s, a.ID, h, false)
			return inventory.Answer{Hold: shown, Err: &inventory.HoldExpiredError{Hold: shown, Short: h.short}}
		}
		r.move(s, wanted, -1, 0, 1)
	} else {
		r.move(s, h.items, 1, -1, 0)
		r.move(s, wanted, -1, 0, 1)
		if r.fault == restKept {
			rest := maps.Clone(h.items)
			for sku, q := range wanted {
				rest[sku] -= q
			}
			r.move(s, rest, -1, 1, 0)
		}
	}
	h.state, h.sold, h.settled = inventory.Confirmed, maps.Clone(wanted), s.now
	h.log = append(h.log, inventory.Entry{What: "confirmed", Items: h.sold, At: s.now, Times: 1})
	s.holds[a.ID] = h
	return inventory.Answer{Hold: r.show(s, a.ID, h, false)}
}

func (r *reference) release(s *state, a inventory.Ask, h hold) inventory.Answer {
	switch {
	case h.state == inventory.Released && r.fault == releasesAgain: // it asks for no state
	case h.state == inventory.Confirmed && r.fault == releasesSold:
		r.move(s, h.sold, 1, 0, -1)
		h.state, h.sold = inventory.Released, nil
		s.holds[a.ID] = h
		return inventory.Answer{Hold: r.show(s, a.ID, h, false)}
	case h.state == inventory.Released || h.state == inventory.Lapsed:
		return inventory.Answer{Hold: r.show(s, a.ID, h, true)}
	case h.state != inventory.Held:
		return r.wrongState(s, a, h)
	}
	if !h.freed || r.fault == freedThenReleased {
		r.move(s, h.items, 1, -1, 0)
	}
	h.state, h.settled = inventory.Released, s.now
	h.log = append(h.log, inventory.Entry{What: "released", Items: h.items, At: s.now, Times: 1})
	s.holds[a.ID] = h
	return inventory.Answer{Hold: r.show(s, a.ID, h, false)}
}

func (r *reference) extend(s *state, a inventory.Ask, h hold) inventory.Answer {
	shown := r.show(s, a.ID, h, false)
	over := h.freed || h.expires <= s.now.Unix()
	switch {
	case h.state == inventory.Lapsed, h.state == inventory.Held && over && r.fault != extendRevives:
		return inventory.Answer{Hold: shown, Err: &inventory.HoldExpiredError{Hold: shown}}
	case h.state != inventory.Held:
		return r.wrongState(s, a, h)
	}
	to := s.now.Add(a.TTL + time.Second - 1).Unix()
	if to > h.expires || r.fault == extendShortens {
		h.expires = to
		if n := len(h.log); n == 0 || h.log[n-1].What != "extended" {
			h.log = append(h.log, inventory.Entry{What: "extended", Items: h.items, At: s.now, Times: 1})
		}
		s.holds[a.ID] = h
	}
	return inventory.Answer{Hold: r.show(s, a.ID, h, false)}
}

func (r *reference) supply(s *state, d inventory.Delivery) error {
	if first, ok := s.deliveries[d.ID]; ok && r.fault != deliveredAgain {
		if first.away != d.Away || !maps.Equal(first.items, d.Items) && r.fault != anyItems {
			return &inventory.MismatchError{ID: d.ID, First: r.copied(first.items)}
		}
		return nil
	}
	r.free(s)
	factor := int64(1)
	if d.Away {
		factor = -1
	}
	for _, sku := range d.Items.SKUs() {
		l, ok := s.levels[r.name(sku)]
		switch {
		case d.Away && !ok:
			return &inventory.UnknownSKUError{SKU: sku}
		case d.Away && l.Available < d.Items[sku] && r.fault != withdrawsAnyway:
			if r.fault == refusedWithdrawalKept {
				s.deliveries[d.ID] = delivery{away: true, at: s.now}
			}
			return &inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: sku, Wanted: d.Items[sku], Available: l.Available}}
		case !d.Away && l.Supply > inventory.SupplyMax-d.Items[sku] && r.fault != supplyUnbounded:
			return invalid("items")
		}
	}
	for sku, q := range d.Items {
		l := s.levels[r.name(sku)]
		l.SKU = sku
		l.Supply += factor * q
		l.Available += factor * q
		s.levels[r.name(sku)] = l
	}
	s.deliveries[d.ID] = delivery{maps.Clone(d.Items), d.Away, s.now}
	return nil
}

func (r *reference) Sweep(ctx context.Context, keep time.Duration, limit int) (removed int, err error) {
	err = r.do(ctx, "sweep", func(s *state) {
		r.free(s)
		before := s.now.Add(-keep)
		if r.fault == sweepsEarly {
			before = s.now
		}
		for id, h := range s.holds {
			if removed == limit && r.fault != sweepsAll {
				return
			}
			over := h.state != inventory.Held && !h.settled.After(before)
			if !over && (h.state != inventory.Held || !h.freed || h.expires > before.Unix()) {
				continue
			}
			for sku, q := range h.sold {
				if r.fault == sweepFreesSold {
					r.move(s, inventory.Items{sku: q}, 1, 0, -1)
					continue
				}
				if r.fault != foldsNothing {
					l := s.folded[sku]
					l.Sold += q
					s.folded[sku] = l
				}
			}
			if h.state == inventory.Refused && r.fault != refusalsStay {
				s.refusals[h.short.SKU]--
			}
			delete(s.holds, id)
			removed++
		}
		removed += r.sweepDeliveries(s, before, limit-removed)
	})
	return removed, err
}

func (r *reference) sweepDeliveries(s *state, before time.Time, limit int) (removed int) {
	for id, d := range s.deliveries {
		if removed == limit || d.at.After(before) {
			continue
		}
		for sku, q := range d.items {
			if d.away {
				q = -q
			}
			l := s.folded[sku]
			l.Supply += q
			s.folded[sku] = l
		}
		delete(s.deliveries, id)
		removed++
	}
	return removed
}
