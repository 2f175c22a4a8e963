package lab

import (
	"context"
	"database/sql"
	"fmt"
)

func oversell() *Scenario {
	return &Scenario{
		Number: 8, Name: "oversell", Title: "Oversell: read the stock, then take from it",
		Wrong: "One piece is left. Each host reads that there is one, and each sells it: the check is one round trip " +
			"and the decrement is the next one. The stock may even say 0 afterwards, as it should.",
		Fix: "Look and take in one step at the database. inventory.Reserve decides behind the row's lock; the answer " +
			"is kept under the order's id, and a no stays a no, also when there is stock again.",
		Tables:  []string{productsTable, ticketsTable},
		Actions: map[string]Action{"read": action(readThenSell), "reserve": action(reserveThenSell), "again": action(reserveOnly)},
		Runs: []Run{
			{Kind: Naive, Title: "SELECT, check, and write back what is left", Play: playReads(true)},
			{Kind: Naive, Title: "SELECT, check, and UPDATE … SET stock = stock - 1", Play: playReads(false)},
			{Kind: Fifty, Title: "look and take in one step: inventory.Reserve", Play: playReserves},
		},
	}
}

// reading is an order and how the stock is written.
type reading struct {
	basket
	WriteBack bool `json:"write_back"` // what was read, less one; else the database subtracts
}

// readThenSell is if (stock > 0) stock--, in two round trips.
func readThenSell(ctx context.Context, a *Actor, r reading) (sale, error) {
	var stock int
	if err := a.DB.QueryRow(ctx, `select stock from products where sku = $1`, r.SKU).Scan(&stock); err != nil {
		return sale{}, err
	}
	look := Step{Did: fmt.Sprintf("select stock from products where sku = '%s'", r.SKU)}
	if stock <= 0 {
		look.Said = fmt.Sprintf("%d: sold out", stock)
		a.Say(look)
		return sale{Told: toldSoldOut}, nil
	}
	look.Said = fmt.Sprintf("%d: there is one", stock)
	if err := a.Hold(ctx, "looked", look); err != nil {
		return sale{}, err
	}
	did, update, args := "update products set stock = stock - 1 where …", `update products set stock = stock - 1 where sku = $1`, []any{r.SKU}
	if r.WriteBack {
		did = fmt.Sprintf("update products set stock = %d where …", stock-1)
		update, args = `update products set stock = $2 where sku = $1`, []any{r.SKU, stock - 1}
	}
	err := a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := a.DB.ExecTx(ctx, tx, update, args...); err != nil {
			return err
		}
		_, err := a.DB.ExecTx(ctx, tx, insertTicket, r.ID, r.SKU)
		return err
	})
	if err != nil {
		return sale{}, err
	}
	a.Say(Step{did, "1 row: the " + r.SKU + " is sold", Bad})
	return sale{Sold: true}, nil
}

// reserveThenSell shows the shopper what there is, as the naive code does, and decides nothing by it.
func reserveThenSell(ctx context.Context, a *Actor, o basket) (sale, error) {
	levels, err := inventoryOf(a).Availability(ctx, o.SKU)
	if err != nil {
		return sale{}, err
	}
	look := Step{"Availability of " + o.SKU, fmt.Sprintf("%d: for the shopper to see; nothing is decided by it", levels[0].Available), Plain}
	if err := a.Hold(ctx, "looked", look); err != nil {
		return sale{}, err
	}
	out, held, err := reserve(ctx, a, o)
	if err != nil || !held {
		return out, err
	}
	return confirm(ctx, a, o)
}

// reserveOnly asks once more.
func reserveOnly(ctx context.Context, a *Actor, o basket) (sale, error) {
	out, held, err := reserve(ctx, a, o)
	if err != nil || !held {
		return out, err
	}
	return confirm(ctx, a, o)
}

// orderOf is the order of the shopper who has come to a host.
func orderOf(h *Host) basket { return basket{ID: fmt.Sprintf("order-%d", h.Number), SKU: mug} }

// lookThenGo lets every host come to where it has looked, and then go on, one after the other.
func lookThenGo(ctx context.Context, s *Stage, do string, in func(h *Host) any, then string) (map[*Host]sale, error) {
	calls := make(map[*Host]*Call)
	for _, h := range s.Shuffled() {
		c, err := h.Begin(do, in(h))
		if err != nil {
			return nil, err
		}
		if _, err := c.Next(ctx); err != nil {
			return nil, err
		}
		calls[h] = c
	}
	s.Tell("%s", then)
	answers := make(map[*Host]sale)
	for _, h := range s.Shuffled() {
		if err := calls[h].Go(); err != nil {
			return nil, err
		}
		var out sale
		if err := calls[h].Result(ctx, &out); err != nil {
			return nil, err
		}
		answers[h] = out
	}
	return answers, nil
}

func playReads(writeBack bool) func(ctx context.Context, s *Stage) (Verdict, error) {
	return func(ctx context.Context, s *Stage) (Verdict, error) {
		if err := s.supply(ctx, "delivery-1", mug, 1); err != nil {
			return Verdict{}, err
		}
		s.Tell("one mug is left, and a shopper has come to each of %d hosts; every host looks before any of them sells", len(s.Hosts))
		_, err := lookThenGo(ctx, s, "read", func(h *Host) any { return reading{orderOf(h), writeBack} }, "all have looked; now each does what it decided")
		if err != nil {
			return Verdict{}, err
		}
		n, err := s.tickets(ctx)
		if err != nil {
			return Verdict{}, err
		}
		left, err := s.stock(ctx, mug)
		text := fmt.Sprintf("%s sold of 1, and the stock says %d", counted(n, mug), left)
		if left == 0 {
			text += ", so nobody will notice"
		}
		return Verdict{Fault: n > 1, Text: text, Figures: map[string]int{"sold": n, "supply": 1, "stock": left}}, err
	}
}

func playReserves(ctx context.Context, s *Stage) (Verdict, error) {
	if err := s.supply(ctx, "delivery-1", mug, 1); err != nil {
		return Verdict{}, err
	}
	s.Tell("one mug, the same %d hosts, and again every host looks before any of them sells", len(s.Hosts))
	answers, err := lookThenGo(ctx, s, "reserve", func(h *Host) any { return orderOf(h) }, "all have looked; now each reserves")
	if err != nil {
		return Verdict{}, err
	}
	refused := 0
	for _, out := range answers {
		if out.Told == toldSoldOut {
			refused++
		}
	}
	if err := s.supply(ctx, "delivery-2", mug, 1); err != nil {
		return Verdict{}, err
	}
	s.Tell("a second mug is delivered; those who were refused ask again, with the ids of their orders")
	stood, last := 0, s.Hosts[0]
	for _, h := range s.Shuffled() {
		if answers[h].Sold {
			continue
		}
		last = h
		out, err := Ask[sale](ctx, h, "again", orderOf(h))
		if err != nil {
			return Verdict{}, err
		}
		if out.Told == toldSoldOut && out.Replayed {
			stood++
		}
	}
	s.Tell("the last of them orders anew: a new intent has a new id")
	anew, err := Ask[sale](ctx, last, "again", basket{ID: "order-anew", SKU: mug})
	if err != nil {
		return Verdict{}, err
	}
	return s.judgeReserves(ctx, refused, stood, anew.Sold)
}

// judgeReserves counts what was sold.
func (s *Stage) judgeReserves(ctx context.Context, refused, stood int, anew bool) (Verdict, error) {
	n, err := s.tickets(ctx)
	if err != nil {
		return Verdict{}, err
	}
	b, err := s.audit(ctx, mug)
	if err != nil {
		return Verdict{}, err
	}
	v := Verdict{
		Text: fmt.Sprintf("1 mug sold of 1, %s; the refused ids stay refused, a new id gets the second mug; %d sold of %d, the books add up",
			counted(refused, "refusal"), n, b.supply),
		Figures: map[string]int{"sold": n, "supply": b.supply, "refused": refused, "stood": stood, "faults": len(b.faults)},
	}
	if off := b.off(n); off != "" || n != 2 || b.supply != 2 || refused != len(s.Hosts)-1 || stood != refused || !anew {
		v.Fault = true
		v.Text = fmt.Sprintf("%s sold of %d, %s, %d of them stood; %s", counted(n, mug), b.supply, counted(refused, "refusal"), stood, off)
	}
	return v, nil
}
