package postgres_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/inventory"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// stockCuts is how many cut points each operation of the stock has at least; see wireCuts.
var stockCuts = map[string]struct{ pgx, sql int }{
	"supply":                                {46, 46},
	"supply of a new SKU":                   {48, 48},
	"withdrawal":                            {46, 46},
	"reserve":                               {10, 10},
	"reserve of several SKUs":               {14, 22},
	"batch about one SKU":                   {10, 10},
	"batch about several SKUs":              {86, 98},
	"refusal":                               {56, 56},
	"refusals of what is known to be short": {12, 20},
	"reserve with the order's row":          {82, 86},
	"confirm":                               {48, 52},
	"confirm of a part":                     {48, 52},
	"confirm of what has expired":           {50, 54},
	"confirm of what is gone":               {50, 54},
	"confirm with the order's row":          {78, 82},
	"release":                               {48, 52},
	"extend":                                {50, 54},
	"batch that settles":                    {48, 52},
	"late confirm":                          {48, 52},
	"late release":                          {48, 52},
	"late confirm of what was sold to another": {50, 54},
	"sweep of what has expired":                {58, 58},
	"sweep of what is old":                     {52, 52},
	"split":                                    {42, 42},
	"split into fewer":                         {54, 62},
	"look":                                     {8, 8},
	"history":                                  {8, 8},
	"check":                                    {26, 24},
}

// stockPlayed is how many of all these are played at least.
const stockPlayed = 1140

// stockLanes is on how many databases the operations are swept at once, over each driver.
const stockLanes = 3

func TestPostgresEveryMessageOfTheStockMayBeCutAndTheEffectIsThereOnce(t *testing.T) {
	t.Parallel()
	var all, played atomic.Int64
	if swept := len(stockOps[pgx.Tx]()); swept != len(stockCuts) {
		t.Errorf("%d operations are swept, and %d are pinned", swept, len(stockCuts))
	}
	t.Run("over", func(t *testing.T) { // returns when all that is parallel in it is done
		for lane := range stockLanes {
			t.Run(fmt.Sprintf("pgx/%d", lane), func(t *testing.T) { sweepLane(t, overPgx, stockOps[pgx.Tx](), lane, &all, &played) })
			t.Run(fmt.Sprintf("sql/%d", lane), func(t *testing.T) { sweepLane(t, overSQL, stockOps[*sql.Tx](), lane, &all, &played) })
		}
	})
	t.Logf("wire-cut sweep of the stock: %d cut points in all, %d of them played: the others leave a server as one of these does", all.Load(), played.Load())
	if n := played.Load(); n < stockPlayed {
		t.Errorf("%d cut points were played, and %d are pinned", n, stockPlayed)
	}
}

// sweepLane sweepsStock every so-manieth operation on one database.
func sweepLane[Tx any](t *testing.T, d driver[Tx], ops []cutOp[Tx], lane int, all, played *atomic.Int64) {
	t.Parallel()
	r := newStockRig(t, d)
	for i, op := range ops {
		if i%stockLanes != lane {
			continue
		}
		before := r.played
		t.Run(op.name, func(t *testing.T) {
			pinned := stockCuts[op.name].pgx
			if _, over := any(d).(driver[*sql.Tx]); over {
				pinned = stockCuts[op.name].sql
			}
			n, err := op.sweep(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d cut points, %d are pinned", t.Name(), n, pinned)
			all.Add(int64(n))
			played.Add(int64(r.played - before))
			if pinned == 0 || n < pinned {
				t.Errorf("%d cut points, and %d are pinned: if it is meant to send what it sends, put the number into stockCuts", n, pinned)
			}
		})
	}
}

func newStockRig[Tx any](t *testing.T, d driver[Tx], changes ...change) *rig[Tx] {
	t.Helper()
	return newRigAbout(t, aboutStock[Tx](), d, cutLease, "", func(s *postgres.Store[Tx]) *postgres.Store[Tx] {
		return s.BreakStock(breakingStock(t, changes))
	})
}

// newID is op where each call has a new id, as of a client that makes one for each try.
func newID[Tx any](op cutOp[Tx], all ...inventory.Ask) cutOp[Tx] {
	op.call = func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		fresh := slices.Clone(all)
		for i := range fresh {
			fresh[i].ID += rand.Text()
		}
		return asks[Tx](fresh...)(ctx, c, h)
	}
	return op
}

// rowApart is op where the order's row is written outside of the transaction.
func rowApart[Tx any](op cutOp[Tx]) cutOp[Tx] {
	whole := op.call
	op.call = func(ctx context.Context, c *cut[Tx], h host[Tx]) (string, error) {
		h.insert = func(ctx context.Context, _ Tx, sql string, args ...any) error {
			_, err := c.pool.Exec(ctx, sql, args...)
			return err
		}
		return whole(ctx, c, h)
	}
	return op
}

// What the sweep would not notice, it does not prove.
func TestPostgresWireCutSweepOfTheStockCatchesPlantedFaults(t *testing.T) {
	t.Parallel()
	const noMatter = `and $1::text <> ''`
	one := []inventory.Ask{wants("1", tea, 3)}
	for name, plant := range map[string]struct {
		op      string // which must notice
		by      faults.Fault
		how     func(cutOp[pgx.Tx]) cutOp[pgx.Tx]
		changes []change
	}{
		"a retry with a new id": {
			op: "reserve", by: faults.ReplyLost, how: func(op cutOp[pgx.Tx]) cutOp[pgx.Tx] { return newID(op, one...) },
		},
		"a batch that is asked again with new ids": {
			op: "batch about one SKU", by: faults.Zombie,
			how: func(op cutOp[pgx.Tx]) cutOp[pgx.Tx] {
				return newID(op, wants("1", tea, 2), wants("2", tea, 1), wants("3", tea, 4))
			},
		},
		"a refusal that is not written down": {
			op: "refusal", by: faults.ReplyLost,
			changes: []change{
				{"holds.insert", "    as h (id, sku, quantity, items, parts, state, expires, short, log)", "    as h (id, sku, quantity, items, parts, state, expires, short, log)\nwhere h.state <> 4"},
				{"reserve.none", "unnest($1::text[], $2::bigint[]) as a (id, quantity)", "unnest($1::text[], $2::bigint[]) as a (id, quantity) where a.id = ''"},
			},
		},
		"a hold that is settled whatever its state": {
			op: "late confirm", by: faults.Zombie,
			changes: []change{{"stock.holds", "h.state::bigint", "1::bigint"}},
		},
		"a hold that is settled without its lock": {
			op: "late confirm of what was sold to another", by: faults.Zombie,
			changes: []change{{"stock.lock", "for update of s", ""}},
		},
		"an id that is not looked for": {
			op: "reserve", by: faults.Zombie,
			changes: []change{
				{"reserve.one", `and not exists (select from "fifty".holds h where h.id = $1::text)`, noMatter},
				{"reserve.one", "t.now\nfrom took t", "t.now\nfrom took t\non conflict do nothing"},
			},
		},
		"a delivery that counts again": {
			op: "supply", by: faults.Zombie,
			changes: []change{
				{"delivery.find", "where id = $1::text", "where id = $1::text || ' '"},
				{"delivery.insert", "values ($1::text, $2::jsonb, $3::boolean)", "values ($1::text, $2::jsonb, $3::boolean)\non conflict do nothing"},
			},
		},
		"a sweep that forgets what it does not add up": {
			op: "sweep of what is old", by: faults.ReplyLost, changes: []change{{"stocksweep.holds", "s.sold_folded + c.sold", "s.sold_folded"}},
		},
		"an order's row outside of the transaction": {op: "reserve with the order's row", by: faults.RequestLost, how: rowApart[pgx.Tx]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops := stockOps[pgx.Tx]()
			at := slices.IndexFunc(ops, func(op cutOp[pgx.Tx]) bool { return op.name == plant.op })
			op := ops[at]
			if plant.how != nil {
				op = plant.how(op)
			}
			_, err := op.sweep(t.Context(), newStockRig(t, overPgx, plant.changes...), plant.by)
			if _, ok := errors.AsType[violation](err); !ok {
				t.Fatalf("it went unnoticed: %v", err)
			}
			t.Log(err)
		})
	}
}
