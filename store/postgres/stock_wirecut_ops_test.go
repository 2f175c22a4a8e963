package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/txn"
)

// The SKUs of a point are two, with ten units each, and its ids are numbers; see cut.named.
const (
	tea, cup  = "tea", "cup"
	cutSupply = 10
)

// stockOps are the operations as single calls of the store, which nobody repeats but the second host: its first
// host may have died. Those that are "late" come from a host behind whose back another did something else.
func stockOps[Tx any]() []cutOp[Tx] {
	several := inventory.Items{tea: 3, cup: 1}
	batch := []inventory.Ask{wants("1", tea, 2), wants("2", tea, 1), wants("3", tea, 4)}
	mixed := []inventory.Ask{
		reserve("1", inventory.Items{tea: 2}), reserve("2", inventory.Items{tea: 1, cup: 1}), wants("3", cup, 100),
		reserve("known", inventory.Items{tea: 3, cup: 1}), wants("4", cup, 2),
	}
	part := inventory.Ask{Act: inventory.Confirm, ID: "known", Items: inventory.Items{tea: 2}}
	all := []inventory.Ask{confirm("known"), release("other"), confirm("nobody's")}
	return []cutOp[Tx]{
		{name: "supply", prepare: stocked[Tx], call: delivers[Tx](inventory.Items{tea: 5}, false), settle: ends(delivers[Tx](inventory.Items{tea: 5}, false), "", levels{tea: {15, 0, 0}})},
		{name: "supply of a new SKU", call: delivers[Tx](several, false), settle: ends(delivers[Tx](several, false), "", levels{tea: {3, 0, 0}, cup: {1, 0, 0}})},
		{name: "withdrawal", prepare: stocked[Tx], call: delivers[Tx](several, true), settle: ends(delivers[Tx](several, true), "", levels{tea: {7, 0, 0}, cup: {9, 0, 0}})},
		answering[Tx]("reserve", stocked, "held", levels{tea: {7, 3, 0}}, wants("1", tea, 3)),
		answering[Tx]("reserve of several SKUs", stocked, "held", levels{tea: {7, 3, 0}, cup: {9, 1, 0}}, reserve("1", several)),
		together[Tx]("batch about one SKU", stocked, "held, held, held", levels{tea: {3, 7, 0}}, batch...),
		together[Tx]("batch about several SKUs", withHold, "held, held, sold out, held, held", levels{tea: {4, 6, 0}, cup: {6, 4, 0}}, mixed...),
		answering[Tx]("refusal", stocked, "sold out", levels{tea: {10, 0, 0}}, wants("1", tea, 11)),
		together[Tx]("refusals of what is known to be short", short, "sold out, sold out", levels{tea: {10, 0, 0}}, wants("1", tea, 11), wants("2", tea, 12)),
		{name: "reserve with the order's row", prepare: stocked[Tx], call: ordersTx[Tx], settle: endsOnce(ordersTx[Tx], "held", levels{tea: {7, 3, 0}, cup: {9, 1, 0}})},
		answering[Tx]("confirm", withHold, "confirmed 4", levels{tea: {7, 0, 3}, cup: {9, 0, 1}}, confirm("known")),
		answering[Tx]("confirm of a part", withHold, "confirmed 2", levels{tea: {8, 0, 2}, cup: {10, 0, 0}}, part),
		answering[Tx]("confirm of what has expired", expired, "confirmed 4", levels{tea: {7, 0, 3}, cup: {9, 0, 1}}, confirm("known")),
		answering[Tx]("confirm of what is gone", gone, "expired", levels{tea: {0, 10, 0}, cup: {10, 0, 0}}, confirm("known")),
		{name: "confirm with the order's row", prepare: withHold[Tx], call: paysTx[Tx], settle: endsOnce(paysTx[Tx], "confirmed 4", levels{tea: {7, 0, 3}, cup: {9, 0, 1}})},
		answering[Tx]("release", withHold, "released", levels{tea: {10, 0, 0}, cup: {10, 0, 0}}, release("known")),
		repeated(answering[Tx]("extend", withHold, "held", levels{tea: {7, 3, 0}, cup: {9, 1, 0}}, extend("known"))),
		together[Tx]("batch that settles", two, "confirmed 4, released, not found", levels{tea: {7, 0, 3}, cup: {9, 0, 1}}, all...),
		{name: "late confirm", prepare: withHold[Tx], call: asks[Tx](confirm("known")), retry: asks[Tx](release("known")), settle: isSettledOnce[Tx]},
		{name: "late release", prepare: withHold[Tx], call: asks[Tx](release("known")), retry: asks[Tx](confirm("known")), settle: isSettledOnce[Tx]},
		{name: "late confirm of what was sold to another", prepare: expired[Tx], call: asks[Tx](confirm("known")), retry: asks[Tx](wants("other", tea, cutSupply)), settle: isSoldOnce[Tx]},
		repeated(cutOp[Tx]{name: "sweep of what has expired", prepare: expired[Tx], call: sweepsStock[Tx], settle: isFreed[Tx]}),
		repeated(cutOp[Tx]{name: "sweep of what is old", prepare: aged[Tx], call: sweepsStock[Tx], settle: isForgotten[Tx]}),
		repeated(cutOp[Tx]{name: "split", prepare: withHold[Tx], call: splits[Tx](3), settle: ends(splits[Tx](3), "", levels{tea: {7, 3, 0}})}),
		repeated(cutOp[Tx]{name: "split into fewer", prepare: spread[Tx], call: splits[Tx](1), settle: ends(splits[Tx](1), "", levels{tea: {7, 3, 0}})}),
		{name: "look", prepare: withHold[Tx], call: looks[Tx], settle: ends(looks[Tx], "7, 3, 0; 9, 1, 0", levels{tea: {7, 3, 0}})},
		{name: "history", prepare: withHold[Tx], call: reads[Tx], settle: ends(reads[Tx], "reserved", levels{tea: {7, 3, 0}})},
		{name: "check", prepare: withHold[Tx], call: auditsStock[Tx], settle: ends(auditsStock[Tx], "[]", levels{tea: {7, 3, 0}})},
	}
}

func wants(id, sku string, units int64) inventory.Ask {
	return reserve(id, inventory.Items{sku: units})
}

// named is a name of the point's own.
func (c *cut[Tx]) named(name string) string { return c.key + " " + name }

func (c *cut[Tx]) items(of inventory.Items) inventory.Items {
	named := inventory.Items{}
	for sku, units := range of {
		named[c.named(sku)] = units
	}
	return named
}

func (c *cut[Tx]) asks(all []inventory.Ask) []inventory.Ask {
	named := make([]inventory.Ask, len(all))
	for i, a := range all {
		named[i] = a
		named[i].ID = c.named(a.ID)
		if a.Items != nil {
			named[i].Items = c.items(a.Items)
		}
	}
	return named
}

// answering is an operation that asks, and ends with these answers and levels.
func answering[Tx any](name string, prepare func(*cut[Tx]) error, answers string, want levels, all ...inventory.Ask) cutOp[Tx] {
	return cutOp[Tx]{name: name, prepare: prepare, call: asks[Tx](all...), settle: ends(asks[Tx](all...), answers, want)}
}

// repeated is op where a late repeat may move something, as it should.
func repeated[Tx any](op cutOp[Tx]) cutOp[Tx] {
	op.repeats = true
	return op
}

// together is answering of a batch that travels as one, whose members ask again one by one.
func together[Tx any](name string, prepare func(*cut[Tx]) error, answers string, want levels, all ...inventory.Ask) cutOp[Tx] {
	op := answering(name, prepare, answers, want, all...)
	op.retry = func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		var words []string
		for _, a := range all {
			word, err := asks[Tx](a)(ctx, c, h)
			if err != nil {
				return "", err
			}
			words = append(words, word)
		}
		return strings.Join(words, ", "), nil
	}
	return op
}

// asks sends all asks as one batch.
func asks[Tx any](all ...inventory.Ask) func(context.Context, *cut[Tx], host[Tx]) (string, error) {
	return func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		act := h.Stock().Settle
		if all[0].Act == inventory.Reserve {
			act = h.Stock().Reserve
		}
		answers, err := act(ctx, c.asks(all))
		return outcomes(answers), err
	}
}

// outcomes are answers in words, whether they were given before or not.
func outcomes(answers []inventory.Answer) string {
	var words []string
	for _, a := range answers {
		var sold int64
		for _, units := range a.Hold.Sold {
			sold += units
		}
		word := a.Hold.State.String()
		switch {
		case errors.Is(a.Err, inventory.ErrSoldOut):
			word = "sold out"
		case errors.Is(a.Err, inventory.ErrHoldExpired):
			word = "expired"
		case errors.Is(a.Err, inventory.ErrState):
			word = "wrong state"
		case errors.Is(a.Err, inventory.ErrNotFound):
			word = "not found"
		case a.Err != nil:
			word = a.Err.Error()
		case sold > 0:
			word = fmt.Sprint("confirmed ", sold)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func delivers[Tx any](items inventory.Items, away bool) func(context.Context, *cut[Tx], host[Tx]) (string, error) {
	return func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		return "", h.Stock().Supply(ctx, inventory.Delivery{ID: c.named("delivery"), Items: c.items(items), Away: away})
	}
}

// ordersTx reserves in a transaction that writes the order's row, unless the answer was given before.
func ordersTx[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	return c.inTx(ctx, h, reserve("1", inventory.Items{tea: 3, cup: 1}), h.Stock().ReserveTx)
}

// paysTx confirms in a transaction that notes the payment.
func paysTx[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	return c.inTx(ctx, h, confirm("known"), h.Stock().SettleTx)
}

func (c *cut[Tx]) inTx(ctx context.Context, h host[Tx], a inventory.Ask, act func(context.Context, Tx, inventory.Ask) (inventory.Answer, error)) (word string, err error) {
	err = h.Txns().Transact(ctx, txn.Options{}, func(ctx context.Context, tx Tx) error {
		answer, err := act(ctx, tx, c.asks([]inventory.Ask{a})[0])
		if err != nil {
			return err
		}
		word = outcomes([]inventory.Answer{answer})
		if answer.Err != nil || answer.Hold.Replayed {
			return nil
		}
		return h.insert(ctx, tx, `insert into ledger (key, run) values ($1, 'order')`, c.key)
	})
	return word, err
}

// cutKeep is how long a sweep leaves what was settled.
const cutKeep = 24 * time.Hour

func sweepsStock[Tx any](ctx context.Context, _ *cut[Tx], h host[Tx]) (string, error) {
	_, err := h.Stock().Sweep(ctx, cutKeep, 100)
	return "", err
}

func splits[Tx any](count int) func(context.Context, *cut[Tx], host[Tx]) (string, error) {
	return func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		return "", h.Stock().Split(ctx, c.named(tea), count)
	}
}

func looks[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	var words []string
	all, err := h.Stock().Availability(ctx, []string{c.named(tea), c.named(cup)})
	for _, l := range all {
		words = append(words, fmt.Sprintf("%d, %d, %d", l.Available, l.Held, l.Sold))
	}
	return strings.Join(words, "; "), err
}

func reads[Tx any](ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
	var words []string
	all, err := h.Stock().History(ctx, c.named("known"))
	for _, e := range all {
		words = append(words, e.What)
	}
	return strings.Join(words, ", "), err
}

func auditsStock[Tx any](ctx context.Context, _ *cut[Tx], h host[Tx]) (string, error) {
	off, err := h.Stock().Check(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(off), nil
}
