package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// Bounds and defaults of a flash sale.
const (
	BuyersMin      = 2
	BuyersMax      = 100_000
	BuyersDefault  = 2000
	TicketsMax     = 20_000
	TicketsDefault = 1000 // or half as many as there are buyers
)

// Bounds within it.
const (
	saleHostsMax = 64                     // each has at least one connection, and a server takes 100 by default
	saleConns    = 64                     // of all hosts together, as far as each has one
	saleBuckets  = 16                     // of the SKU on the last rung
	saleLook     = 200 * time.Millisecond // between two looks at the numbers
	saleHold     = 10 * time.Minute
)

// FlashSale is the name of the show.
const FlashSale = "flash-sale"

// ticket is what is sold.
const ticket = "ticket"

// reservationsTable is what the rung by hand writes down.
const reservationsTable = `create table reservations (id text not null primary key, sku text not null, state text not null)`

// flashSale is the ladder of contention: one hot row, and who waits for whom.
func flashSale() *Scenario {
	l := &ladder{}
	return &Scenario{
		Name: FlashSale, Title: "The ladder of a flash sale: one row, combined, buckets", Show: true, HostsMax: saleHostsMax,
		Wrong: "More people want a ticket than there are, all at once, and the stock is one hot row. Each rung sells to " +
			"the same crowd, and all are exact. By hand a ticket takes the row once. The strategies of inventory take it " +
			"to hold the ticket, to confirm it, and to keep a refusal, so that it stays one; Combined takes it for many " +
			"buyers at once.",
		Tables: []string{productsTable, reservationsTable},
		Actions: map[string]Action{
			"sell": action(sellToCrowd), "count": action(countSales),
		},
		Runs: []Run{
			{Kind: Hand, Title: "the textbook: UPDATE … SET stock = stock - 1 WHERE stock >= 1, and a row for the order", Play: l.play(rungHand)},
			{Kind: Fifty, Title: "one row: inventory.Row, a transaction for each order", Play: l.play(rungRow)},
			{Kind: Fifty, Title: "combined: inventory.Combined, a transaction for all of a host's orders that wait", Play: l.play(rungCombined)},
			{Kind: Fifty, Title: fmt.Sprintf("buckets: inventory.Buckets(%d), as many rows for the one SKU", saleBuckets), Play: l.play(rungBuckets)},
		},
	}
}

// The rungs.
const (
	rungHand     = "by hand"
	rungRow      = "row"
	rungCombined = "combined"
	rungBuckets  = "buckets"
)

// strategies are those of inventory, by rung.
var strategies = map[string]inventory.Strategy{
	rungRow: inventory.Row, rungCombined: inventory.Combined, rungBuckets: inventory.Buckets(saleBuckets),
}

// ladder remembers what the first rung came to, for the others to be compared with.
type ladder struct{ perSecond float64 }

// saleOf is how large the sale is.
func (c Config) saleOf() (tickets, buyers int) {
	buyers = c.Buyers
	if buyers == 0 {
		buyers = BuyersDefault
	}
	tickets = c.Tickets
	if tickets == 0 {
		tickets = min(TicketsDefault, buyers/2)
	}
	return tickets, buyers
}

func (c Config) tooManyTickets() bool {
	tickets, buyers := c.saleOf()
	return tickets >= buyers
}

func (l *ladder) play(rung string) func(ctx context.Context, s *Stage) (Verdict, error) {
	return func(ctx context.Context, s *Stage) (Verdict, error) {
		tickets, buyers := s.lab.cfg.saleOf()
		if err := s.stockTickets(ctx, rung, tickets); err != nil {
			return Verdict{}, err
		}
		calls, err := s.openDoors(ctx, rung, buyers)
		if err != nil {
			return Verdict{}, err
		}
		s.Tell("%s tickets, %s buyers at %d hosts; the sale begins", grouped(tickets), grouped(buyers), len(s.Hosts))
		if rung == rungBuckets && s.DB.oneFile {
			s.Tell("SQLite has one writer at a time, so more rows gain nothing here; on Postgres they do")
		}
		if err := s.lookAtSale(ctx, rung); err != nil { // so that there is a beginning
			return Verdict{}, err
		}
		began := time.Now()
		for _, c := range calls {
			if err := c.Go(); err != nil {
				return Verdict{}, err
			}
		}
		all, err := s.watchSale(ctx, rung, calls)
		if err != nil {
			return Verdict{}, err
		}
		took := time.Since(began)
		n, err := s.countSale(ctx, rung, all)
		if err != nil {
			return Verdict{}, err
		}
		return l.judge(rung, n, tickets, buyers, took), nil
	}
}

// stockTickets fills the stock of a rung.
func (s *Stage) stockTickets(ctx context.Context, rung string, tickets int) error {
	strategy, ok := strategies[rung]
	if !ok {
		_, err := s.DB.Exec(ctx, `insert into products (sku, stock) values ($1, $2)`, ticket, tickets)
		return err
	}
	stock := inventory.New(s.DB.Stock, inventory.Config{Strategy: strategy})
	return stock.Supply(ctx, "tickets", inventory.Items{ticket: int64(tickets)})
}

// openDoors brings the buyers to the hosts, where they wait for the beginning.
func (s *Stage) openDoors(ctx context.Context, rung string, buyers int) ([]*Call, error) {
	n := len(s.Hosts)
	var calls []*Call
	from := 0
	for i, h := range s.Shuffled() {
		share := buyers / n
		if i < buyers%n {
			share++
		}
		c, err := h.Begin("sell", selling{Rung: rung, From: from, Buyers: share, Conns: min(connsMax, max(1, saleConns/n))})
		if err != nil {
			return nil, err
		}
		from += share
		calls = append(calls, c)
	}
	for _, c := range calls {
		if _, err := c.Next(ctx); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// watchSale shows the numbers until every buyer has an answer, and returns what each host says at the end.
func (s *Stage) watchSale(ctx context.Context, rung string, calls []*Call) ([]sold, error) {
	type end struct {
		out sold
		err error
	}
	ends := make(chan end, len(calls))
	for _, c := range calls {
		go func() {
			var e end
			e.err = c.Result(ctx, &e.out)
			ends <- e
		}()
	}
	every := time.NewTicker(saleLook)
	defer every.Stop()
	var all []sold
	for len(all) < len(calls) {
		select {
		case e := <-ends:
			if e.err != nil {
				return nil, e.err
			}
			all = append(all, e.out)
		case <-every.C:
			if err := s.lookAtSale(ctx, rung); err != nil {
				return nil, err
			}
		}
	}
	return all, s.lookAtSale(ctx, rung)
}

// lookAtSale shows the numbers of this moment.
func (s *Stage) lookAtSale(ctx context.Context, rung string) error {
	left, err := s.ticketsLeft(ctx, rung)
	if err != nil {
		return err
	}
	t := Tick{Left: left}
	calls := make([]*Call, len(s.Hosts))
	for i, h := range s.Hosts {
		if calls[i], err = h.Begin("count", struct{}{}); err != nil {
			return err
		}
	}
	for _, c := range calls {
		var n sold
		if err := c.Result(ctx, &n); err != nil {
			return err
		}
		t.Tried += n.Tried
		t.Sold += n.Sold
		t.Refused += n.Refused
	}
	s.tick(t)
	return nil
}

// ticketsLeft is what the database says.
func (s *Stage) ticketsLeft(ctx context.Context, rung string) (int, error) {
	if rung == rungHand {
		return s.stock(ctx, ticket)
	}
	levels, err := inventory.New(s.DB.Stock, inventory.Config{}).Availability(ctx, ticket)
	if err != nil {
		return 0, err
	}
	return int(levels[0].Available), nil
}

// saleCount is what came of a sale: by what the buyers were told, and by the books.
type saleCount struct {
	sold                       // of all hosts together
	fewest, most int           // tickets of one host
	books        books         // of the database
	last         time.Duration // from the beginning to the last ticket
}

// countSale adds up what the hosts say, and reads the books.
func (s *Stage) countSale(ctx context.Context, rung string, all []sold) (n saleCount, err error) {
	n.fewest = all[0].Sold
	for _, h := range all {
		n.Tried += h.Tried
		n.Sold += h.Sold
		n.Refused += h.Refused
		n.Failed += h.Failed
		n.Again += h.Again
		n.Tickets = append(n.Tickets, h.Tickets...)
		n.last = max(n.last, h.Last)
		n.fewest, n.most = min(n.fewest, h.Sold), max(n.most, h.Sold)
		if n.Why == "" {
			n.Why = h.Why
		}
	}
	slices.Sort(n.Tickets)
	if rung != rungHand {
		n.books, err = s.audit(ctx, ticket)
		return n, err
	}
	if n.books.available, err = s.stock(ctx, ticket); err != nil {
		return n, err
	}
	if n.books.held, err = s.Count(ctx, `select count(*) from reservations where state = 'held'`); err != nil {
		return n, err
	}
	n.books.sold, err = s.Count(ctx, `select count(*) from reservations where state = 'sold'`)
	n.books.supply, _ = s.lab.cfg.saleOf()
	return n, err
}

// off says what is not as it must be; "" when all is.
func (n saleCount) off(tickets, buyers int) string {
	given := len(n.Tickets)
	switch {
	case n.books.supply != tickets:
		return fmt.Sprintf("the supply is %d and was %d", n.books.supply, tickets)
	case n.books.off(given) != "":
		return n.books.off(given)
	case len(slices.Compact(slices.Clone(n.Tickets))) != given:
		return "a buyer was given two tickets"
	case n.Failed > 0:
		return fmt.Sprintf("%s got no answer, one of them: %s", counted(n.Failed, "buyer"), n.Why)
	case n.Sold != given || n.Tried != buyers || n.Sold+n.Refused != buyers:
		return fmt.Sprintf("of %d buyers %d asked, %d were given a ticket, %d were refused", buyers, n.Tried, n.Sold, n.Refused)
	case given != tickets:
		return fmt.Sprintf("%d of %d tickets are sold, and buyers were refused", given, tickets)
	default:
		return ""
	}
}

// judge says what came of a rung.
func (l *ladder) judge(rung string, n saleCount, tickets, buyers int, took time.Duration) Verdict {
	perSecond := 0.0
	if n.last > 0 {
		perSecond = float64(n.Sold) / n.last.Seconds()
	}
	v := Verdict{Figures: map[string]int{
		"tickets": tickets, "buyers": buyers, "tried": n.Tried, "sold": n.Sold, "refused": n.Refused, "asked_again": n.Again,
		"given": len(n.Tickets), "books_available": n.books.available, "books_held": n.books.held, "books_sold": n.books.sold,
		"faults": len(n.books.faults), "unanswered": n.Failed, "fewest_of_a_host": n.fewest, "most_of_a_host": n.most,
		"sold_out_ms": int(n.last.Milliseconds()), "answered_ms": int(took.Milliseconds()), "tickets_per_second": int(perSecond),
	}}
	if off := n.off(tickets, buyers); off != "" {
		v.Fault, v.Text = true, off
		return v
	}
	v.Text = fmt.Sprintf("%s tickets in %s, %s a second", grouped(n.Sold), inSeconds(n.last), grouped(int(perSecond)))
	switch {
	case rung == rungHand:
		l.perSecond = perSecond
	case l.perSecond > 0:
		v.Text += fmt.Sprintf(", %.1f times those by hand", perSecond/l.perSecond)
	}
	v.Text += fmt.Sprintf("; %s refused, all answered in %s; %s sold + %d held + %d available = %s, and as many were given, each once",
		grouped(n.Refused), inSeconds(took), grouped(n.books.sold), n.books.held, n.books.available, grouped(n.books.supply))
	return v
}

// inSeconds is a time for people: "0.42 s".
func inSeconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
