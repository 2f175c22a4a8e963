package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/fiftyhosts/fifty/inventory"
)

// writes are the statements that write what a Batch changed, in an order that is the same for everybody: the
// stock, whose rows are locked, the holds, what expires.
func (s Stock[Tx]) writes(c inventory.Changes, now time.Time) ([]*call, error) {
	var calls []*call
	if len(c.Created) > 0 {
		calls = append(calls, s.sql.insertBuckets.with(bucketArgs(c.Created)...))
	}
	if len(c.Buckets) > 0 {
		calls = append(calls, counted(s.sql.updateBuckets.with(bucketArgs(c.Buckets)...)))
	}
	if len(c.Added) > 0 {
		insert, err := s.insertHolds(c.Added, now)
		if err != nil {
			return nil, err
		}
		calls = append(calls, insert)
	}
	if len(c.Changed) > 0 {
		update, err := s.updateHolds(c.Changed, now)
		if err != nil {
			return nil, err
		}
		calls = append(calls, counted(update))
	}
	if len(c.Freed) > 0 {
		var skus []string
		var numbers []int32
		var seconds []int64
		for _, f := range c.Freed {
			skus, numbers, seconds = append(skus, f.SKU), append(numbers, int32(f.Number)), append(seconds, f.Second) //nolint:gosec // at most BucketsMax
		}
		calls = append(calls, s.sql.freed.with(skus, numbers, seconds))
	}
	return append(calls, s.moves(c.Moves)...), nil
}

// counted is a statement that fails unless it has changed all that it names. What it returns is 1.
func counted(c *call) *call {
	var one int64
	return c.into(&one)
}

func bucketArgs(buckets []inventory.Bucket) []any {
	n := len(buckets)
	skus, numbers, counts := make([]string, n), make([]int32, n), make([]int32, n)
	var values [6][]int64
	for i := range values {
		values[i] = make([]int64, n)
	}
	for i, b := range buckets {
		skus[i], numbers[i], counts[i] = b.SKU, int32(b.Number), int32(b.Count) //nolint:gosec // at most BucketsMax
		for j, v := range []int64{b.Supply, b.Available, b.Held, b.Sold, b.FreedTo, b.Refusals} {
			values[j][i] = v
		}
	}
	args := []any{skus, numbers, counts}
	for _, v := range values {
		args = append(args, v)
	}
	return args
}

// holdArgs are columns of rows.
type holdArgs struct {
	ids, skus, items, parts, shorts, logs []string
	quantities, expires                   []int64
	states                                []int16
}

func holdArgsOf(records []*inventory.Record) (a holdArgs, err error) {
	sorted := slices.SortedFunc(slices.Values(records), func(x, y *inventory.Record) int { return cmp.Compare(x.ID, y.ID) })
	for _, r := range sorted {
		h, err := rowOf(r)
		if err != nil {
			return a, err
		}
		a.ids, a.skus, a.quantities = append(a.ids, h.id), append(a.skus, h.sku), append(a.quantities, h.quantity)
		a.items, a.parts = append(a.items, h.items), append(a.parts, h.parts)
		a.states, a.expires = append(a.states, int16(h.state)), append(a.expires, h.expires) //nolint:gosec // 1 to 5
		a.shorts, a.logs = append(a.shorts, h.short), append(a.logs, h.log)
	}
	return a, nil
}

func (s Stock[Tx]) insertHolds(records []*inventory.Record, now time.Time) (*call, error) {
	a, err := holdArgsOf(records)
	if err != nil {
		return nil, err
	}
	return s.sql.insertHolds.with(a.ids, a.skus, a.quantities, a.items, a.parts, a.states, a.expires, a.shorts, now, a.logs), nil
}

func (s Stock[Tx]) updateHolds(records []*inventory.Record, now time.Time) (*call, error) {
	a, err := holdArgsOf(records)
	if err != nil {
		return nil, err
	}
	return s.sql.updateHolds.with(a.ids, a.parts, a.states, a.expires, a.shorts, a.logs, now), nil
}

// moves writes what expires when: first what goes, then what comes.
func (s Stock[Tx]) moves(moves []inventory.Move) (calls []*call) {
	var fewer, more moveArgs
	for _, m := range moves {
		if m.Quantity < 0 {
			fewer.add(m.Expiring, -m.Quantity)
		} else {
			more.add(m.Expiring, m.Quantity)
		}
	}
	if len(fewer.skus) > 0 {
		calls = append(calls, counted(s.sql.fewer.with(fewer.args()...)))
	}
	if len(more.skus) > 0 {
		calls = append(calls, s.sql.more.with(more.args()...))
	}
	return calls
}

type moveArgs struct {
	skus           []string
	numbers        []int32
	seconds, units []int64
}

func (a *moveArgs) add(at inventory.Expiring, units int64) {
	a.skus = append(a.skus, at.SKU)
	a.numbers = append(a.numbers, int32(at.Number)) //nolint:gosec // at most BucketsMax
	a.seconds = append(a.seconds, at.Second)
	a.units = append(a.units, units)
}

func (a *moveArgs) args() []any { return []any{a.skus, a.numbers, a.seconds, a.units} }
