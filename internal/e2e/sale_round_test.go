package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// Bounds of what happens in a round.
const (
	salePaymentsMax = 60 // before a kill
	saleSupply      = 40 // units of the hot SKU that come with each thing that is broken, and half of the others
)

// round breaks things while shoppers order, lets all come to their end, and checks what was promised.
func (s *sale) round(n int) {
	s.t.Helper()
	from := len(s.from(0))
	s.deliver(ofEach(2*saleSupply, saleSupply))
	s.wants(s.next(ofEach(1, 1), fateLeaves, saleShort), s.members, saleLeft)
	stop, loaded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(loaded)
		s.load(n, stop)
	}()
	s.t.Cleanup(func() { <-loaded }) // the test's context has ended by then
	for _, breakIt := range s.plan(n) {
		s.deliver(ofEach(saleSupply, saleSupply/2))
		breakIt()
	}
	close(stop)
	<-loaded

	s.balance()
	s.deliver(ofEach(2*saleSupply, saleSupply)) // so that a refusal that is forgotten would become a sale
	s.askAgain(s.from(from))
	s.balance()
}

// plan is what is broken in a round: a host that is killed with units held, one that stands still until its hold
// has gone to others, and kills at random points.
func (s *sale) plan(n int) []func() {
	rnd := rand.New(rand.NewPCG(s.seed, uint64(n))) //nolint:gosec // a test that can be repeated
	victim := func() *member { return s.members[rnd.IntN(len(s.members))] }
	some := func(most time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(most))) }
	owner, still := victim(), victim()
	all := []func(){
		func() { s.killHolder(owner, n) },
		func() { s.freezeHolder(still, n) },
	}
	for range 2 {
		m, payments, down := victim(), rnd.IntN(salePaymentsMax), some(soakDownMax)
		all = append(all, func() {
			s.await(payments)
			s.killMember(m)
			_ = pause(s.t.Context(), down)
			s.comeBack(m)
		})
	}
	if s.server != nil {
		payments, down := rnd.IntN(salePaymentsMax), some(soakDownMax)
		all = append(all, func() {
			s.await(payments)
			s.server.Kill()
			s.databaseKills++
			_ = pause(s.t.Context(), down)
			s.server.Start()
		})
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func (s *sale) killMember(m *member) {
	s.t.Helper()
	m.die()
	s.kills++
}

func (s *sale) comeBack(m *member) {
	s.t.Helper()
	m.comeBack()
	s.restarts++
}

// await waits for so many payments, or until there are none any more.
func (s *sale) await(payments int) {
	quiet := time.NewTimer(soakQuietMax)
	defer quiet.Stop()
	for range payments {
		select {
		case <-s.till.arrivals:
			quiet.Reset(soakQuietMax)
		case <-quiet.C:
			return
		}
	}
}

// heldBy sends a new order to a member, which has its units and waits for the payment until pay is called. The
// shopper insists on that member; ended waits for the answer.
func (s *sale) heldBy(m *member, items inventory.Items, ttl time.Duration) (o saleOrder, pay func(), ended func() saleAnswer) {
	s.t.Helper()
	o = s.next(items, fatePays, ttl)
	gate := s.till.holdBack(s.t, o.ID)
	answers := make(chan saleAnswer, 1)
	var shopper sync.WaitGroup
	shopper.Go(func() {
		a, err := s.persist(s.t.Context(), o, []*member{m}, 0)
		if err != nil {
			s.t.Error(err)
		}
		answers <- a
	})
	s.t.Cleanup(shopper.Wait)
	select {
	case <-gate.booked:
	case a := <-answers:
		s.t.Fatalf("order %+v did not get to the till: %+v", o, a)
	case <-time.After(waitMax):
		s.t.Fatalf("order %s did not get to the till within %v", o.ID, waitMax)
	}
	return o, gate.open, func() saleAnswer { return <-answers }
}

// wants has an order end in one way.
func (s *sale) wants(o saleOrder, members []*member, outcome string) {
	s.t.Helper()
	if a, err := s.persist(s.t.Context(), o, members, 0); err != nil || a.Outcome != outcome {
		s.t.Errorf("order %+v: %+v, %v, want it %s", o, a, err, outcome)
	}
}

// killHolder kills a member that has the last units for its shopper. The shopper's retry finds them at another, and
// nobody else gets them.
func (s *sale) killHolder(m *member, n int) {
	s.t.Helper()
	sku := fmt.Sprint("kept-", n)
	items := inventory.Items{sku: 2, sku + "-too": 1} // the hot one may be sold out at any moment
	s.deliver(items)
	o, pay, ended := s.heldBy(m, items, saleLong)
	s.killMember(m)
	pay()
	s.wants(s.next(inventory.Items{saleHot: 1, sku: 1}, fatePays, saleLong), without(s.members, m), saleSoldOut)
	s.wants(o, without(s.members, m), saleSold)
	s.comeBack(m)
	ended()                              // with the same answer
	s.deliver(inventory.Items{sku: 100}) // and the other one stays refused
}

// freezeHolder lets a member stand still until its hold of a last unit has expired and gone to another. Its own
// confirm then comes too late, for good.
func (s *sale) freezeHolder(m *member, n int) {
	s.t.Helper()
	sku := fmt.Sprint("last-", n)
	s.deliver(inventory.Items{sku: 1})
	late, pay, ended := s.heldBy(m, inventory.Items{sku: 1}, saleShort)
	thaw := s.freeze(m)
	eventually(s.t, "the hold of a host that stands still has expired", func() bool {
		l, err := s.stock.Availability(s.t.Context(), sku)
		return err == nil && l[0].Available == 1
	})
	s.wants(s.next(inventory.Items{sku: 1}, fatePays, saleLong), without(s.members, m), saleSold)
	pay()
	thaw()
	if a := ended(); a.Outcome != saleLapsed {
		s.t.Errorf("order %s was paid after its unit was sold to another: %+v", late.ID, a)
	}
}

// freeze lets a member stand still, at a moment when it has no lock of the database: others get through.
func (s *sale) freeze(m *member) (thaw func()) {
	s.t.Helper()
	thaw = freezeFree(s.t, m, s.members, func() func(context.Context, []*member) error {
		probe := s.next(ofEach(1, 1), fatePays, saleLong)
		return func(ctx context.Context, members []*member) error {
			_, err := s.persist(ctx, probe, members, 0)
			return err
		}
	})
	s.freezes++
	return thaw
}

// balance waits until the holds of those who left have expired, and finds each unit where the shoppers were told
// that it is, and nowhere else.
func (s *sale) balance() {
	t := s.t
	t.Helper()
	skus := s.delivered.SKUs()
	var levels []inventory.Level
	eventually(t, "what nobody paid for is free again", func() bool {
		var err error
		levels, err = s.stock.Availability(t.Context(), skus...)
		return err == nil && !slices.ContainsFunc(levels, func(l inventory.Level) bool { return l.Held != 0 })
	})
	sold, total := inventory.Items{}, int64(0)
	for _, a := range s.told {
		for sku, units := range a.Sold {
			sold.Add(sku, units)
			total += units
		}
	}
	s.sold = total
	for _, l := range levels {
		want := inventory.Level{SKU: l.SKU, Supply: s.delivered[l.SKU], Available: s.delivered[l.SKU] - sold[l.SKU], Sold: sold[l.SKU]}
		if l != want || l.Available < 0 {
			t.Errorf("the level is %+v, want %+v", l, want)
		}
	}
	off, err := s.store.ledger.Check(t.Context())
	if err != nil || len(off) > 0 {
		t.Errorf("the books are off: %+v, %v", off, err)
	}
}

// askAgain asks for orders once more, straight at the stock: each must be what its shopper was told.
func (s *sale) askAgain(orders []saleOrder) {
	s.t.Helper()
	const askers = 8
	s.expired, s.stale, s.refusals = 0, 0, 0
	for _, a := range s.told {
		switch a.Outcome {
		case saleLeft:
			s.expired++
		case saleLapsed:
			s.stale++
		case saleSoldOut:
			s.refusals++
		}
	}
	work := make(chan saleOrder)
	var group sync.WaitGroup
	for range askers {
		group.Go(func() {
			for o := range work {
				if err := s.stands(o); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	for _, o := range orders {
		work <- o
	}
	close(work)
	group.Wait()
}

// stands says whether what a shopper was told of an order is what the stock says.
func (s *sale) stands(o saleOrder) error {
	told, known := s.told[o.ID]
	var h inventory.Hold
	err := s.insist(func() (err error) {
		h, err = s.stock.Reserve(s.t.Context(), o.ID, o.Items, o.TTL)
		return err
	})
	states := map[string]inventory.State{
		saleSold: inventory.Confirmed, saleReleased: inventory.Released, saleLapsed: inventory.Lapsed, saleLeft: inventory.Expired, saleSoldOut: inventory.Refused,
	}
	switch {
	case !known:
		return fmt.Errorf("order %s has no answer", o.ID)
	case told.Outcome == saleSoldOut && !errors.Is(err, inventory.ErrSoldOut), told.Outcome != saleSoldOut && err != nil,
		h.State != states[told.Outcome], !h.Replayed, !maps.Equal(h.Sold, told.Sold):
		return fmt.Errorf("order %s: the shopper was told %+v, and the stock says %+v, %w", o.ID, told, h, err)
	}
	return nil
}
