package lab

import (
	"context"
	"fmt"

	"github.com/fiftyhosts/fifty/idempotency"
)

func checkThenAct() *Scenario {
	return &Scenario{
		Number: 1, Name: "check-then-act", Title: "Check-then-act across the network",
		Wrong: "Each host looks whether the order was charged, finds nothing, and charges. Between the look and the " +
			"act lies a network, and every other host looks in that time too.",
		Fix: "The insert is the check: a unique index on (scope, key) lets one claim in, and the violation is the " +
			"answer for all others. idempotency.Keys.Do claims before the work.",
		Tables:  []string{chargesTable},
		Actions: map[string]Action{"look": action(lookThenCharge), "claim": action(claimThenCharge)},
		Runs: []Run{
			{Kind: Naive, Title: "SELECT, and if nothing is there, INSERT", Play: playLooks},
			{Kind: Fifty, Title: "claim, then work: idempotency.Keys.Do", Play: playClaims},
		},
	}
}

// lookThenCharge is the code as it is often written. It is right as long as there is one of it.
func lookThenCharge(ctx context.Context, a *Actor, p purchase) (reply, error) {
	var found int
	err := a.DB.QueryRow(ctx, `select count(*) from charges where order_id = $1`, p.Order).Scan(&found)
	if err != nil {
		return reply{}, err
	}
	look := Step{Did: fmt.Sprintf("select count(*) from charges where order_id = '%s'", p.Order)}
	if found > 0 {
		look.Said = "there is one: not charged again"
		a.Say(look)
		return reply{}, nil
	}
	look.Said = "0: nobody has charged it"
	if err := a.Hold(ctx, "looked", look); err != nil {
		return reply{}, err
	}
	id, err := charge(ctx, a, p)
	if err != nil {
		return reply{}, err
	}
	a.Say(Step{"insert into charges …", "1 row: the card is charged", Bad})
	return reply{Charge: id, Made: true}, nil
}

// claimThenCharge is the same with Fifty.
func claimThenCharge(ctx context.Context, a *Actor, p purchase) (reply, error) {
	keys := idempotency.New(a.DB.Keys, idempotency.Config{Owner: a.Name})
	did := "claims key " + p.Key
	res, err := keys.Do(ctx, p.request(), func(ctx context.Context) (idempotency.Response, error) {
		if err := a.Hold(ctx, "at work", Step{did, "the insert went in: this host may charge", Good}); err != nil {
			return idempotency.Response{}, idempotency.NotDone(err)
		}
		id, err := charge(ctx, a, p)
		if err != nil {
			return idempotency.Response{}, err
		}
		a.Say(Step{"insert into charges …", "1 row: the card is charged", Good})
		did = "stores the answer"
		return idempotency.JSON(201, receipt{Charge: id, Account: p.Account, Cents: p.Cents})
	})
	out, step, err := replyOf(res, err, did)
	if err == nil {
		a.Say(step)
	}
	return out, err
}

// anOrder is the purchase that most scenarios repeat.
var anOrder = purchase{Key: "order-17", Account: "shop-7", Order: "order-17", Cents: 4200}

func playLooks(ctx context.Context, s *Stage) (Verdict, error) {
	s.Tell("one order, sent to %d hosts by impatient retries; every host looks before any of them acts", len(s.Hosts))
	calls := make(map[*Host]*Call)
	for _, h := range s.Shuffled() {
		c, err := h.Begin("look", anOrder)
		if err != nil {
			return Verdict{}, err
		}
		if _, err := c.Next(ctx); err != nil {
			return Verdict{}, err
		}
		calls[h] = c
	}
	s.Tell("all have looked; now each does what it decided")
	for _, h := range s.Shuffled() {
		if err := calls[h].Go(); err != nil {
			return Verdict{}, err
		}
		if err := calls[h].Result(ctx, nil); err != nil {
			return Verdict{}, err
		}
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault: n > 1, Text: fmt.Sprintf("%s for one order", counted(n, "charge")),
		Figures: map[string]int{"charges": n, "callers": len(s.Hosts)},
	}, err
}

func playClaims(ctx context.Context, s *Stage) (Verdict, error) {
	s.Tell("the same order, the same %d hosts; whoever may act is held until all others have asked", len(s.Hosts))
	var winner *Call
	var later []*Host
	told := 0
	for _, h := range s.Shuffled() {
		c, err := h.Begin("claim", anOrder)
		if err != nil {
			return Verdict{}, err
		}
		point, err := c.Next(ctx)
		if err != nil {
			return Verdict{}, err
		}
		if point != "" && winner == nil {
			winner = c
			continue
		}
		if point != "" { // it may act as well: let it, and count
			if err := c.Go(); err != nil {
				return Verdict{}, err
			}
		}
		var out reply
		if err := c.Result(ctx, &out); err != nil {
			return Verdict{}, err
		}
		if out.Told == toldInFlight {
			told++
		}
		later = append(later, h)
	}
	if winner == nil {
		return Verdict{Fault: true, Text: "nobody could claim the key"}, nil
	}
	s.Tell("all have asked; the one at work goes on")
	return endClaims(ctx, s, winner, later, told)
}

// endClaims lets the winner finish, and the others ask again.
func endClaims(ctx context.Context, s *Stage, winner *Call, later []*Host, told int) (Verdict, error) {
	var first reply
	if err := winner.Go(); err != nil {
		return Verdict{}, err
	}
	if err := winner.Result(ctx, &first); err != nil {
		return Verdict{}, err
	}
	s.Tell("the others ask again, with the same key")
	same := 1
	for _, h := range later {
		out, err := Ask[reply](ctx, h, "claim", anOrder)
		if err != nil {
			return Verdict{}, err
		}
		if out.Replayed && out.Charge == first.Charge {
			same++
		}
	}
	n, err := s.charges(ctx, anOrder.Order)
	return Verdict{
		Fault:   n != 1 || same != len(s.Hosts) || told != len(s.Hosts)-1,
		Text:    fmt.Sprintf("%s, %s got the same answer", counted(n, "charge"), counted(same, "caller")),
		Figures: map[string]int{"charges": n, "callers": len(s.Hosts), "same_answer": same, "in_flight": told},
	}, err
}

// counted is a number of things: "1 charge", "8 charges".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
