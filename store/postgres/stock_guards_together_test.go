package postgres_test

import (
	"crypto/rand"
	"errors"

	"github.com/fiftyhosts/fifty/inventory"
)

// togetherGuards are those of the statements for orders of several SKUs.
func togetherGuards() []stockGuard {
	const fresh, all, several = "reserve.new", "reserve.all", "reserve.several"
	yes := "and (select yes from fits)"
	firstYes, heldYes, dueYes := "s.bucket = 0\n      "+yes, "from new n\n    where (select yes from fits)", "from wanted w\n    where (select yes from fits)"
	two := func(s *shop) []inventory.Ask {
		return []inventory.Ask{reserve(rand.Text(), of(s.a, 1)), reserve(rand.Text(), of(s.c, 1))}
	}
	return []stockGuard{
		{"new ones of their SKUs", []change{{fresh, "where s.sku = t.sku", "where s.sku = replace(t.sku, '-a', '-neighbour')"}}, plainSale},
		{"new ones of what is not split", []change{{fresh, "and s.buckets = 1", ""}}, atHome},
		{"new ones of what there is enough of", []change{{fresh, "and s.available >= t.units", ""}}, lastUnit},
		{"new ones that outlast what was freed", []change{{fresh, ", t.freed_to + 1)", ", 0)"}, {fresh, ", t.freed_to + 1)", ", 0)"}}, freedLater},
		{"new ones whose id is new", []change{{fresh, "as a (id, sku, quantity, items, ttl)", "as a (id, sku, quantity, items, ttl)\non conflict do nothing"}}, idTaken("c")},
		{"new ones, all or none", []change{{fresh, "in (0, cardinality($6::text[]))", "is not null"}}, lastUnit},
		{"new ones, all and not none", []change{{fresh, "* count(*) > 0", "* count(*) >= 0"}}, lastUnit},
		{"new ones add to what expires", []change{{fresh, "e.units + excluded.units", "excluded.units"}}, togetherAdds},
		{"new ones that expire together", []change{{fresh, "sum(a.units)", "max(a.units)"}}, togetherAdds},
		{"new ones behind the lock", []change{{fresh, "and s.available >= t.units", "and (select available from fifty.stock where sku = t.sku and bucket = 0) >= t.units"}}, stockBehind(1, two, inventory.ErrSoldOut, nil)},

		{"all of their SKUs", []change{{all, "from total t\n    where s.sku = t.sku and s.bucket = 0", "from total t\n    where s.bucket = 0"}}, expecting(plainSale)},
		{"all of what is not split", []change{{all, "and s.buckets = 1", ""}}, expecting(atHome)},
		{"all of what there is enough of", []change{{all, "and s.available >= t.units", ""}}, expecting(lastUnit)},
		{"all that outlast what was freed", []change{{all, "and s.freed_to <= (select micros from at) / 1000000", ""}}, expecting(freedLater)},
		{"all of known SKUs", []change{{all, "count(*) = count(s.sku)", "count(s.sku) > 0"}}, expecting(unknownSKU)},
		{"all or none are taken", []change{{all, firstYes, "s.bucket = 0"}}, expecting(lastUnit)},
		{"all or none are held", []change{{all, heldYes, "from new n"}}, expecting(lastUnit)},
		{"all or none expire", []change{{all, dueYes, "from wanted w"}}, expecting(lastUnit)},
		{"several or none are taken", []change{{several, firstYes, "s.bucket = 0"}}, expecting(lastUnit)},
		{"several of the order's lines", []change{{several, "on l.number = a.number", "on true"}}, expecting(func(s *shop) error { return errors.Join(plainSale(s), severalSale(s)) })},
		{"all whose id is new", []change{{all, "    order by n.number\n", "    order by n.number\n    on conflict do nothing\n"}}, expecting(idTaken("c"))},
		{"all behind the lock", []change{{"reserve.lock", "for update", ""}}, expecting(stockBehind(1, two, inventory.ErrSoldOut, nil))},
	}
}

// expecting is a check on a store that expects known ids.
func expecting(check func(s *shop) error) func(s *shop) error {
	return func(s *shop) error {
		s.store.SawKnown(true)
		return check(s)
	}
}
