package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

func testSale(t *testing.T, where testPlace) {
	cfg := testConfig(FlashSale)
	cfg.Buyers = 120
	report := play(t, where, cfg)
	runs := report.Scenarios[0].Runs
	if len(runs) != 4 || runs[0].Kind != Hand {
		t.Fatalf("%d runs, the first is %s", len(runs), runs[0].Kind)
	}
	for i, run := range runs {
		for name, want := range map[string]int{
			"tickets": 60, "buyers": 120, "tried": 120, "sold": 60, "given": 60, "refused": 60, "books_sold": 60, "books_available": 0,
			"books_held": 0, "faults": 0, "unanswered": 0,
		} {
			if n := figure(t, report, FlashSale, i, name); n != want {
				t.Errorf("%s: %s is %d, want %d", run.Title, name, n, want)
			}
		}
		first, last := run.Ticks[0], run.Ticks[len(run.Ticks)-1]
		last.AtMS = 0
		if (last != Tick{Tried: 120, Sold: 60, Refused: 60}) || first.Tried != 0 || first.Left != 60 {
			t.Errorf("%s: the numbers go from %+v to %+v", run.Title, first, last)
		}
	}
}

func TestAFlashSaleIsExactOnEachRung(t *testing.T) {
	t.Parallel()
	testSale(t, sqlitePlace(t))
}

func TestAFlashSaleIsExactOnEachRungOnPostgres(t *testing.T) {
	t.Parallel()
	testSale(t, postgresPlace(t))
}

// oneRung plays one rung of a sale, and what a test does behind it on the same stage.
func oneRung(t *testing.T, rung string, cfg Config, behind func(ctx context.Context, s *Stage) error) (Performance, error) {
	t.Helper()
	where, err := openPlace(t.Context(), sqlitePlace(t).url, cfg.Hosts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := where.close(); err != nil {
			t.Error(err)
		}
	}()
	s := flashSale()
	sell := (&ladder{}).play(rung)
	s.Runs = []Run{{Kind: Fifty, Title: rung, Play: func(ctx context.Context, s *Stage) (Verdict, error) {
		v, err := sell(ctx, s)
		if err == nil && behind != nil {
			err = behind(ctx, s)
		}
		return v, err
	}}}
	l := &session{cfg: cfg.withDefaults(), place: where}
	return l.perform(t.Context(), s)
}

func TestFiftyHostsSellNoTicketTwice(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Hosts, cfg.Buyers = 50, 1000
	p, err := oneRung(t, rungCombined, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run := p.Runs[0]; !p.OK || len(run.Lanes) != 50 || run.Figures["given"] != 500 || run.Figures["refused"] != 500 {
		t.Errorf("%s: %d lanes, %v", run.Verdict, len(run.Lanes), run.Figures)
	}
}

// A buyer of the last host is taken out of the books: the audit must see it.
func TestBooksThatWereTamperedWithAreFound(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Buyers, cfg.Tickets = 10, 3
	p, err := oneRung(t, rungRow, cfg, func(ctx context.Context, s *Stage) error {
		before, err := s.audit(ctx, ticket)
		if err != nil || before.off(3) != "" {
			return fmt.Errorf("before: %s, %w", before.off(3), err)
		}
		n, err := s.DB.Exec(ctx, `delete from fifty_holds where id = (select min(id) from fifty_holds where state = $1)`, inventory.Confirmed)
		if err != nil || n != 1 {
			return fmt.Errorf("%d holds taken away, %w", n, err)
		}
		after, err := s.audit(ctx, ticket)
		if off := after.off(3); !strings.Contains(off, "the ledger of ticket is off: sold is 3, its records add up to 2") {
			t.Errorf("the audit says %q, %v", off, err)
		}
		return err
	})
	if err != nil || !p.OK {
		t.Errorf("%v, %+v", err, p)
	}
}

// aSale is one that went as it must: 2 of 3 buyers got the 2 tickets.
func aSale() saleCount {
	return saleCount{
		sold:  sold{Tried: 3, Sold: 2, Refused: 1, Tickets: []string{"buyer-0", "buyer-1"}},
		books: books{supply: 2, sold: 2}, last: time.Second,
	}
}

func TestASaleThatIsNotExactIsAFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(n *saleCount)
		want   string
	}{
		"as it must be":           {func(*saleCount) {}, ""},
		"a ticket too many":       {func(n *saleCount) { n.Tickets, n.Sold, n.Refused = append(n.Tickets, "buyer-2"), 3, 0 }, "2 sold, and 3 tickets given"},
		"one that nobody got":     {func(n *saleCount) { n.Tickets, n.Sold, n.Refused = n.Tickets[:1], 1, 2 }, "2 sold, and 1 ticket given"},
		"two for one buyer":       {func(n *saleCount) { n.Tickets = []string{"buyer-0", "buyer-0"} }, "given two tickets"},
		"a false sold out":        {func(n *saleCount) { *n = notAll() }, "1 of 2 tickets are sold, and buyers were refused"},
		"a buyer without answer":  {func(n *saleCount) { n.Failed, n.Refused, n.Why = 1, 0, "busy" }, "1 buyer got no answer, one of them: busy"},
		"a buyer who never asked": {func(n *saleCount) { n.Tried, n.Refused = 2, 0 }, "of 3 buyers 2 asked, 2 were given a ticket, 0 were refused"},
		"a sum that is off":       {func(n *saleCount) { n.books.held = 1 }, "0 available + 1 held + 2 sold are not 2"},
		"a negative stock":        {func(n *saleCount) { n.books.available, n.books.sold = -1, 3 }, "a level is negative: -1 available, 0 held, 3 sold"},
		"another supply":          {func(n *saleCount) { n.books.supply = 3 }, "the supply is 3 and was 2"},
		"a fault of the ledger": {
			func(n *saleCount) {
				n.books.faults = []inventory.Fault{{SKU: ticket, What: "held", Level: 1, Records: 0}}
			}, "the ledger of ticket is off: held is 1, its records add up to 0",
		},
	} {
		n := aSale()
		c.change(&n)
		off := n.off(2, 3)
		if off != c.want && (c.want == "" || !strings.Contains(off, c.want)) {
			t.Errorf("%s: %q, want %q", name, off, c.want)
		}
		v := (&ladder{}).judge(rungRow, n, 2, 3, time.Second)
		if v.Fault != (c.want != "") || v.Fault && v.Text != off {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// notAll sold one of two tickets and refused everybody else.
func notAll() saleCount {
	n := aSale()
	n.Sold, n.Refused, n.Tickets, n.books = 1, 2, n.Tickets[:1], books{supply: 2, available: 1, sold: 1}
	return n
}

func TestARungIsComparedWithTheOneByHand(t *testing.T) {
	t.Parallel()
	l := &ladder{}
	slow := aSale()
	slow.last = 4 * time.Second
	if v := l.judge(rungHand, slow, 2, 3, time.Second); strings.Contains(v.Text, "times") {
		t.Errorf("the first one is compared: %s", v.Text)
	}
	if v := l.judge(rungCombined, aSale(), 2, 3, time.Second); !strings.Contains(v.Text, "2 tickets in 1.00 s, 2 a second, 4.0 times those by hand; 1 refused") {
		t.Errorf("it says %s", v.Text)
	}
}

func TestHowLargeASaleCanBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		buyers, tickets int
		want            string
	}{
		{-1, 0, "Config.Buyers is -1; it can be 2 to 100000"},
		{1, 0, "Config.Buyers is 1; it can be 2 to 100000"},
		{BuyersMax + 1, 0, "Config.Buyers is 100001; it can be 2 to 100000"},
		{0, -1, "Config.Tickets is -1; it can be 1 to 20000"},
		{0, TicketsMax + 1, "Config.Tickets is 20001; it can be 1 to 20000"},
		{10, 10, "Config.Tickets is 10; there must be fewer than buyers"},
		{0, 0, ""},
		{2, 0, ""},
		{2, 1, ""},
		{BuyersMax, TicketsMax, ""},
	} {
		cfg := testConfig(FlashSale)
		cfg.Buyers, cfg.Tickets = c.buyers, c.tickets
		err := cfg.Validate()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, fifty.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d buyers, %d tickets: %v, want %q", c.buyers, c.tickets, err, c.want)
		}
	}
}

func TestAShowIsPlayedByItsNameAlone(t *testing.T) {
	t.Parallel()
	all, err := Find(nil)
	if err != nil || slices.ContainsFunc(all, func(s *Scenario) bool { return s.Show }) {
		t.Errorf("a show is among the failures: %v", err)
	}
	found, err := Find([]string{FlashSale, "8", FlashSale})
	if err != nil || len(found) != 2 || !found[0].Show || found[0].Number != 0 {
		t.Errorf("found %d, %v", len(found), err)
	}
	_, err = Find([]string{"flash-sales"})
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || unknown.Nearest != FlashSale {
		t.Errorf("%v", err)
	}
}

// onTick is a Text that tells when buyers are on their way.
type onTick struct {
	*Text
	tell func()
}

func (o *onTick) Tick(k Tick) {
	o.Text.Tick(k)
	if k.Tried > 0 && o.tell != nil {
		o.tell()
		o.tell = nil
	}
}

func testInterruptedSale(t *testing.T, where testPlace) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("somebody pressed a key")
	cfg := testConfig(FlashSale)
	cfg.DB, cfg.Buyers, cfg.Tickets = where.url, BuyersMax, TicketsMax // far more than can be served before the first look
	var out bytes.Buffer
	cfg.Watcher = &onTick{&Text{Out: &out}, func() { cancel(why) }}
	var pids []int
	cfg.staged = func(s *Stage) { pids = append(pids, pidsOf(s)...) }
	if _, err := Play(ctx, cfg); err != why { //nolint:errorlint // as it is, so that the caller knows that nothing is left
		t.Errorf("the error is %v", err)
	}
	gone(t, pids)
	if left := where.left(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := strings.Fields(lines[len(lines)-1]); len(last) != 7 || last[2] == "0" {
		t.Errorf("how it stood is not the last line:\n%s", out.String())
	}
}

func TestAnInterruptedSaleSaysHowItStoodAndLeavesNothing(t *testing.T) {
	t.Parallel()
	testInterruptedSale(t, sqlitePlace(t))
}

func TestAnInterruptedSaleSaysHowItStoodAndLeavesNothingOnPostgres(t *testing.T) {
	t.Parallel()
	testInterruptedSale(t, postgresPlace(t))
}
