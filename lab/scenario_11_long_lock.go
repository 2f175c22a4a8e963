package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"time"
)

func longLock() *Scenario {
	actions := map[string]Action{
		"lock": action(lockPaySell), "reserve": action(reservePaySell), "look": action(lookAtShelf), "hang-up": action(hangUp),
		"bank": action(openBank), "bank-has-it": action(bankHasIt), "bank-answers": action(bankAnswers), "bank-books": action(bankBooks),
	}
	return &Scenario{
		Number: 11, Name: "long-lock", Title: "A lock held across a slow call", HostsMax: 8,
		Wrong: "The stock's row is locked, and then the bank is asked, which is slow today. Everybody else waits for the " +
			"row, with a connection in hand, and is turned away in front of a full shelf. And when the transaction ends " +
			"before the bank has answered, the money is taken and nothing is sold.",
		Fix: "Reserve in a short transaction, pay outside of any, confirm in another short one. What nobody confirms runs " +
			"out. A confirm that comes too late is told so (ErrHoldExpired), and its payment is given back.",
		Tables:  []string{productsTable, ticketsTable},
		Actions: actions,
		Runs: []Run{
			{Kind: Naive, Title: "SELECT … FOR UPDATE, pay, UPDATE, COMMIT", Play: playLocks},
			{Kind: Naive, Title: "the same, and the shopper does not wait for the bank", Play: playHangUp},
			{Kind: Fifty, Title: "inventory.Reserve, pay, ConfirmTx", Play: playHolds},
			{Kind: Fifty, Title: "the same, and the shopper does not wait for the bank", Play: playComesBack},
			{Kind: Fifty, Title: "the hold expires while the bank thinks", Play: playLapses},
		},
	}
}

// patience is how long a naive host lets a shopper wait, for a row or for a connection.
const patience = 300 * time.Millisecond

// paying is an order and how it is paid.
type paying struct {
	basket
	Bank      string        `json:"bank"` // its address
	Slow      bool          `json:"slow"` // it answers when the conductor lets it
	Patience  time.Duration `json:"patience,omitempty"`
	Connected bool          `json:"connected,omitempty"` // to be held with a connection in hand
}

// forShopper is a context that ends when the shopper hangs up.
func forShopper(ctx context.Context, a *Actor, p paying) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if p.Slow {
		a.Keep("hang-up", cancel)
	}
	return ctx, cancel
}

// hangUp is what a shopper does who has waited for long enough, or a load balancer for them.
func hangUp(_ context.Context, a *Actor, _ struct{}) (struct{}, error) {
	end, ok := a.Kept("hang-up").(context.CancelFunc)
	if !ok {
		return struct{}{}, errors.New("nobody is there to hang up")
	}
	end()
	return struct{}{}, nil
}

// lockPaySell is safe: nobody can take the piece while the row is locked. That is all that can be said for it.
func lockPaySell(ctx context.Context, a *Actor, p paying) (sale, error) {
	ctx, cancel := forShopper(ctx, a, p)
	defer cancel()
	conn, err := a.DB.Conn(ctx)
	if err != nil {
		return sale{}, err
	}
	defer conn.Close()
	if p.Connected {
		if err := a.Hold(ctx, "connected", Step{a.DB.begins, "it has a connection, and waits", Wait}); err != nil {
			return sale{}, err
		}
	}
	tx, err := a.DB.Begin(ctx, conn, p.Patience)
	if err == nil {
		defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
		var stock int
		err = a.DB.QueryRowTx(ctx, tx, `select stock from products where sku = $1 for update`, p.SKU).Scan(&stock)
		if err == nil && stock <= 0 {
			a.Say(Step{a.DB.begins, "0: sold out", Plain})
			return sale{Told: toldSoldOut}, nil
		}
		if err == nil && !p.Connected {
			a.Say(Step{a.DB.begins, fmt.Sprintf("%d in stock; locked", stock), Plain})
		}
	}
	switch {
	case err != nil && a.DB.Locked(err):
		a.Say(Step{a.DB.begins, fmt.Sprintf("locked for over %s: 503 to the shopper", span(p.Patience)), Bad})
		return sale{Told: toldBusy}, nil
	case err != nil:
		return sale{}, err
	}
	return payInside(ctx, a, tx, p)
}

// payInside pays while the row is locked.
func payInside(ctx context.Context, a *Actor, tx *sql.Tx, p paying) (sale, error) {
	err := askBank(ctx, http.MethodPost, p.Bank, p.ID, p.Slow)
	switch {
	case err != nil && ctx.Err() != nil:
		_ = tx.Rollback() // database/sql does it too when the request's context ends
		a.Say(Step{"the shopper has hung up: the request ends", "rollback; nothing is sold, but the bank was asked", Bad})
		return sale{Told: toldHungUp}, nil
	case err != nil:
		return sale{}, err
	}
	if _, err := a.DB.ExecTx(ctx, tx, `update products set stock = stock - 1 where sku = $1`, p.SKU); err != nil {
		return sale{}, err
	}
	if _, err := a.DB.ExecTx(ctx, tx, insertTicket, p.ID, p.SKU); err != nil {
		return sale{}, err
	}
	if err := tx.Commit(); err != nil {
		return sale{}, err
	}
	a.Say(Step{"update products …; insert into tickets …; commit", "paid, and the " + p.SKU + " is sold", Plain})
	return sale{Sold: true}, nil
}

// reservePaySell has no transaction open while the bank thinks.
func reservePaySell(ctx context.Context, a *Actor, p paying) (sale, error) {
	out, held, err := reserve(ctx, a, p.basket)
	if err != nil || !held {
		return out, err
	}
	shopper, cancel := forShopper(ctx, a, p)
	defer cancel()
	err = askBank(shopper, http.MethodPost, p.Bank, p.ID, p.Slow)
	switch {
	case err != nil && shopper.Err() != nil:
		a.Say(Step{"the shopper has hung up: the request ends", "the " + p.SKU + " stays held for the order", Wait})
		return sale{Told: toldHungUp}, nil
	case err != nil:
		return sale{}, err
	}
	out, err = confirm(ctx, a, p.basket)
	if err != nil || out.Told != toldLapsed {
		return out, err
	}
	if err := askBank(ctx, http.MethodDelete, p.Bank, p.ID, false); err != nil {
		return sale{}, err
	}
	a.Say(Step{"DELETE /payments", "the money is given back", Good})
	return out, nil
}

// shelf is what somebody looks at who buys nothing.
type shelf struct {
	SKU      string        `json:"sku"`
	Patience time.Duration `json:"patience"`
}

// lookAtShelf reads the stock of some other product. answered is false when it was not to be had.
func lookAtShelf(ctx context.Context, a *Actor, s shelf) (answered bool, err error) {
	limited, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	var stock int
	err = a.DB.QueryRow(limited, `select stock from products where sku = $1`, s.SKU).Scan(&stock)
	did := fmt.Sprintf("select stock from products where sku = '%s'", s.SKU)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		a.Say(Step{did, fmt.Sprintf("no connection: all %d wait for the mugs; 503", a.DB.InUse()), Bad})
		return false, nil
	case err != nil:
		return false, err
	}
	a.Say(Step{did, fmt.Sprintf("%d: shown", stock), Good})
	return true, nil
}
