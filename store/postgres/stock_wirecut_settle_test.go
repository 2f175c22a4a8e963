package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// aboutStock is the subject of the sweep over the stock.
func aboutStock[Tx any]() subject[Tx] {
	return subject[Tx]{tables: stockTrailTables, snapshot: stockSnapshot, fresh: true, sound: isSound[Tx]}
}

// forgetful is a store on the same database that remembers nothing of the stock, so that each point begins alike.
func forgetful[Tx any](s *postgres.Store[Tx]) *postgres.Store[Tx] {
	return s.BreakStock(func(*postgres.StockStatements) {})
}

// stockTrailTables are what a sweep counts orders in, and a trail of all that becomes of any hold.
const stockTrailTables = `
create table ledger (key text not null, run text not null);
create table trail (
    id        bigint generated always as identity,
    hold      text,
    was_state smallint,
    state     smallint
);
create index on trail (hold);
create function leave_trail() returns trigger language plpgsql as $$
begin
    insert into trail (hold, was_state, state) values (coalesce(new.id, old.id), old.state, new.state);
    return null;
end $$;
create trigger trail after insert or update or delete on fifty.holds
    for each row execute function leave_trail();
`

// What no hold may have on its trail: to be made twice, or to become something else once it was decided. 1 is
// held, and one that is decided may only be forgotten.
const stockTrailFaults = `
select coalesce(string_agg(fault, ', '), '')
from (
    select 'a hold was made twice' as fault from trail where starts_with(hold, $1) and was_state is null group by hold having count(*) > 1
    union all
    select 'what was decided became something else' from trail where starts_with(hold, $1) and was_state <> 1 and state <> was_state
) faults`

// stockSnapshot is all that there is of the point's SKUs, ids and orders.
const stockSnapshot = `
select coalesce(string_agg(line, e'\n' order by line), '')
from (
    select 'stock ' || s::text as line from fifty.stock s where starts_with(s.sku, $1)
    union all select 'hold ' || h::text from fifty.holds h where starts_with(h.id, $1)
    union all select 'expiring ' || e::text from fifty.expiring e where starts_with(e.sku, $1)
    union all select 'delivery ' || d::text from fifty.deliveries d where starts_with(d.id, $1)
    union all select 'order ' || l::text from ledger l where starts_with(l.key, $1)
) lines`

// isSound finds nothing on the trail that must not be there, and the books of everything adding up.
func isSound[Tx any](c *cut[Tx]) error {
	var faults string
	if err := c.pool.QueryRow(c.ctx, stockTrailFaults, c.key).Scan(&faults); err != nil {
		return err
	}
	if faults != "" {
		return broken("the trail of the holds: %s", faults)
	}
	off, err := c.Stock().Check(c.ctx)
	if err != nil {
		return err
	}
	if len(off) > 0 {
		return broken("the books don't add up: %+v", off)
	}
	return nil
}

// levels are what is available, held and sold of a SKU.
type levels map[string][3]int64

// has finds these levels.
func (c *cut[Tx]) has(want levels) error {
	for sku, l := range want {
		got, err := c.second.Stock().Availability(c.ctx, []string{c.named(sku)})
		if err != nil {
			return broken("the level of %s: %w", sku, err)
		}
		if now := [3]int64{got[0].Available, got[0].Held, got[0].Sold}; now != l || got[0].Supply != l[0]+l[1]+l[2] {
			return broken("the level of %s is %+v, want %v", sku, got[0], l)
		}
	}
	return nil
}

type call[Tx any] = func(context.Context, *cut[Tx], host[Tx]) (string, error)

// ends has the call made again on both hosts, whatever was heard before. They and all who were answered must have
// this answer, and the levels are those of one effect. What was refused is refused also when there is more.
func ends[Tx any](again call[Tx], answer string, want levels) func(*cut[Tx], said, said) error {
	return func(c *cut[Tx], first, second said) error {
		if err := c.agree(again, answer, first, second); err != nil {
			return err
		}
		if err := c.has(want); err != nil || !strings.Contains(answer, "sold out") {
			return err
		}
		const more = 1000
		d := inventory.Delivery{ID: c.named("more"), Items: c.items(inventory.Items{tea: more, cup: more})}
		if err := c.second.Stock().Supply(c.ctx, d); err != nil {
			return err
		}
		if err := c.agree(again, answer); err != nil {
			return broken("when there is more: %w", err)
		}
		with := levels{}
		for sku, l := range want {
			with[sku] = [3]int64{l[0] + more, l[1], l[2]}
		}
		return c.has(with)
	}
}

// agree finds that all who were answered, and who ask now, have this answer.
func (c *cut[Tx]) agree(again call[Tx], answer string, heard ...said) error {
	for _, h := range []host[Tx]{c.second, c.first} {
		word, err := again(c.ctx, c, h)
		if err != nil {
			return broken("a later arrival: %w", err)
		}
		heard = append(heard, said{answer: word})
	}
	for _, s := range heard {
		if s.err == nil && s.answer != "" && s.answer != answer {
			return broken("somebody was told %q, want %q", s.answer, answer)
		}
	}
	return nil
}

// endsOnce is ends, and finds one row of the order's.
func endsOnce[Tx any](again call[Tx], answer string, want levels) func(*cut[Tx], said, said) error {
	return func(c *cut[Tx], first, second said) error {
		if err := ends(again, answer, want)(c, first, second); err != nil {
			return err
		}
		var rows int
		err := c.pool.QueryRow(c.ctx, `select count(*) from ledger where key = $1`, c.key).Scan(&rows)
		if err == nil && rows != 1 {
			err = broken("the order has %d rows", rows)
		}
		return err
	}
}

// isSettledOnce finds a hold confirmed or released, and nobody told that it was the other.
func isSettledOnce[Tx any](c *cut[Tx], first, second said) error {
	is, err := asks[Tx](reserve("known", inventory.Items{tea: 3, cup: 1}))(c.ctx, c, c.second)
	if err != nil {
		return broken("what became of it: %w", err)
	}
	want := levels{tea: {10, 0, 0}, cup: {10, 0, 0}}
	switch is {
	case "released":
	case "confirmed 4":
		want = levels{tea: {7, 0, 3}, cup: {9, 0, 1}}
	default:
		return broken("the hold is %s", is)
	}
	for _, s := range []said{first, second} {
		if s.err == nil && s.answer != "" && s.answer != "wrong state" && s.answer != is {
			return broken("somebody was told %q, but the hold is %s", s.answer, is)
		}
	}
	if !c.clean && second.err == nil && (second.answer == is) == (first.err == nil && first.answer == is) {
		// One of the two has settled it, also if it was not told.
		if first.err == nil || second.answer == is {
			return broken("both were told the same of what only one can do: %+v, %+v, %s", first, second, is)
		}
	}
	return c.has(want)
}

// isSoldOnce finds the units sold to the one who confirmed, or held for the one who came when they were free.
func isSoldOnce[Tx any](c *cut[Tx], first, second said) error {
	late, err := asks[Tx](confirm("known"))(c.ctx, c, c.second)
	if err != nil {
		return broken("the confirm, again: %w", err)
	}
	want, other := levels{tea: {0, 10, 0}}, "held"
	if late != "expired" {
		want, other = levels{tea: {7, 0, 3}}, "sold out"
	}
	if first.err == nil && first.answer != "" && first.answer != late {
		return broken("the confirm was told %q, and then %q", first.answer, late)
	}
	if second.err == nil && second.answer != "" && second.answer != other {
		return broken("the other was told %q, want %q", second.answer, other)
	}
	if c.clean {
		want = levels{tea: {7, 0, 3}}
	}
	return c.has(want)
}

// isFreed finds what has expired free in the rows themselves, once the next sweep has come by.
func isFreed[Tx any](c *cut[Tx], _, _ said) error {
	if _, err := sweepsStock(c.ctx, c, c.second); err != nil {
		return broken("the next sweep: %w", err)
	}
	var available, expiring int
	err := c.pool.QueryRow(c.ctx, `
		select (select available from fifty.stock where sku = $1), (select count(*) from fifty.expiring where sku = $1)`, c.named(tea)).
		Scan(&available, &expiring)
	switch {
	case err != nil:
		return err
	case available != cutSupply || expiring != 0:
		return broken("%d units are available in the row, and %d seconds are due", available, expiring)
	}
	return c.has(levels{tea: {10, 0, 0}, cup: {10, 0, 0}})
}

// isForgotten finds the levels as they were, and nothing known of the holds, once the next sweep has come by.
func isForgotten[Tx any](c *cut[Tx], _, _ said) error {
	if _, err := sweepsStock(c.ctx, c, c.second); err != nil {
		return broken("the next sweep: %w", err)
	}
	for _, id := range []string{"known", "refused"} {
		if _, err := c.second.Stock().History(c.ctx, c.named(id)); !errors.Is(err, inventory.ErrNotFound) {
			return broken("the hold %s is still known: %w", id, err)
		}
	}
	return c.has(levels{tea: {7, 0, 3}, cup: {9, 0, 1}})
}

// stocked supplies both SKUs.
func stocked[Tx any](c *cut[Tx]) error {
	d := inventory.Delivery{ID: c.named("first"), Items: c.items(inventory.Items{tea: cutSupply, cup: cutSupply})}
	return c.second.Stock().Supply(c.ctx, d)
}

// before has the second host ask, for these answers.
func (c *cut[Tx]) before(answers string, all ...inventory.Ask) error {
	got, err := asks[Tx](all...)(c.ctx, c, c.second)
	if err == nil && got != answers {
		err = fmt.Errorf("got %q, want %q", got, answers)
	}
	return err
}

// withHold has a hold on both SKUs, known by that name.
func withHold[Tx any](c *cut[Tx]) error {
	if err := stocked(c); err != nil {
		return err
	}
	return c.before("held", reserve("known", inventory.Items{tea: 3, cup: 1}))
}

// two has another hold.
func two[Tx any](c *cut[Tx]) error {
	if err := withHold(c); err != nil {
		return err
	}
	return c.before("held", reserve("other", inventory.Items{tea: 2}))
}

// short has the first host know that there is not enough.
func short[Tx any](c *cut[Tx]) error {
	if err := stocked(c); err != nil {
		return err
	}
	_, err := asks[Tx](wants("0", tea, cutSupply+1))(c.ctx, c, c.first)
	return err
}

// expired has the hold's time over, and nobody has freed it.
func expired[Tx any](c *cut[Tx]) error {
	if err := withHold(c); err != nil {
		return err
	}
	_, err := c.pool.Exec(c.ctx, expireHoldSQL, c.named("known"), 7200)
	return err
}

// gone has its units with another.
func gone[Tx any](c *cut[Tx]) error {
	if err := expired(c); err != nil {
		return err
	}
	return c.before("held", wants("other", tea, cutSupply))
}

// aged has a hold that was confirmed, and a refusal, two days ago.
func aged[Tx any](c *cut[Tx]) error {
	if err := withHold(c); err != nil {
		return err
	}
	if err := errors.Join(c.before("confirmed 4", confirm("known")), c.before("sold out", wants("refused", tea, cutSupply))); err != nil {
		return err
	}
	_, err := c.pool.Exec(c.ctx, `update fifty.holds set `+reservedOld+`, `+changedOld+` where starts_with(id, $1)`, c.key)
	return err
}

// spread has the SKU in three buckets.
func spread[Tx any](c *cut[Tx]) error {
	if err := withHold(c); err != nil {
		return err
	}
	return c.second.Stock().Split(c.ctx, c.named(tea), 3)
}
