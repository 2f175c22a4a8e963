package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// The load of one round.
const (
	saleShoppers  = 8
	saleOrdersMax = 400 // of one shopper

	saleShort = time.Second // a hold that is over soon
	saleLong  = time.Minute // one that outlasts all that is broken in a round
)

// next makes an order that nobody had before.
func (s *sale) next(items inventory.Items, fate string, ttl time.Duration) saleOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := saleOrder{ID: fmt.Sprintf("order-%06d", len(s.orders)+1), Items: items, Fate: fate, TTL: ttl}
	s.orders = append(s.orders, o)
	return o
}

// anyOrder is one at random, with the hot SKU in it.
func (s *sale) anyOrder(rnd *rand.Rand) saleOrder {
	items := inventory.Items{saleHot: 1 + rnd.Int64N(2)}
	for range rnd.IntN(3) {
		items.Add(saleOthers[rnd.IntN(len(saleOthers))], 1)
	}
	fates := []string{fatePays, fatePays, fatePays, fateExtends, fateSplits, fateCancels, fateLeaves}
	fate, ttl := fates[rnd.IntN(len(fates))], saleLong
	if fate == fateLeaves || rnd.IntN(8) == 0 {
		ttl = saleShort
	}
	return s.next(items, fate, ttl)
}

// load has shoppers order, one order after the other, until stop is closed or there were enough.
func (s *sale) load(round int, stop <-chan struct{}) {
	var group sync.WaitGroup
	for shopper := range saleShoppers {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(s.seed, uint64(round)<<32+uint64(shopper))) //nolint:gosec // a test that can be repeated
			for range saleOrdersMax {
				select {
				case <-stop:
					return
				case <-s.t.Context().Done():
					return
				default:
				}
				if _, err := s.persist(s.t.Context(), s.anyOrder(rnd), s.members, shopper); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// persist sends an order to the members in turn, with the one id, until it has an answer, which it notes.
func (s *sale) persist(ctx context.Context, o saleOrder, members []*member, from int) (saleAnswer, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return saleAnswer{}, err
	}
	var last any = "no host was there"
	unknown := false
	for try := range triesMax {
		if base := members[(from+try)%len(members)].address(); base != "" {
			got, err := request(ctx, http.MethodPost, base+saleBuy, nil, string(body))
			if err == nil && got.status == http.StatusOK {
				if unknown {
					s.unknown.Add(1)
				}
				return s.note(o, got.body)
			}
			if err == nil && got.status != http.StatusServiceUnavailable {
				return saleAnswer{}, fmt.Errorf("order %s: %v", o.ID, got)
			}
			unknown, last = true, fmt.Sprint(got.String(), err)
		}
		if err := pause(ctx, askAgain/2+rand.N(askAgain/2)); err != nil {
			return saleAnswer{}, err
		}
	}
	return saleAnswer{}, fmt.Errorf("order %s: no answer in %d tries, the last: %v", o.ID, triesMax, last)
}

// note keeps an answer. Another one than before is an error, and so is one that can't be.
func (s *sale) note(o saleOrder, body []byte) (a saleAnswer, err error) {
	if err := json.Unmarshal(body, &a); err != nil {
		return a, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, again := s.told[o.ID]
	switch {
	case again && !sameOutcome(a, before):
		return a, fmt.Errorf("order %+v: a shopper was told %+v, and a later one %+v", o, before, a)
	case a.Outcome == saleSoldOut && s.till.wasHeld(o.ID):
		return a, fmt.Errorf("order %+v: a host was told that it has the units, and a later one that they are sold out", o)
	case a.Outcome == saleSold && !maps.Equal(a.Sold, o.pays()):
		return a, fmt.Errorf("order %+v: sold were %v", o, a.Sold)
	}
	s.told[o.ID] = a
	return a, nil
}

func sameOutcome(a, b saleAnswer) bool { return a.Outcome == b.Outcome && maps.Equal(a.Sold, b.Sold) }

// pays is what the shopper gets who gets it.
func (o saleOrder) pays() inventory.Items {
	if o.Fate == fateSplits {
		return o.part()
	}
	return o.Items
}

// from are the orders from the nth on.
func (s *sale) from(n int) []saleOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.orders[n:])
}
