package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/retry"
)

// Bounds of one host's sale.
const (
	crowdAtOnce = 500 // buyers whose asks are under way; the others stand in line
	saleTries   = 20  // of one buyer, with one id
)

// selling is a host's share of a sale.
type selling struct {
	Rung   string `json:"rung"`
	From   int    `json:"from"` // the number of its first buyer
	Buyers int    `json:"buyers"`
	Conns  int    `json:"conns"` // how many connections it may have
}

// sold is what its buyers were told.
type sold struct {
	Tried   int           `json:"tried"` // have asked
	Sold    int           `json:"sold"`
	Refused int           `json:"refused"`
	Failed  int           `json:"failed,omitempty"`  // got no answer
	Again   int           `json:"again,omitempty"`   // asks after one that failed
	Why     string        `json:"why,omitempty"`     // the first of these failed
	Tickets []string      `json:"tickets,omitempty"` // at the end: the ids that were given one
	Last    time.Duration `json:"last,omitempty"`    // until the last of them
}

// tally counts while the host sells. It is safe for concurrent use.
type tally struct {
	mu sync.Mutex
	sold
}

func (t *tally) count(fn func(n *sold)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fn(&t.sold)
}

func tallyOf(a *Actor) *tally { return keptOrMade(a, "tally", func() *tally { return &tally{} }) }

// countSales says how it stands, without the tickets.
func countSales(_ context.Context, a *Actor, _ struct{}) (n sold, err error) {
	tallyOf(a).count(func(now *sold) { n = *now })
	n.Tickets = nil
	return n, nil
}

// buyer buys a ticket under an id, and returns false when it is refused. After an error it may be asked again.
type buyer func(ctx context.Context, id string) (got bool, err error)

// sellToCrowd waits for the beginning, and then serves its buyers, as many at once as there may be.
func sellToCrowd(ctx context.Context, a *Actor, s selling) (sold, error) {
	if a.DB.oneFile && s.Rung == rungHand {
		s.Conns = 1 // more would only keep each other from the file
	}
	if err := a.DB.Widen(ctx, s.Conns); err != nil {
		return sold{}, err
	}
	buy := byHand(a)
	if strategy, ok := strategies[s.Rung]; ok {
		buy = byInventory(inventory.New(a.DB.Stock, inventory.Config{Strategy: strategy}))
	}
	t := tallyOf(a)
	err := a.Hold(ctx, "open", Step{"opens its doors", "its buyers wait", Plain})
	if err != nil {
		return sold{}, err
	}
	began := time.Now()
	line := make(chan string)
	var crowd sync.WaitGroup
	for range min(crowdAtOnce, s.Buyers) {
		crowd.Go(func() {
			for id := range line {
				t.serve(ctx, buy, id, began)
			}
		})
	}
	for i := range s.Buyers {
		line <- fmt.Sprintf("buyer-%06d", s.From+i)
	}
	close(line)
	crowd.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sold, ctx.Err()
}

// serve brings one buyer to an answer. All asks of a buyer have one id, so that a repeat buys nothing more.
func (t *tally) serve(ctx context.Context, buy buyer, id string, began time.Time) {
	t.count(func(n *sold) { n.Tried++ })
	tries := 0
	got, err := retry.Value(ctx, retry.Policy{
		AttemptsMax: saleTries, Base: 5 * time.Millisecond, Cap: time.Second, ElapsedMax: showMax, Idempotent: true,
	}, func(ctx context.Context) (bool, error) {
		tries++
		return buy(ctx, id)
	})
	took := time.Since(began)
	t.count(func(n *sold) {
		n.Again += tries - 1
		switch {
		case err != nil:
			n.Failed++
			if n.Why == "" {
				n.Why = err.Error()
			}
		case got:
			n.Sold++
			n.Tickets = append(n.Tickets, id)
			n.Last = took
		default:
			n.Refused++
		}
	})
}

// byInventory reserves and confirms. Paying would be between the two, and outside of any transaction.
func byInventory(stock *inventory.Stock) buyer {
	return func(ctx context.Context, id string) (bool, error) {
		_, err := stock.Reserve(ctx, id, inventory.Items{ticket: 1}, saleHold)
		if errors.Is(err, inventory.ErrSoldOut) {
			return false, nil
		}
		if err == nil {
			_, err = stock.Confirm(ctx, id)
		}
		return err == nil, err
	}
}

// The textbook's statements. They know a repeat by the order's id.
const (
	takeOne    = `update products set stock = stock - 1 where sku = $1 and stock >= 1`
	holdOrder  = `insert into reservations (id, sku, state) values ($1, $2, 'held')`
	sellOrder  = `update reservations set state = 'sold' where id = $1 and state = 'held'`
	countOrder = `select count(*) from reservations where id = $1`

	// takeAndHold is both in one trip, where that can be said.
	takeAndHold = `with took as (` + takeOne + ` returning sku)
		insert into reservations (id, sku, state) select $2, sku, 'held' from took`
)

// byHand is the conditional decrement as a good engineer writes it: one statement where the database can, one
// transaction where it can't.
func byHand(a *Actor) buyer {
	return func(ctx context.Context, id string) (bool, error) {
		got, err := takeByHand(ctx, a, id)
		if err != nil {
			return false, err
		}
		if got {
			_, err = a.DB.Exec(ctx, sellOrder, id)
		}
		return got, err
	}
}

// errNone undoes a transaction that has taken nothing.
var errNone = errors.New("sold out")

func takeByHand(ctx context.Context, a *Actor, id string) (got bool, err error) {
	var known int
	if err := a.DB.QueryRow(ctx, countOrder, id).Scan(&known); err != nil || known > 0 {
		return known > 0, err
	}
	if !a.DB.oneFile {
		taken, err := a.DB.Exec(ctx, takeAndHold, ticket, id)
		return taken > 0, err
	}
	err = a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		taken, err := a.DB.ExecTx(ctx, tx, takeOne, ticket)
		if err == nil && taken == 0 {
			err = errNone
		}
		if err == nil {
			_, err = a.DB.ExecTx(ctx, tx, holdOrder, id, ticket)
		}
		return err
	})
	if errors.Is(err, errNone) {
		return false, nil
	}
	return err == nil, err
}
