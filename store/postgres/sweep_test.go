package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/postgres"
	"github.com/fiftyhosts/fifty/txn"
)

// fill writes n records that came into their state two days ago.
func (b bundle) fill(tb testing.TB, prefix string, n int, state idempotency.State) {
	tb.Helper()
	b.exec(tb, `insert into fifty.keys (scope, key, fingerprint, state, token, attempt, owner, expires, created, changed, buried, body)
		select 'acme', $1 || i, $2, $3::smallint, 3, 'theirs', 'other', clock_timestamp(),
		       clock_timestamp() - interval '2 days' + i * interval '1 microsecond', clock_timestamp() - interval '2 days' + i * interval '1 microsecond',
		       case when $3::smallint = 5 then clock_timestamp() - interval '40 days' + i * interval '1 microsecond' end, 'an answer'
		from generate_series(1, $4) i`, prefix, []byte(request("k").Fingerprint), int(state), n)
}

func TestPostgresTwoHostsSweepAtOnceAndNoRecordCountsTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const answers, tombstones, frees = 600, 400, 200
	b.fill(t, "done", answers, idempotency.Done)
	b.fill(t, "buried", tombstones, idempotency.Tombstone)
	b.fill(t, "free", frees, idempotency.Free)
	b.fill(t, "unknown", 50, idempotency.Unknown)

	ctx, stop := context.WithCancel(t.Context())
	var sweeps, claims sync.WaitGroup
	var removed atomic.Int64
	for range 2 {
		s := postgres.New(newPool(t, b.url), postgres.Config{})
		sweeps.Go(func() {
			for n := 1; n > 0; {
				var err error
				if n, err = s.Keys().Sweep(t.Context(), day, 30*day, 40); err != nil {
					t.Error(err)
				}
				removed.Add(int64(n))
			}
		})
	}
	for host := range 2 {
		claims.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				for _, key := range []string{fmt.Sprint("new", host, "-", i), fmt.Sprint("done", i%answers+1), fmt.Sprint("buried", i%tombstones+1)} {
					if _, err := b.Keys().Claim(t.Context(), []idempotency.Attempt{attempt(key)}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	sweeps.Wait()
	stop()
	claims.Wait()
	// A key whose claim was there at that moment was skipped.
	for n := 1; n > 0; {
		n = b.sweep(t)
		removed.Add(int64(n))
	}
	if got := removed.Load(); got != answers+tombstones+frees {
		t.Errorf("removed %d, want %d", got, answers+tombstones+frees)
	}
	if n := one[int](t, b.pool, `select count(*) from fifty.keys where state = 3`); n != 50 {
		t.Errorf("%d unresolved keys are left", n)
	}
	const left = `select count(*) from fifty.keys where state = $1 and attempt = 'theirs'`
	for state, want := range map[idempotency.State]int{idempotency.Done: 0, idempotency.Free: 0, idempotency.Tombstone: answers} {
		if n := one[int](t, b.pool, left, int(state)); n != want {
			t.Errorf("%d are %v, want %d", n, state, want)
		}
	}
}

// The sweep stands still in the midst of its statement, as in a server process that is frozen: before it deletes a
// tombstone that it has found, or with the answers and free keys that it has locked.
func TestPostgresSweepThatStandsStillMakesNobodyWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change change
		finds  map[string]idempotency.State // by key, what a claim is told
	}{
		"before a tombstone": {
			change{"sweep", "))\n    returning k.token, k.buried", ")) and " + paused + " returning k.token, k.buried"},
			map[string]idempotency.State{"buried1": idempotency.Tombstone, "new": idempotency.InFlight},
		},
		"with answers and free keys": {
			change{"sweep", "where state = 4 and", "where state = 4 and case when " + keyLocked + " then " + paused + " end and"},
			map[string]idempotency.State{"done1": idempotency.Done, "free1": idempotency.InFlight, "new": idempotency.InFlight},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			// In this order: it locks the older one, then pauses at the free one.
			for _, of := range []struct {
				prefix string
				state  idempotency.State
			}{{"done", idempotency.Done}, {"buried", idempotency.Tombstone}, {"free", idempotency.Free}} {
				if _, ok := c.finds[of.prefix+"1"]; ok {
					b.fill(t, of.prefix, 1, of.state)
				}
			}
			live := claim(t, b.Keys(), attempt("live"))
			resume := b.pause(t)
			slow := b.Break(breaking(t, []change{c.change}))
			swept := later(func() (int, error) { return slow.Keys().Sweep(t.Context(), day, 30*day, 10) })
			b.untilBlocked(t, 1)

			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			ask := func(key string) idempotency.Record {
				all, err := b.Keys().Claim(ctx, []idempotency.Attempt{attempt(key)})
				if err != nil {
					t.Fatalf("%q: %v", key, err)
				}
				return all[0].Record
			}
			for key, want := range c.finds {
				if got := ask(key); got.State != want {
					t.Errorf("%q: %+v, want %v", key, got, want)
				}
			}
			if err := complete(t, b.Keys(), lateDone(live)); err != nil {
				t.Error(err)
			}
			if n := b.sweep(t); n != 0 {
				t.Errorf("another sweep took %d records that the first has", n)
			}
			resume()
			if n, err := swept(); n != len(c.finds)-1 || err != nil {
				t.Errorf("swept %d, %v", n, err)
			}
			if _, ok := c.finds["free1"]; !ok {
				return
			}
			if got := ask("free1"); got.State != idempotency.InFlight || got.Token != 4 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// keyLocked takes the lock of a free key, once more than the sweep does.
var keyLocked = "pg_try_advisory_xact_lock(" + postgres.LockNumberSQL("fifty") + ")"

// What a claim waits for at most is one statement of the sweep, which is sent together with its COMMIT.
func TestPostgresSweepHoldsNothingBetweenTwoMessages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(t, "done", 10, idempotency.Done)
	s, seen := b.watched()
	n, err := s.Keys().Sweep(t.Context(), day, 30*day, 10)
	if n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	seen.were(t, "it", "begin+sweep.enter", "sweep+commit")
}

// Over database/sql they are two messages. A host that stops between them is in nobody's way for long.
func TestPostgresHostThatStopsInASweepIsEndedByTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(t, "done", 1, idempotency.Done)
	frozen := postgres.NewDB(newDB(t, b.url), postgres.Config{IdleMax: 50 * time.Millisecond})
	stopped := false
	frozen.SetHook(once("commit", func() {
		stopped = true
		if dup := claim(t, b.Keys(), attempt("done1")); dup.Won || string(dup.Record.Response.Body) != "an answer" {
			t.Errorf("%+v", dup)
		}
	}))
	for tries := 100; !stopped; tries-- { // a busy machine may be silent for as long before it comes to COMMIT
		if _, err := frozen.Keys().Sweep(t.Context(), day, 30*day, 10); err == nil {
			t.Fatal("it swept")
		}
		if tries == 0 {
			t.Fatal("it never came to COMMIT")
		}
	}
}

// Nobody works on a tombstone, but an operator may look at one for long, with its row locked.
func TestPostgresSweepPassesOverATombstoneThatSomebodyHasLocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(t, "buried", 5, idempotency.Tombstone)
	s, seen := b.watched()
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `select from fifty.keys where key = 'buried3' for update`); err != nil {
			return err
		}
		if n, err := s.Keys().Sweep(ctx, day, 30*day, 10); n != 4 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
		seen.were(t, "it", "begin+sweep.enter", "sweep+commit", "begin+sweep.enter", "sweep.around+commit")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := b.sweep(t); n != 1 {
		t.Errorf("then it swept %d", n)
	}
	if got := claim(t, b.Keys(), attempt("buried3")); got.Record.Token != 4 {
		t.Errorf("%+v", got)
	}
}

// Each free key that is removed has a place in the server's table of locks, so a statement takes some of them only.
func TestPostgresSweepOfManyFreeKeysTakesMoreStatementsThanOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(t, "free", 1100, idempotency.Free)
	s, seen := b.watched()
	n, err := s.Keys().Sweep(t.Context(), day, 30*day, 5000)
	if n != 1100 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	statement := []string{"begin+sweep.enter", "sweep+commit"}
	seen.were(t, "it", slices.Concat(statement, statement, statement)...) // the third looks before the mark
}

// A key whose owner comes back between the sweep's snapshot and its lock keeps its steps with its answer.
func TestPostgresSweepNeverTakesAKeyWithoutItsSteps(t *testing.T) {
	t.Parallel()
	b := setup(t)
	won := claim(t, b.Keys(), resumable("k"))
	resume := b.pause(t)
	slow := b.Break(breaking(t, []change{{"sweep", "and (k.state = 2", "and " + paused + " and (k.state = 2"}, {"sweep", "select pg_try_advisory_xact_lock(50,", "select " + paused + " and pg_try_advisory_xact_lock(50,"}}))
	swept := later(func() (int, error) { return slow.Keys().Sweep(t.Context(), 0, 0, 10) })
	b.untilBlocked(t, 1)
	saveStep(t, b.Keys(), won, "charge")
	if err := complete(t, b.Keys(), idempotency.Completion{Claim: claimOf(won.Record), State: idempotency.Free}); err != nil {
		t.Fatal(err)
	}
	resume()
	if _, err := swept(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the record, then nothing
		if _, err := b.Keys().Sweep(t.Context(), 0, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, b.pool, `select count(*) from fifty.steps`); n != 0 {
		t.Errorf("%d steps have no key", n)
	}
}

func TestPostgresSweepFindsWhatLiesBeforeItsMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sweepOne := func() {
		t.Helper()
		if n, err := b.Keys().Sweep(t.Context(), day, 30*day, 1); n != 1 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
	}
	for _, state := range []idempotency.State{idempotency.Done, idempotency.Tombstone} {
		b.fill(t, fmt.Sprint(state, " a"), 1, state)
		sweepOne()
		b.fill(t, fmt.Sprint(state, " b"), 1, state)
		b.age(t, fmt.Sprint(state, " b1"), "1 day")
		sweepOne()
	}
}

func TestPostgresSweepGoesThroughItsIndexes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec(t, `vacuum analyze fifty.keys, fifty.steps`)
	empty := b.plan(t, b.Text("sweep"), day.Microseconds(), 30*day.Microseconds(), int64(500), nil, nil)
	b.fill(t, "done", 5000, idempotency.Done)
	b.fill(t, "buried", 5000, idempotency.Tombstone)
	b.fill(t, "unknown", 5000, idempotency.Unknown)
	full := b.plan(t, b.Text("sweep"), day.Microseconds(), 30*day.Microseconds(), int64(500), nil, nil)
	erasing := b.plan(t, b.Text("erase"), "acme", int64(500), "")
	for _, want := range []string{"Index Scan using keys_buried on keys", "Index Scan using keys_created on keys", "Tid Scan on keys", "Index Scan using steps_pkey on steps"} {
		if !strings.Contains(empty, want) || !strings.Contains(full, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, want := range []string{"Index Scan using keys_pkey on keys", "Tid Scan on keys"} {
		if !strings.Contains(erasing, want) {
			t.Errorf("no %q in an erasure", want)
		}
	}
	for _, not := range []string{"Seq Scan on keys", "Seq Scan on steps", "Sort", "Bitmap"} {
		if strings.Contains(empty+full+erasing, not) {
			t.Errorf("there is a %s", not)
		}
	}
	if t.Failed() {
		t.Logf("empty:\n%s\n\nfull:\n%s\n\nan erasure:\n%s", empty, full, erasing)
	}
}

// plan is how a statement runs under the settings of a sweep.
func (b bundle) plan(tb testing.TB, sql string, args ...any) string {
	tb.Helper()
	tx, err := b.pool.Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer tx.Rollback(context.Background()) //nolint:errcheck // it changes nothing
	if _, err := tx.Exec(tb.Context(), b.Text("sweep.enter"), "5000"); err != nil {
		tb.Fatal(err)
	}
	rows, err := tx.Query(tb.Context(), "explain "+sql, append([]any{pgx.QueryExecModeExec}, args...)...)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// A claim, its renewals and its completion are one entry in each index: the rest finds room beside the row.
func TestPostgresLifeOfAClaimTouchesNoIndexAfterTheInsert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	err := b.Txns().Transact(t.Context(), txn.Options{}, func(ctx context.Context, tx pgx.Tx) error {
		for i := range 20 {
			won, err := b.Keys().ClaimTx(ctx, tx, attempt(fmt.Sprint(i)))
			if err != nil {
				return err
			}
			c := claimOf(won.Record)
			if _, err := tx.Exec(ctx, b.Text("renew"), c.Scope, c.Key, c.Token, c.Attempt, 1_000_000); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, b.Text("step.save"), c.Scope, c.Key, c.Token, c.Attempt, "charge", true, nil); err != nil {
				return err
			}
			if err := b.Keys().CompleteTx(ctx, tx, lateDone(won)); err != nil {
				return err
			}
		}
		var updated, hot int
		err := tx.QueryRow(ctx, `select pg_stat_get_xact_tuples_updated('fifty.keys'::regclass), pg_stat_get_xact_tuples_hot_updated('fifty.keys'::regclass)`).Scan(&updated, &hot)
		if updated != 60 || hot != updated {
			t.Errorf("%d of %d updates touched no index", hot, updated)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
