package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fiftyhosts/fifty/faults"
	"github.com/fiftyhosts/fifty/store/postgres"
)

// wireCuts is how many cut points each operation has at least, over pgx and over database/sql. A sweep over
// fewer proves less, so the number is a part of the proof: lower it only with a reason, such as an operation
// that sends less than before. The test prints the numbers.
//
// InTx over pgx sends BEGIN and the claim in one request with its function's first statement, and COMMIT with the
// answer. On a free key the claim is refused there, and goes first in a transaction of its own.
var wireCuts = map[string]struct{ pgx, sql int }{
	"Do":                        {20, 20},
	"Do with a heartbeat":       {11, 11},
	"Do of a refusal":           {20, 20},
	"Do of what did not happen": {20, 20},
	"replay":                    {18, 18},
	"DoSteps":                   {53, 53},
	"DoSteps that takes over":   {69, 69},
	"InTx":                      {40, 43},
	"InTx on a free key":        {93, 52},
	"InTx of a refusal":         {59, 66},
	"InTx of a host that dies":  {40, 43},
	"DoTx":                      {69, 60},
	"DoTx on a free key":        {103, 97},
	"claim":                     {9, 9},
	"claim by two":              {9, 9},
	"takeover":                  {36, 36},
	"takeover by two":           {36, 36},
	"heartbeat":                 {11, 11},
	"step":                      {11, 11},
	"complete":                  {11, 11},
	"claim in a batch":          {9, 9},
	"heartbeat in a batch":      {18, 18},
	"complete in a batch":       {18, 18},
	"late heartbeat":            {11, 11},
	"late step":                 {11, 11},
	"late complete":             {11, 11},
	"resolve":                   {36, 29},
	"sweep":                     {30, 28},
}

// driver makes stores whose connections send nothing of their own accord.
type driver[Tx any] struct {
	open   func(tb testing.TB, url string) *postgres.Store[Tx]
	insert func(ctx context.Context, tx Tx, sql string, args ...any) error
}

var overPgx = driver[pgx.Tx]{
	open: func(tb testing.TB, url string) *postgres.Store[pgx.Tx] {
		pool := newPool(tb, url, func(c *pgxpool.Config) {
			c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		})
		return postgres.New(pool, postgres.Config{})
	},
	insert: func(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	},
}

var overSQL = driver[*sql.Tx]{
	open: func(tb testing.TB, url string) *postgres.Store[*sql.Tx] {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			tb.Fatal(err)
		}
		noPing := func(context.Context, stdlib.ShouldPingParams) bool { return false }
		db := stdlib.OpenDB(*cfg, stdlib.OptionShouldPing(noPing))
		tb.Cleanup(func() { _ = db.Close() })
		return postgres.NewDB(db, postgres.Config{})
	},
	insert: func(ctx context.Context, tx *sql.Tx, sql string, args ...any) error {
		_, err := tx.ExecContext(ctx, sql, args...)
		return err
	},
}

func cutOps[Tx any]() []cutOp[Tx] { return append(keysOps[Tx](), storeOps[Tx]()...) }

func TestPostgresEveryMessageMayBeCutAndTheEffectIsThereOnce(t *testing.T) {
	t.Parallel()
	var all atomic.Int64
	if swept := len(cutOps[pgx.Tx]()); swept != len(wireCuts) {
		t.Errorf("%d operations are swept, and %d are pinned", swept, len(wireCuts))
	}
	t.Run("over", func(t *testing.T) { // returns when all that is parallel in it is done
		for i, op := range cutOps[pgx.Tx]() {
			overDB := cutOps[*sql.Tx]()[i]
			t.Run("pgx/"+op.name, func(t *testing.T) { sweepAll(t, overPgx, op, wireCuts[op.name].pgx, &all) })
			t.Run("sql/"+op.name, func(t *testing.T) { sweepAll(t, overSQL, overDB, wireCuts[op.name].sql, &all) })
		}
	})
	t.Logf("wire-cut sweep: %d cut points in all", all.Load())
}

func sweepAll[Tx any](t *testing.T, d driver[Tx], op cutOp[Tx], pinned int, all *atomic.Int64) {
	t.Parallel()
	r := newRig(t, d, op.leaseOr(cutLease), "")
	n, err := op.sweep(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d cut points, %d are pinned", t.Name(), n, pinned)
	all.Add(int64(n))
	switch {
	case pinned == 0:
		t.Errorf("no number is pinned: put %d into wireCuts", n)
	case n < pinned:
		t.Errorf("%d cut points, and %d are pinned: if it is meant to send less, put the new number into wireCuts", n, pinned)
	}
}

// What the sweep would not notice, it does not prove. Zombies are enough to show it.
func TestPostgresWireCutSweepCatchesPlantedFaults(t *testing.T) {
	t.Parallel()
	const noMatter = "$3::bigint > 0 and $4::text <> ''"
	for name, plant := range map[string]struct {
		ops     []string // each of which must notice
		ddl     string
		changes []change
	}{
		"a claim that looks and then inserts": {
			ops: []string{"claim by two", "Do"}, ddl: noKey,
			changes: []change{{
				"claim.insert", "on conflict do nothing",
				`and not exists (select from "fifty".keys e where e.scope = $1::text and e.key = $2::text)`,
			}},
		},
		"a completion of anybody's": {
			ops:     []string{"late complete"},
			changes: []change{{"complete", "token = $3::bigint and attempt = $4::text", noMatter}},
		},
		"a heartbeat of anybody's": {
			ops:     []string{"late heartbeat"},
			changes: []change{{"renew", "token = $3::bigint and attempt = $4::text", noMatter}},
		},
		"a step of anybody's": {
			ops:     []string{"late step"},
			changes: []change{{"step.save", "token = $3::bigint and attempt = $4::text", noMatter}},
		},
		"a takeover of whatever is there": {
			ops: []string{"takeover by two"},
			changes: []change{
				{"claim.take", "and token = $11::bigint and state = $12::bigint", "and $11::bigint > 0 and $12::bigint > 0"},
				{"claim.take", "and (state <> 1 or expires <= clock_timestamp())", ""},
			},
		},
		"tokens that stand still": {
			ops: []string{"DoSteps that takes over"}, changes: []change{{"claim.take", "token = token + 1", "token = token"}},
		},
		"answers that nothing keeps apart": {
			ops: []string{"InTx", "InTx of a host that dies"}, ddl: noKey, changes: []change{{"intx.lock", locked, notHeld}, {"intx.enter", locked, notHeld}},
		},
		"a decision about whatever is there": {
			ops: []string{"resolve"}, changes: []change{{"resolve", "(k.state = 3 or k.state = 1 and k.expires <= clock_timestamp())", "true"}},
		},
		"a sweep that forgets the tokens": {
			ops: []string{"sweep"}, changes: []change{{"sweep", "then setval('\"fifty\".token_floor', d.token)", "then d.token"}},
		},
	} {
		for _, op := range cutOps[pgx.Tx]() {
			for _, noticing := range plant.ops {
				if noticing != op.name {
					continue
				}
				t.Run(name+"/"+op.name, func(t *testing.T) {
					t.Parallel()
					_, err := op.sweep(t.Context(), newRig(t, overPgx, op.leaseOr(cutLease), plant.ddl, plant.changes...), faults.Zombie)
					if _, ok := errors.AsType[violation](err); !ok {
						t.Fatalf("it went unnoticed: %v", err)
					}
					t.Log(err)
				})
			}
		}
	}
}
