package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

// Bounds of one script, so that Redis is soon there for others: a batch that has more is several scripts.
const (
	asksMax  = 1000
	itemsMax = 2000
)

// Stock is the stock of a store, for inventory.New and inventory.NewLedger. There are no transactions to join.
// It is safe for concurrent use.
type Stock struct{ store *Store }

// Stock returns the store's stock.
func (s *Store) Stock() Stock { return Stock{s} }

var (
	_ inventory.Store       = Stock{}
	_ inventory.LedgerStore = Stock{}
)

// inParts sends the asks to a script, or to several one after another when they are too many for one. Behind the
// first of several an error is unknown, since what came before it is done.
func inParts(ctx context.Context, asks []inventory.Ask, act func(context.Context, []inventory.Ask) ([]inventory.Answer, error)) ([]inventory.Answer, error) {
	n := fit(asks)
	answers, err := act(ctx, asks[:n])
	if err != nil || n == len(asks) {
		return answers, err
	}
	for len(answers) < len(asks) {
		rest := asks[len(answers):]
		more, err := act(ctx, rest[:fit(rest)])
		if err != nil {
			return nil, unknown(err)
		}
		answers = append(answers, more...)
	}
	return answers, nil
}

// fit is how many of the asks go into one script.
func fit(asks []inventory.Ask) int {
	items := 0
	for i, a := range asks {
		if items += max(len(a.Items), 1); i > 0 && (i == asksMax || items > itemsMax) {
			return i
		}
	}
	return len(asks)
}

// Settle decides the asks in order, in one script; see inventory.Store.
func (s Stock) Settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return inParts(ctx, asks, s.settle)
}

func (s Stock) settle(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	args := make([]string, 0, 3*len(asks))
	for _, a := range asks {
		args = append(args, actLetter(a.Act), holdField+a.ID, detail(a))
	}
	reply, err := s.store.run(ctx, settleScript, args)
	if err != nil {
		return nil, err
	}
	if len(reply) != len(asks)+1 {
		return nil, garbled(settleScript.name, fmt.Sprintf("%d answers to %d asks", len(reply)-1, len(asks)))
	}
	clock, err := reply[0].ToString()
	now, ok := parseClock(clock)
	if err != nil || !ok {
		return nil, garbled(settleScript.name, clock)
	}
	answers := make([]inventory.Answer, len(asks))
	for i, a := range asks {
		text, err := reply[i+1].ToString()
		if err != nil || text == "" {
			return nil, garbled(settleScript.name, text)
		}
		if answers[i], ok = readSettle(a, now, text[0], text[1:]); !ok {
			return nil, garbled(settleScript.name, text)
		}
	}
	return answers, nil
}

func actLetter(a inventory.Act) string {
	switch a {
	case inventory.Confirm:
		return "c"
	case inventory.Release:
		return "r"
	default:
		return "e"
	}
}

func detail(a inventory.Ask) string {
	switch {
	case a.Act == inventory.Extend:
		return ttlText(a.TTL)
	case a.Items != nil:
		return itemsText(a.Items)
	default:
		return ""
	}
}

func readSettle(a inventory.Ask, now time.Time, code byte, text string) (inventory.Answer, bool) {
	if code == 'N' {
		return inventory.Answer{Err: inventory.ErrNotFound}, true
	}
	r, ok := parseRecord(a.ID, text)
	if !ok {
		return inventory.Answer{}, false
	}
	h := r.Hold(now)
	h.Replayed = code == 'P' || code == 'l'
	var err error
	switch code {
	case 'C', 'P':
	case 'D':
		err = &inventory.MismatchError{ID: a.ID, First: h.Sold}
	case 'T':
		err = &inventory.StateError{Wanted: a.Act.String(), Hold: h}
	case 'I':
		err = &fifty.InvalidError{Field: "items", Problem: "has more than the hold; confirm what it has or less"}
	case 'L', 'l':
		err = &inventory.HoldExpiredError{Hold: h, Short: r.Short}
	case 'X':
		h.State, h.ExpiresIn = inventory.Expired, 0
		err = &inventory.HoldExpiredError{Hold: h}
	default:
		return inventory.Answer{}, false
	}
	return inventory.Answer{Hold: h, Err: err}, true
}

// Supply books a delivery; see inventory.Store.
func (s Stock) Supply(ctx context.Context, d inventory.Delivery) error {
	away := "0"
	if d.Away {
		away = "1"
	}
	reply, err := s.store.run(ctx, supplyScript, []string{deliveryField + d.ID, away, itemsText(d.Items), strconv.Itoa(inventory.SupplyMax)})
	if err != nil {
		return err
	}
	said := make([]string, 4)
	for i, m := range reply[:min(len(reply), len(said))] {
		if said[i], err = m.ToString(); err != nil {
			return garbled(supplyScript.name, err.Error())
		}
	}
	switch said[0] {
	case "A":
		return nil
	case "M":
		if first, ok := parseItems(said[1]); ok {
			return &inventory.MismatchError{ID: d.ID, First: first}
		}
	case "U":
		return &inventory.UnknownSKUError{SKU: said[1]}
	case "I":
		return &fifty.InvalidError{
			Field:   fmt.Sprintf("items[%q]", said[1]),
			Problem: fmt.Sprintf("would make a supply above %d", int64(inventory.SupplyMax)),
		}
	case "S":
		wanted, err1 := strconv.ParseInt(said[2], 10, 64)
		available, err2 := strconv.ParseInt(said[3], 10, 64)
		if err1 == nil && err2 == nil {
			return &inventory.SoldOutError{SoldOut: inventory.SoldOut{SKU: said[1], Wanted: wanted, Available: available}}
		}
	}
	return garbled(supplyScript.name, said[0])
}
