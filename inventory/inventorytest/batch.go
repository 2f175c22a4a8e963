package inventorytest

import (
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

var batchCases = []claim{
	{"an empty batch is answered with nothing", func(w *world) {
		for _, call := range []func() ([]inventory.Answer, error){
			func() ([]inventory.Answer, error) { return w.store.Reserve(w.ctx, nil) },
			func() ([]inventory.Answer, error) { return w.store.Settle(w.ctx, nil) },
		} {
			if got, err := call(); err != nil || len(got) != 0 {
				w.Errorf("got %v, %v", got, err)
			}
		}
	}},
	{"a batch is answered as its asks would be one by one, in order", func(w *world) {
		together, apart := newTwin(w), newTwin(w)
		for _, asks := range twinBatches {
			got := together.batch(asks)
			for i, a := range asks {
				want := apart.one(a)
				if problem := together.differs(got[i], apart, want); problem != "" {
					w.Errorf("%v of order %d: %s", a.act, a.order, problem)
				}
			}
			for i := range together.skus {
				x, y := together.level(i), apart.level(i)
				if x != y {
					w.Errorf("SKU %d has %+v after the batch, and %+v after its asks one by one", i, x, y)
				}
			}
		}
	}},
	{"a large batch is answered in order", func(w *world) {
		const asks, units = 256, 100
		sku := w.sku(units)
		batch := make([]inventory.Ask, asks)
		for i := range batch {
			batch[i] = inventory.Ask{Act: inventory.Reserve, ID: w.id(), Items: inventory.Items{sku: 1}, TTL: longTTL, RefusalsMax: refusalsMax}
		}
		for range 2 { // the second time all are replays
			got, err := w.store.Reserve(w.ctx, batch)
			if err != nil || len(got) != asks {
				w.Fatalf("%d answers, %v", len(got), err)
			}
			for i, a := range got {
				if a.Hold.ID != batch[i].ID || (a.Err == nil) != (i < units) {
					w.Fatalf("answer %d is %v", i, show(a))
				}
			}
			w.has(sku, 0, units, 0)
		}
		for i := range batch {
			batch[i] = inventory.Ask{Act: inventory.Confirm, ID: batch[i].ID}
		}
		got, err := w.store.Settle(w.ctx, batch)
		if err != nil || len(got) != asks {
			w.Fatalf("%d answers, %v", len(got), err)
		}
		for i, a := range got {
			if i < units {
				w.yes(a, inventory.Confirmed, false)
			} else {
				w.no(a, inventory.ErrState)
			}
		}
		w.has(sku, 0, 0, units)
	}},
}

// twin is one of two sets of SKUs and orders that go through the same.
type twin struct {
	w    *world
	skus []string
	ids  map[int]string
}

func newTwin(w *world) *twin {
	return &twin{w: w, skus: []string{w.sku(4), w.sku(4), w.split(6, 3)}, ids: map[int]string{}}
}

// twinAsk is an ask in terms of a twin: the number of an order, and units of its SKUs in order.
type twinAsk struct {
	act   inventory.Act
	order int
	units []int64
}

var twinBatches = [][]twinAsk{
	{
		{inventory.Reserve, 1, []int64{3}},
		{inventory.Reserve, 2, []int64{2}}, // too much
		{inventory.Reserve, 3, []int64{1}}, // and this is not
		{inventory.Reserve, 1, []int64{3}}, // sent twice
		{inventory.Reserve, 1, []int64{2}}, // with other items
		{inventory.Reserve, 2, []int64{2}},
		{inventory.Reserve, 4, []int64{0, 2, 3}},
		{inventory.Reserve, 5, []int64{0, 3, 1}}, // as a whole
		{inventory.Reserve, 6, []int64{0, 2, 3}},
		{inventory.Reserve, 7, []int64{0, 0, 1}},
		{inventory.Reserve, 8, nil}, // an unknown SKU
	},
	{
		{inventory.Confirm, 1, []int64{1}}, // two go back
		{inventory.Confirm, 1, nil},
		{inventory.Confirm, 1, []int64{1}},
		{inventory.Release, 1, nil},
		{inventory.Release, 3, nil},
		{inventory.Release, 3, nil},
		{inventory.Confirm, 3, nil},
		{inventory.Extend, 3, nil},
		{inventory.Extend, 4, nil},
		{inventory.Confirm, 4, nil},
		{inventory.Release, 4, nil},
		{inventory.Confirm, 2, nil},
		{inventory.Confirm, 99, nil},
		{inventory.Release, 6, nil},
	},
	{
		{inventory.Reserve, 9, []int64{3}},
		{inventory.Reserve, 10, []int64{1}},
		{inventory.Reserve, 6, []int64{0, 2, 3}},
		{inventory.Reserve, 11, []int64{0, 2, 3}},
		{inventory.Reserve, 12, []int64{0, 0, 1}},
	},
}

func (t *twin) ask(a twinAsk) inventory.Ask {
	id, ok := t.ids[a.order]
	if !ok {
		id = t.w.id()
		t.ids[a.order] = id
	}
	ask := inventory.Ask{Act: a.act, ID: id, TTL: longTTL + time.Hour, RefusalsMax: refusalsMax}
	if a.act == inventory.Reserve {
		ask.TTL = longTTL
	}
	if a.units != nil || a.act == inventory.Reserve {
		ask.Items = inventory.Items{}
		for i, q := range a.units {
			if q > 0 {
				ask.Items[t.skus[i]] = q
			}
		}
		if a.units == nil {
			ask.Items[t.w.prefix+"/no such SKU"] = 1
		}
	}
	return ask
}

func (t *twin) one(a twinAsk) inventory.Answer { return t.w.told(t.ask(a)) }

func (t *twin) batch(all []twinAsk) []inventory.Answer {
	t.w.Helper()
	call := t.w.store.Settle
	if all[0].act == inventory.Reserve {
		call = t.w.store.Reserve
	}
	var asks []inventory.Ask
	for _, a := range all {
		asks = append(asks, t.ask(a))
	}
	got, err := call(t.w.ctx, asks)
	if err != nil || len(got) != len(asks) {
		t.w.Fatalf("%d answers for %d asks, %v", len(got), len(asks), err)
	}
	return got
}

func (t *twin) level(i int) inventory.Level {
	t.w.Helper()
	l, err := t.w.level(t.skus[i])
	if err != nil {
		t.w.Fatalf("%v", err)
	}
	l.SKU = ""
	return l
}

// differs says in what an answer differs from the other twin's.
func (t *twin) differs(got inventory.Answer, other *twin, want inventory.Answer) string {
	a, b := t.plain(got), other.plain(want)
	if a != b {
		return fmt.Sprintf("in the batch: %s; by itself: %s", a, b)
	}
	return ""
}

// plain writes an answer in terms of a twin.
func (t *twin) plain(a inventory.Answer) string {
	text := fmt.Sprintf("%v replayed %v:", a.Hold.State, a.Hold.Replayed)
	for i, sku := range t.skus {
		text += fmt.Sprintf(" %d: %d, %d sold;", i, a.Hold.Items[sku], a.Hold.Sold[sku])
	}
	if short, ok := errors.AsType[*inventory.SoldOutError](a.Err); ok {
		return text + fmt.Sprintf(" sold out: %d wanted, %d available", short.Wanted, short.Available)
	}
	return text + fmt.Sprintf(" %T", a.Err)
}
