package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// sweepSliceMax bounds a sweep beside claims. What is left by then is reckoned with, at the pace so far.
const sweepSliceMax = 45 * time.Second

// sqliteSweepCases share one measurement.
func sqliteSweepCases() []Case {
	var once sync.Once
	var f sqliteSweep
	var err error
	figure := func(pick func(sqliteSweep) float64) func(ctx context.Context, b *bench) (float64, error) {
		return func(ctx context.Context, b *bench) (float64, error) {
			b.Explain("The bare DELETE, alone in a copy of the file, through a connection of the same settings. It holds the file's only writer\nuntil it is done, so beside it there would be no claims at all.\n%s", bareDeleteSQLite)
			once.Do(func() { f, err = sqliteSweeping(ctx, b) })
			if err != nil {
				return 0, err
			}
			f.note(b)
			return pick(f), nil
		}
	}
	return []Case{
		{
			Name: "sqlite-sweep-claims",
			Goal: atLeast(0.8),
			What: "4 clients claim and complete. Ours: while Sweep removes a million expired records. Theirs: with nothing else going on.",
			Run:  figure(func(f sqliteSweep) float64 { return 2 * f.sweep.claims / (f.before.claims + f.after.claims) }),
		},
		{
			Name: "sqlite-sweep-time-beside-claims",
			Goal: noGoal(),
			What: "A million expired records are removed. Ours: Sweep, while 4 clients claim and complete. Theirs: one bare DELETE.",
			Run:  figure(func(f sqliteSweep) float64 { return f.sweep.took.Seconds() / f.bare.Seconds() }),
		},
		{
			Name: "sqlite-sweep-time",
			Goal: atMost(3),
			What: "The same with nobody beside the sweep: it gives way to claims, and a file has one writer.",
			Run:  figure(func(f sqliteSweep) float64 { return f.idle.Seconds() / f.bare.Seconds() }),
		},
	}
}

const bareDeleteSQLite = `DELETE FROM fifty_keys WHERE state = 5 AND changed <= ?1 AND state IN (2, 4, 5)`

type sqliteSweep struct {
	before, sweep, after beside        // in one file: claims alone, beside the sweep, and alone again
	swept                int           // of the records, before time was up
	idle                 time.Duration // the sweep with nothing beside it, in another
	bare                 time.Duration // the DELETE, in a third
}

func (f sqliteSweep) note(b *bench) {
	b.Note("sweep %.1fs with %s claims/s beside it (%s and %s alone), %.1fs alone", f.sweep.took.Seconds(), count(f.sweep.claims), count(f.before.claims), count(f.after.claims), f.idle.Seconds())
	b.Note("DELETE %.1fs", f.bare.Seconds())
}

func sqliteSweeping(ctx context.Context, b *bench) (f sqliteSweep, err error) {
	folder, err := tempFolder(b)
	if err != nil {
		return f, err
	}
	n, alone := sweptRecords, claimsAlone
	if b.Rough {
		n, alone = sweptRecordsRough, claimsAlone/5
	}
	claimed := filepath.Join(folder, "claimed.db")
	file := sqliteFile{n, sqliteRandom, idempotency.Tombstone, time.Now().Add(-90 * 24 * time.Hour)}
	if err := file.write(ctx, b, claimed); err != nil {
		return f, err
	}
	idle, err := copyFile(claimed, folder, "idle.db")
	if err != nil {
		return f, err
	}
	bare, err := copyFile(claimed, folder, "bare.db")
	if err != nil {
		return f, err
	}
	if f.bare, err = deleteBarely(ctx, b, bare, n); err != nil {
		return f, err
	}
	b.progress("DELETE %.1fs", f.bare.Seconds())
	if f.idle, err = sweepAll(ctx, b, idle, n); err != nil {
		return f, err
	}
	b.progress("Sweep alone %.1fs", f.idle.Seconds())
	return f, f.besideClaims(ctx, b, claimed, n, alone)
}

// besideClaims measures claims alone, beside a sweep, and alone again.
func (f *sqliteSweep) besideClaims(ctx context.Context, b *bench, path string, n int, alone time.Duration) error {
	s, err := openSQLite(ctx, b, path)
	if err != nil {
		return err
	}
	keys := idempotency.New(s.Keys(), idempotency.Config{Owner: handOwner})
	wait := func(ctx context.Context) error {
		select {
		case <-time.After(alone):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	sweep := func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, sweepSliceMax)
		defer cancel()
		removed, err := keys.Sweep(limited)
		f.swept = removed
		switch {
		case ctx.Err() == nil && limited.Err() != nil:
			return nil
		case err == nil && removed < n:
			return fmt.Errorf("swept %d of %d", removed, n)
		}
		return err
	}
	for _, part := range []struct {
		what func(ctx context.Context) error
		into *beside
	}{{wait, &f.before}, {sweep, &f.sweep}, {wait, &f.after}} {
		if *part.into, err = besideSQLite(ctx, keys, part.what); err != nil {
			return err
		}
	}
	if f.swept < n {
		b.progress("swept %s of %s in %.0fs", count(float64(f.swept)), count(float64(n)), f.sweep.took.Seconds())
		f.sweep.took = time.Duration(float64(f.sweep.took) * float64(n) / float64(max(f.swept, 1)))
	}
	return nil
}

// besideSQLite does what while clients work on new keys.
func besideSQLite(ctx context.Context, keys *idempotency.Keys, what func(ctx context.Context) error) (beside, error) {
	claiming, stop := context.WithCancel(ctx)
	defer stop()
	var done atomic.Int64
	errs := make(chan error, sweepClients)
	var all sync.WaitGroup
	for range sweepClients {
		all.Go(func() {
			for claiming.Err() == nil {
				_, err := keys.Do(context.WithoutCancel(claiming), benchRequest(randomKey()), func(context.Context) (idempotency.Response, error) { return orderAnswer(1), nil })
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
	err := what(claiming)
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

// sweepAll sweeps a file that nobody else uses.
func sweepAll(ctx context.Context, b *bench, path string, n int) (time.Duration, error) {
	s, err := openSQLite(ctx, b, path)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	removed, err := idempotency.New(s.Keys(), idempotency.Config{}).Sweep(ctx)
	if err == nil && removed != n {
		err = fmt.Errorf("swept %d of %d", removed, n)
	}
	return time.Since(began), err
}

func deleteBarely(ctx context.Context, b *bench, path string, n int) (time.Duration, error) {
	s, err := openSQLite(ctx, b, path)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	r, err := s.DB().ExecContext(ctx, bareDeleteSQLite, time.Now().UnixMicro())
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	removed, err := r.RowsAffected()
	if err == nil && removed != int64(n) {
		err = fmt.Errorf("deleted %d of %d", removed, n)
	}
	return took, err
}
