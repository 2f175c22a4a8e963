package main

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// How many records the tables of a case have.
const (
	fewRecords       = 10_000
	manyRecords      = 5_000_000
	manyRecordsRough = 200_000
	grownRecords     = 1_000_000
	grownRough       = 100_000
)

var postgresScaleCases = []Case{
	{
		Name: "postgres-claim-5-million",
		Goal: atMost(1.5),
		What: "One client claims new keys. Ours: a table with 5 million answers. Theirs: one with 10,000.",
		Run:  claimAmongMany,
	},
	{
		Name: "postgres-plans-of-an-empty-table",
		Goal: atMost(1.5),
		What: "One client works on a new key and asks for an old one, in a table with a million answers without statistics. Ours: on connections that made their plans while it was empty. Theirs: on a table with statistics, by connections made then.",
		Run:  plansOfAnEmptyTable,
	},
}

func claimAmongMany(ctx context.Context, b *bench) (float64, error) {
	n := manyRecords
	if b.Rough {
		n = manyRecordsRough
	}
	many, err := filled(ctx, b, n)
	if err != nil {
		return 0, err
	}
	few, err := filled(ctx, b, fewRecords)
	if err != nil {
		return 0, err
	}
	r, err := latency(ctx, b,
		Side{Name: "among many", Op: op(many.claim)},
		Side{Name: "among few", Op: op(few.claim)})
	return r.Median, err
}

func filled(ctx context.Context, b *bench, n int) (*pgWorld, error) {
	w, err := newPgWorld(ctx, b)
	if err != nil {
		return nil, err
	}
	return w, w.fill(ctx, b, answersFill, n)
}

// claim claims a new key.
func (w *pgWorld) claim(ctx context.Context) error {
	a := idempotency.Attempt{ID: rand.Text(), Request: benchRequest(rand.Text() + "-new"), Owner: handOwner, Lease: 30 * time.Second}
	_, err := w.store.Keys().Claim(ctx, []idempotency.Attempt{a})
	return err
}

func plansOfAnEmptyTable(ctx context.Context, b *bench) (float64, error) {
	n := grownRecords
	if b.Rough {
		n = grownRough
	}
	old, err := newPgWorld(ctx, b)
	if err != nil {
		return 0, err
	}
	// Statistics of a table with nothing in it, and none from now on.
	for _, sql := range []string{
		`alter table fifty.keys set (autovacuum_enabled = off)`, `alter table fifty.steps set (autovacuum_enabled = off)`, `vacuum analyze`,
	} {
		if _, err := old.pool.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	for range 100 { // of each connection at least six
		if err := old.workAndAskAgain(ctx); err != nil {
			return 0, err
		}
	}
	b.progress("filling the table behind the plans")
	if _, err := old.pool.Exec(ctx, answersFill, benchScope, []byte(benchPrint), handOwner, n); err != nil {
		return 0, err
	}
	fresh, err := filled(ctx, b, n)
	if err != nil {
		return 0, err
	}
	r, err := latency(ctx, b,
		Side{Name: "old plans", Op: op(old.workAndAskAgain)},
		Side{Name: "new plans", Op: op(fresh.workAndAskAgain)})
	return r.Median, err
}

// workAndAskAgain does what a request does: a claim and a completion, and a duplicate that another host gets.
func (w *pgWorld) workAndAskAgain(ctx context.Context) error {
	key := w.key()
	for range 2 {
		keys := idempotency.New(unseen{w.store.Keys()}, idempotency.Config{Owner: handOwner})
		_, err := keys.Do(ctx, benchRequest(key), func(context.Context) (idempotency.Response, error) { return orderAnswer(1), nil })
		if err != nil {
			return err
		}
	}
	_, err := w.store.Keys().Find(ctx, benchScope, key)
	return err
}
