package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// How many records are swept, and how many clients claim meanwhile.
const (
	sweptRecords      = 1_000_000
	sweptRecordsRough = 50_000
	sweepClients      = 4
	claimsAlone       = 5 * time.Second
)

var postgresSweepCases = []Case{
	{
		Name: "postgres-sweep-time",
		Goal: atMost(3),
		What: "A million expired records are removed while 4 clients claim and complete. Ours: Sweep. Theirs: one bare DELETE.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return sweeping(ctx, b, sweptTime) },
	},
	{
		Name: "postgres-sweep-claims",
		Goal: atLeast(0.8),
		What: "4 clients claim and complete. Ours: while Sweep removes a million expired records. Theirs: with nothing else going on.",
		Run:  func(ctx context.Context, b *bench) (float64, error) { return sweeping(ctx, b, sweptClaims) },
	},
}

const bareDelete = `delete from fifty.keys where buried <= clock_timestamp() - interval '30 days'`

// beside is how long something took, and what the claims beside it came to.
type beside struct {
	took   time.Duration
	claims float64 // per second
}

type sweepFigures struct {
	before, sweep, after beside // in one table: claims alone, beside the sweep, and alone again
	bare                 beside // beside the DELETE, in another
	bareAlone            beside // the DELETE with nothing beside it, in a third
}

func sweptTime(f sweepFigures) float64 { return f.sweep.took.Seconds() / f.bare.took.Seconds() }

func sweptClaims(f sweepFigures) float64 {
	return 2 * f.sweep.claims / (f.before.claims + f.after.claims)
}

func sweeping(ctx context.Context, b *bench, figure func(sweepFigures) float64) (float64, error) {
	b.Explain("The bare DELETE, in a table that was filled alike and has the same claims beside it:\n%s", bareDelete)
	n, alone := sweptRecords, claimsAlone
	if b.Rough {
		n, alone = sweptRecordsRough, claimsAlone/5
	}
	pause := func(ctx context.Context, _ *pgWorld) error {
		select {
		case <-time.After(alone):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sweep := func(ctx context.Context, w *pgWorld) error {
		removed, err := w.keys.Sweep(ctx)
		if err == nil && removed < n {
			err = fmt.Errorf("swept %d of %d", removed, n)
		}
		return err
	}
	bare := func(ctx context.Context, w *pgWorld) error {
		tag, err := w.pool.Exec(ctx, bareDelete)
		if err == nil && tag.RowsAffected() < int64(n) {
			err = fmt.Errorf("deleted %d of %d", tag.RowsAffected(), n)
		}
		return err
	}
	var f sweepFigures
	for _, part := range []struct {
		clients int
		what    []func(context.Context, *pgWorld) error
		into    []*beside
	}{
		{sweepClients, []func(context.Context, *pgWorld) error{pause, sweep, pause}, []*beside{&f.before, &f.sweep, &f.after}},
		{sweepClients, []func(context.Context, *pgWorld) error{pause, bare}, []*beside{new(beside), &f.bare}},
		{0, []func(context.Context, *pgWorld) error{bare}, []*beside{&f.bareAlone}},
	} {
		w, err := newPgWorld(ctx, b)
		if err != nil {
			return 0, err
		}
		if err := w.fill(ctx, b, tombstonesFill, n); err != nil {
			return 0, err
		}
		for i, what := range part.what {
			if *part.into[i], err = w.beside(ctx, part.clients, what); err != nil {
				return 0, err
			}
		}
	}
	b.Note("sweep %.1fs with %s claims/s beside it (%s and %s alone)", f.sweep.took.Seconds(), count(f.sweep.claims), count(f.before.claims), count(f.after.claims))
	b.Note("DELETE %.1fs with %s claims/s beside it, %.1fs alone", f.bare.took.Seconds(), count(f.bare.claims), f.bareAlone.took.Seconds())
	return figure(f), nil
}

// beside does what while clients work on new keys.
func (w *pgWorld) beside(ctx context.Context, clients int, what func(context.Context, *pgWorld) error) (beside, error) {
	claiming, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		all.Go(func() {
			for claiming.Err() == nil {
				_, err := w.keys.Do(context.WithoutCancel(claiming), benchRequest(w.key()), func(context.Context) (idempotency.Response, error) { return orderAnswer(1), nil })
				if err != nil {
					errs <- err
					stop()
					return
				}
				done.Add(1)
			}
		})
	}
	began := time.Now()
	err := what(ctx, w)
	took := time.Since(began)
	got := beside{took, float64(done.Load()) / took.Seconds()}
	stop()
	all.Wait()
	close(errs)
	for e := range errs {
		err = e
	}
	return got, err
}
