package lab

import (
	"context"
	"fmt"
)

// The shelf of this story: enough mugs for everybody, and something else to look at.
const (
	mugs     = 20
	tee      = "tee"
	crowdMax = connsMax // shoppers who come to one host at once: as many as it has connections
)

// stall is a bank, and who comes to which host.
type stall struct {
	bank   *Host
	url    string
	first  *Host   // its shopper meets the bank when it is slow
	others []*Host // everybody else
}

// openStall fills the shelf and opens the bank.
func openStall(ctx context.Context, s *Stage, pieces int) (st stall, err error) {
	if err := s.supply(ctx, "delivery-mugs", mug, pieces); err != nil {
		return st, err
	}
	if err := s.supply(ctx, "delivery-tees", tee, mugs); err != nil {
		return st, err
	}
	if st.bank, err = s.Client(ctx, "bank"); err != nil {
		return st, err
	}
	if st.url, err = Ask[string](ctx, st.bank, "bank", struct{}{}); err != nil {
		return st, err
	}
	order := s.Shuffled()
	st.first, st.others = order[0], order[1:]
	return st, nil
}

// begins lets the first shopper buy, and returns when the bank has been asked. The call lasts until it answers.
func (st stall) begins(ctx context.Context, do string, p paying) (*Call, error) {
	p.Bank, p.Slow, p.Patience = st.url, true, attemptMax
	call, err := st.first.Begin(do, p)
	if err != nil {
		return nil, err
	}
	_, err = Ask[struct{}](ctx, st.bank, "bank-has-it", p.ID)
	return call, err
}

// answers lets the bank answer the first shopper's payment, and returns what came of it.
func (st stall) answers(ctx context.Context, call *Call, id string) (out sale, err error) {
	if _, err := Ask[struct{}](ctx, st.bank, "bank-answers", id); err != nil {
		return out, err
	}
	return out, call.Result(ctx, &out)
}

// hangsUp lets the first shopper give up.
func (st stall) hangsUp(ctx context.Context, call *Call) error {
	if _, err := Ask[struct{}](ctx, st.first, "hang-up", struct{}{}); err != nil {
		return err
	}
	return call.Result(ctx, nil)
}

// crowd is the order of one of those who come to one host together.
func crowd(n int) basket { return basket{ID: fmt.Sprintf("order-of-crowd-%d", n+1), SKU: mug} }

func playLocks(ctx context.Context, s *Stage) (Verdict, error) {
	st, err := openStall(ctx, s, mugs)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("%d mugs are there, and the bank is slow today", mugs)
	slow, err := st.begins(ctx, "lock", paying{basket: orderOf(st.first)})
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("while the bank thinks, a shopper comes to each of the others")
	turned, err := st.turnedAway(ctx)
	if err != nil {
		return Verdict{}, err
	}
	at := st.others[0]
	s.Tell("%s has %d connections; as many shoppers come to it, and then one who only wants to see the %ss", at.Name, connsMax, tee)
	calls, err := st.fillPool(ctx, at)
	if err != nil {
		return Verdict{}, err
	}
	shown, err := Ask[bool](ctx, at, "look", shelf{tee, patience})
	if err != nil {
		return Verdict{}, err
	}
	if _, err := st.answers(ctx, slow, orderOf(st.first).ID); err != nil {
		return Verdict{}, err
	}
	for _, c := range calls {
		if err := c.Result(ctx, nil); err != nil {
			return Verdict{}, err
		}
	}
	sold, err := s.tickets(ctx)
	lookers := 1
	if shown {
		lookers = 0
	}
	return Verdict{
		Fault: turned == len(st.others) && !shown,
		Text: fmt.Sprintf("%s turned away with %d mugs on the shelf, and %d who only looked, by one slow payment",
			counted(turned, "shopper"), mugs, lookers),
		Figures: map[string]int{"turned_away": turned, "lookers_turned_away": lookers, "supply": mugs, "sold": sold},
	}, err
}

// turnedAway sends a shopper to each of the others, all at once, and counts those who get an error.
func (st stall) turnedAway(ctx context.Context) (turned int, err error) {
	var calls []*Call
	for _, h := range st.others {
		c, err := h.Begin("lock", paying{basket: orderOf(h), Bank: st.url, Patience: patience})
		if err != nil {
			return 0, err
		}
		calls = append(calls, c)
	}
	for _, c := range calls {
		var out sale
		if err := c.Result(ctx, &out); err != nil {
			return 0, err
		}
		if out.Told == toldBusy {
			turned++
		}
	}
	return turned, nil
}

// fillPool brings so many patient shoppers to a host that each has a connection and there is no other.
func (st stall) fillPool(ctx context.Context, at *Host) (calls []*Call, err error) {
	for i := range crowdMax {
		c, err := at.Begin("lock", paying{basket: crowd(i), Bank: st.url, Patience: attemptMax, Connected: true})
		if err != nil {
			return nil, err
		}
		if _, err := c.Next(ctx); err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	for _, c := range calls {
		if err := c.Go(); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

func playHangUp(ctx context.Context, s *Stage) (Verdict, error) {
	st, err := openStall(ctx, s, 1)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("one mug is left, and the bank is slow today")
	slow, err := st.begins(ctx, "lock", paying{basket: orderOf(st.first)})
	if err != nil {
		return Verdict{}, err
	}
	if err := st.hangsUp(ctx, slow); err != nil {
		return Verdict{}, err
	}
	s.Tell("another shopper comes; then the first one comes back, to another host")
	other := st.others[0]
	if _, err := Ask[sale](ctx, other, "lock", paying{basket: orderOf(other), Bank: st.url, Patience: attemptMax}); err != nil {
		return Verdict{}, err
	}
	back := paying{basket: orderOf(st.first), Bank: st.url, Patience: attemptMax}
	if _, err := Ask[sale](ctx, other, "lock", back); err != nil {
		return Verdict{}, err
	}
	sold, err := s.tickets(ctx)
	if err != nil {
		return Verdict{}, err
	}
	l, err := Ask[ledger](ctx, st.bank, "bank-books", struct{}{})
	return Verdict{
		Fault: l.Taken-l.Refunded > sold, Text: fmt.Sprintf("%s for %s: somebody has paid and gets nothing", counted(l.Taken, "payment"), counted(sold, mug)),
		Figures: map[string]int{"payments": l.Taken, "refunds": l.Refunded, "sold": sold, "supply": 1},
	}, err
}

func playHolds(ctx context.Context, s *Stage) (Verdict, error) {
	st, err := openStall(ctx, s, mugs)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("%d mugs are there, and the bank is slow today", mugs)
	slow, err := st.begins(ctx, "reserve", paying{basket: orderOf(st.first)})
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("while the bank thinks, a shopper comes to each of the others")
	meanwhile := 0
	sell := func(h *Host, o basket) error {
		out, err := Ask[sale](ctx, h, "reserve", paying{basket: o, Bank: st.url})
		if out.Sold {
			meanwhile++
		}
		return err
	}
	for _, h := range st.others {
		if err := sell(h, orderOf(h)); err != nil {
			return Verdict{}, err
		}
	}
	at := st.others[0]
	s.Tell("%d more come to %s, and then one who only wants to see the %ss", crowdMax, at.Name, tee)
	for i := range crowdMax {
		if err := sell(at, crowd(i)); err != nil {
			return Verdict{}, err
		}
	}
	shown, err := Ask[bool](ctx, at, "look", shelf{tee, attemptMax})
	if err != nil {
		return Verdict{}, err
	}
	last, err := st.answers(ctx, slow, orderOf(st.first).ID)
	if err != nil {
		return Verdict{}, err
	}
	c, err := s.countStall(ctx, st)
	return c.verdict(
		fmt.Sprintf("%s sold while one payment was slow, and then the slow one's; nobody was turned away", counted(meanwhile, mug)),
		shown && last.Sold && meanwhile == len(st.others)+crowdMax && c.sold == meanwhile+1 && c.Taken == c.sold && c.Refunded == 0,
	), err
}

func playComesBack(ctx context.Context, s *Stage) (Verdict, error) {
	st, err := openStall(ctx, s, 1)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("one mug is left, and the bank is slow today")
	slow, err := st.begins(ctx, "reserve", paying{basket: orderOf(st.first)})
	if err != nil {
		return Verdict{}, err
	}
	if err := st.hangsUp(ctx, slow); err != nil {
		return Verdict{}, err
	}
	s.Tell("another shopper comes; then the first one comes back, to another host, with the same order")
	other := st.others[0]
	refused, err := Ask[sale](ctx, other, "reserve", paying{basket: orderOf(other), Bank: st.url})
	if err != nil {
		return Verdict{}, err
	}
	back, err := Ask[sale](ctx, other, "reserve", paying{basket: orderOf(st.first), Bank: st.url})
	if err != nil {
		return Verdict{}, err
	}
	c, err := s.countStall(ctx, st)
	return c.verdict(
		fmt.Sprintf("%s for %s: whoever paid has it", counted(c.Taken, "payment"), counted(c.sold, mug)),
		refused.Told == toldSoldOut && back.Sold && c.sold == 1 && c.Taken == 1 && c.Refunded == 0,
	), err
}
