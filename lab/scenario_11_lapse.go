package lab

import (
	"context"
	"fmt"
	"time"
)

// holdShort is a hold that runs out while the bank thinks: the shortest that there is.
const holdShort = time.Second

func playLapses(ctx context.Context, s *Stage) (Verdict, error) {
	st, err := openStall(ctx, s, 1)
	if err != nil {
		return Verdict{}, err
	}
	s.Tell("one mug is left, and the bank is slow today; a hold lasts for %s, so that nobody has to wait for long here", span(holdShort))
	first := orderOf(st.first)
	first.TTL = holdShort
	slow, err := st.begins(ctx, "reserve", paying{basket: first})
	if err != nil {
		return Verdict{}, err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return Verdict{}, err
	}
	// It expires at the end of the second in which its time is over.
	if err := s.WaitUntil(ctx, now.Add(holdShort+time.Second), "the hold has expired"); err != nil {
		return Verdict{}, err
	}
	s.Tell("the hold has expired; another shopper comes")
	other := st.others[0]
	bought, err := Ask[sale](ctx, other, "reserve", paying{basket: orderOf(other), Bank: st.url})
	if err != nil {
		return Verdict{}, err
	}
	late, err := st.answers(ctx, slow, first.ID)
	if err != nil {
		return Verdict{}, err
	}
	c, err := s.countStall(ctx, st)
	return c.verdict(
		fmt.Sprintf("%s for %s, and %s: nothing is sold twice, and nobody pays for nothing", counted(c.Taken, "payment"), counted(c.sold, mug), counted(c.Refunded, "refund")),
		bought.Sold && late.Told == toldLapsed && c.sold == 1 && c.Taken == 2 && c.Refunded == 1,
	), err
}

// counts are what the tables and the bank's books say at the end.
type counts struct {
	ledger
	sold  int
	off   string // what does not add up
	books books
}

// countStall counts, and audits the inventory.
func (s *Stage) countStall(ctx context.Context, st stall) (c counts, err error) {
	if c.sold, err = s.tickets(ctx); err != nil {
		return c, err
	}
	if c.books, err = s.audit(ctx, mug); err != nil {
		return c, err
	}
	c.off = c.books.off(c.sold)
	c.ledger, err = Ask[ledger](ctx, st.bank, "bank-books", struct{}{})
	return c, err
}

// verdict is that of a run that must be right, and whose books must add up.
func (c counts) verdict(text string, right bool) Verdict {
	v := Verdict{
		Fault: !right || c.off != "", Text: text,
		Figures: map[string]int{"payments": c.Taken, "refunds": c.Refunded, "sold": c.sold, "supply": c.books.supply, "faults": len(c.books.faults)},
	}
	if v.Fault {
		v.Text = fmt.Sprintf("%s, %s, %s sold of %d; %s", counted(c.Taken, "payment"), counted(c.Refunded, "refund"), counted(c.sold, mug), c.books.supply, c.off)
	}
	return v
}
