package inventorytest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/history"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/inventory/inventorytest"
)

// recorded is one call of a history about one SKU: from and to are its stamps, in milliseconds, and to is zero where
// nobody was told.
type recorded struct {
	from, to int64
	call     inventorytest.Call
	told     inventorytest.Told
}

func historyOf(calls []recorded) (h inventorytest.History) {
	h.Clock = "of this test"
	const ms = int64(time.Millisecond)
	for n, c := range calls {
		c.call.At, c.told.At = c.from*ms, c.to*ms
		op := history.Operation[inventorytest.Call, inventorytest.Told]{
			Client: n, Key: "sku", Call: c.from * ms, Return: c.to * ms, Input: c.call, Output: c.told,
		}
		if c.to == 0 {
			op.Return, op.Output = history.Forever, inventorytest.Told{}
		}
		h.Operations = append(h.Operations, op)
	}
	return h
}

func TestTimedModelKnowsWhenAHoldExpires(t *testing.T) {
	t.Parallel()
	yes := func(s inventory.State) inventorytest.Told { return inventorytest.Told{Answer: "yes", State: s} }
	soldOut := inventorytest.Told{Answer: "sold out", State: inventory.Refused}
	tooLate := inventorytest.Told{Answer: "expired", State: inventory.Lapsed}
	sold := inventorytest.Told{Answer: "yes", State: inventory.Confirmed, Sold: 2}
	supply := recorded{100_000, 100_010, inventorytest.Call{Do: "supply", ID: "d", Units: 2}, inventorytest.Told{Answer: "yes"}}
	reserve := func(id string) inventorytest.Call {
		return inventorytest.Call{Do: "reserve", ID: id, Units: 2, Time: time.Second}
	}
	confirm := inventorytest.Call{Do: "confirm", ID: "a"}
	first := recorded{100_200, 100_300, reserve("a"), yes(inventory.Held)} // until the second 102
	look := func(available, held int64) inventorytest.Told {
		return inventorytest.Told{Answer: "yes", Level: inventory.Level{Supply: 2, Available: available, Held: held}}
	}
	for name, c := range map[string]struct {
		calls []recorded
		legal bool
	}{
		"refused while it is held":                {[]recorded{first, {101_500, 101_600, reserve("b"), soldOut}}, true},
		"given away while it is held":             {[]recorded{first, {101_500, 101_600, reserve("b"), yes(inventory.Held)}}, false},
		"given away when it has expired":          {[]recorded{first, {102_100, 102_200, reserve("b"), yes(inventory.Held)}}, true},
		"refused when it has expired":             {[]recorded{first, {102_100, 102_200, reserve("b"), soldOut}}, false},
		"refused about when it expires":           {[]recorded{first, {101_900, 102_200, reserve("b"), soldOut}}, true},
		"given away about when it expires":        {[]recorded{first, {101_900, 102_200, reserve("b"), yes(inventory.Held)}}, true},
		"sold late, but still there":              {[]recorded{first, {103_000, 103_100, confirm, sold}}, true},
		"sold late, and gone":                     {[]recorded{first, {102_100, 102_200, reserve("b"), yes(inventory.Held)}, {103_000, 103_100, confirm, sold}}, false},
		"refused late, and gone":                  {[]recorded{first, {102_100, 102_200, reserve("b"), yes(inventory.Held)}, {103_000, 103_100, confirm, tooLate}}, true},
		"refused late, but still there":           {[]recorded{first, {103_000, 103_100, confirm, tooLate}}, false},
		"seen as held":                            {[]recorded{first, {101_000, 101_100, inventorytest.Call{Do: "look"}, look(0, 2)}}, true},
		"seen as free too early":                  {[]recorded{first, {101_000, 101_100, inventorytest.Call{Do: "look"}, look(2, 0)}}, false},
		"taken by a call that nobody was told of": {[]recorded{{100_100, 0, reserve("a"), inventorytest.Told{}}, {100_400, 100_500, reserve("b"), soldOut}}, true},
		"refused for nobody":                      {[]recorded{{100_400, 100_500, reserve("b"), soldOut}}, false},
		"taken later by a call that nobody was told of": {[]recorded{
			{100_100, 0, reserve("a"), inventorytest.Told{}}, {105_000, 105_100, inventorytest.Call{Do: "look"}, look(2, 0)}, {106_000, 106_100, reserve("b"), soldOut},
		}, true},
		"backwards": {[]recorded{
			first, {102_100, 102_200, reserve("b"), yes(inventory.Held)}, {102_300, 102_400, reserve("a"), yes(inventory.Held)},
		}, false},
	} {
		h := historyOf(append([]recorded{supply}, c.calls...))
		model := inventorytest.TimedModel(inventorytest.LastAnswer(h), 20*time.Millisecond)
		_, err := history.Check(h, history.Config{Model: model, Dir: t.TempDir()})
		if (err == nil) != c.legal || err != nil && !errors.Is(err, history.ErrIllegal) {
			t.Errorf("%s: %v, want it legal %v", name, err, c.legal)
		}
	}
}

// bookOf has one hold, which was reserved then and confirmed later.
type bookOf struct{ reserved, confirmed time.Time }

func (b bookOf) History(context.Context, string) ([]inventory.Entry, error) {
	return []inventory.Entry{{What: "reserved", At: b.reserved}, {What: "confirmed", At: b.confirmed}}, nil
}

func (b bookOf) Check(context.Context) ([]inventory.Fault, error) { return nil, nil }

// What was decided at a moment that the store remembers must have been decided then.
func TestTimedModelHoldsAStoreToWhatItRemembers(t *testing.T) {
	t.Parallel()
	calls := []recorded{
		{100_000, 100_010, inventorytest.Call{Do: "supply", ID: "d", Units: 2}, inventorytest.Told{Answer: "yes"}},
		{100_200, 104_300, inventorytest.Call{Do: "reserve", ID: "a", Units: 2, Time: time.Second}, inventorytest.Told{Answer: "yes", State: inventory.Held}},
		{104_400, 104_500, inventorytest.Call{Do: "reserve", ID: "a", Units: 2, Time: time.Second}, inventorytest.Told{Answer: "yes", State: inventory.Held, Replayed: true}},
		{104_600, 104_700, inventorytest.Call{Do: "confirm", ID: "a"}, inventorytest.Told{Answer: "yes", State: inventory.Confirmed, Sold: 2}},
	}
	for name, c := range map[string]struct {
		reserved, confirmed int64
		legal               bool
	}{
		"as it was told":             {103_500, 104_650, true},
		"held for too long":          {101_500, 104_650, false},
		"reserved before the call":   {100_100, 104_650, false},
		"confirmed after the answer": {103_500, 104_800, false},
	} {
		book := bookOf{time.UnixMilli(c.reserved), time.UnixMilli(c.confirmed)}
		h, err := inventorytest.Dated(t.Context(), historyOf(calls), book)
		if err != nil {
			t.Fatal(err)
		}
		model := inventorytest.TimedModel(inventorytest.LastAnswer(h), 20*time.Millisecond)
		_, err = history.Check(h, history.Config{Model: model, Dir: t.TempDir()})
		if (err == nil) != c.legal || err != nil && !errors.Is(err, history.ErrIllegal) {
			t.Errorf("%s: %v, want it legal %v", name, err, c.legal)
		}
	}
}
