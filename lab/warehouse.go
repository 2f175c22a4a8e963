package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// The warehouse of the scenarios. A row of tickets is a piece that a shopper was given, so the database itself
// counts what was sold. A row of products is the stock as naive code keeps it.
const (
	ticketsTable  = `create table tickets (id text not null primary key, sku text not null)`
	productsTable = `create table products (sku text not null primary key, stock bigint not null)`
)

// mug is what the warehouse sells.
const mug = "mug"

// holdLong is for how long a shopper may look for the credit card.
const holdLong = 10 * time.Minute

// basket is an order: one piece of a SKU for one shopper.
type basket struct {
	ID  string        `json:"id"`
	SKU string        `json:"sku"`
	TTL time.Duration `json:"ttl,omitempty"` // of its hold; zero for holdLong
}

func (o basket) items() inventory.Items { return inventory.Items{o.SKU: 1} }

// sale is what an action tells the conductor of one order.
type sale struct {
	Sold     bool   `json:"sold,omitempty"`
	Told     string `json:"told,omitempty"` // instead of a ticket
	Replayed bool   `json:"replayed,omitempty"`
}

// What a shopper is told instead of being given a ticket.
const (
	toldSoldOut = "sold out"
	toldBusy    = "503"     // nothing was decided
	toldLapsed  = "lapsed"  // the hold expired, and its units went to others
	toldHungUp  = "hung up" // nobody listens any more
)

const insertTicket = `insert into tickets (id, sku) values ($1, $2)`

// inventoryOf is the host's inventory. All its callers share it.
func inventoryOf(a *Actor) *inventory.TxStock[*sql.Tx] {
	return keptOrMade(a, "inventory", func() *inventory.TxStock[*sql.Tx] {
		return inventory.NewTx(a.DB.Stock, inventory.Config{})
	})
}

// reserve sets one piece aside, and says so in the timeline. held is false when the shopper was told no.
func reserve(ctx context.Context, a *Actor, o basket) (out sale, held bool, err error) {
	ttl := o.TTL
	if ttl == 0 {
		ttl = holdLong
	}
	did := fmt.Sprintf("Reserve %s: 1, for %s, by order id", o.SKU, span(ttl))
	hold, err := inventoryOf(a).Reserve(ctx, o.ID, o.items(), ttl)
	short, soldOut := errors.AsType[*inventory.SoldOutError](err)
	switch {
	case soldOut && short.Replayed:
		a.Say(Step{did, "sold out: the first answer, replayed", Good})
		return sale{Told: toldSoldOut, Replayed: true}, false, nil
	case soldOut:
		a.Say(Step{did, fmt.Sprintf("sold out: 1 wanted, %d available; the refusal is kept", short.Available), Good})
		return sale{Told: toldSoldOut}, false, nil
	case err != nil:
		return sale{}, false, err
	}
	said := "held: nobody else can have it so long"
	if hold.Replayed {
		said = "the first answer, replayed; it is " + hold.State.String()
	}
	a.Say(Step{did, said, Good})
	return sale{Replayed: hold.Replayed}, true, nil
}

// span is a time for people.
func span(d time.Duration) string {
	switch {
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}

// confirm sells what an order holds. The ticket is committed together with that.
func confirm(ctx context.Context, a *Actor, o basket) (sale, error) {
	did := "Confirm; insert into tickets …; commit"
	err := a.DB.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		hold, err := inventoryOf(a).ConfirmTx(ctx, tx, o.ID)
		if err != nil || hold.Replayed {
			return err
		}
		_, err = a.DB.ExecTx(ctx, tx, insertTicket, o.ID, o.SKU)
		return err
	})
	switch {
	case errors.Is(err, inventory.ErrHoldExpired):
		a.Say(Step{did, "ErrHoldExpired: its time is over, and the " + o.SKU + " is somebody else's", Good})
		return sale{Told: toldLapsed}, nil
	case err != nil:
		return sale{}, err
	}
	a.Say(Step{did, "the " + o.SKU + " is sold", Good})
	return sale{Sold: true}, nil
}

// supply puts pieces of a SKU into the warehouse, as naive code keeps them and as Fifty does.
func (s *Stage) supply(ctx context.Context, delivery, sku string, pieces int) error {
	_, err := s.DB.Exec(ctx, `insert into products (sku, stock) values ($1, $2) on conflict (sku) do update set stock = products.stock + excluded.stock`, sku, pieces)
	if err != nil {
		return err
	}
	return inventory.New(s.DB.Stock, inventory.Config{}).Supply(ctx, delivery, inventory.Items{sku: int64(pieces)})
}

// tickets counts the pieces that shoppers were given.
func (s *Stage) tickets(ctx context.Context) (int, error) {
	return s.Count(ctx, `select count(*) from tickets`)
}

// stock is what naive code takes for what is left.
func (s *Stage) stock(ctx context.Context, sku string) (int, error) {
	return s.Count(ctx, `select stock from products where sku = $1`, sku)
}

// books is what an inventory says of one SKU.
type books struct {
	supply, available, held, sold int
	faults                        []inventory.Fault // sums that are off
}

// audit reads the books of a SKU and adds them up.
func (s *Stage) audit(ctx context.Context, sku string) (books, error) {
	levels, err := inventory.New(s.DB.Stock, inventory.Config{}).Availability(ctx, sku)
	if err != nil {
		return books{}, err
	}
	l := levels[0]
	b := books{int(l.Supply), int(l.Available), int(l.Held), int(l.Sold), nil}
	b.faults, err = inventory.NewLedger(s.DB.Stock).Check(ctx)
	return b, err
}

// off says what does not add up, when so many tickets were given; "" when all does.
func (b books) off(tickets int) string {
	switch {
	case len(b.faults) > 0:
		f := b.faults[0]
		return fmt.Sprintf("the ledger of %s is off: %s is %d, its records add up to %d", f.SKU, f.What, f.Level, f.Records)
	case b.available+b.held+b.sold != b.supply:
		return fmt.Sprintf("%d available + %d held + %d sold are not %d", b.available, b.held, b.sold, b.supply)
	case b.available < 0 || b.held < 0 || b.sold < 0:
		return fmt.Sprintf("a level is negative: %d available, %d held, %d sold", b.available, b.held, b.sold)
	case b.sold != tickets:
		return fmt.Sprintf("%d sold, and %s given", b.sold, counted(tickets, "ticket"))
	default:
		return ""
	}
}
