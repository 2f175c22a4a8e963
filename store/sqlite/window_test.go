package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/sqlite"
)

// window is that of the time-ordered keys of these tests.
const window = 24 * time.Hour

// timed is an attempt on a key that was made at some time.
func timed(id, key string, made time.Time) idempotency.Attempt {
	a := attempt(id, key)
	a.Made, a.Window = made, window
	return a
}

// arrivals are the three ways in which a key is claimed.
func arrivals(t *testing.T, s *sqlite.Store) map[string]func(a idempotency.Attempt) idempotency.Claimed {
	t.Helper()
	keys, ctx := s.Keys(), t.Context()
	none := func(context.Context, *sql.Tx) (idempotency.Response, error) {
		return idempotency.Response{Status: 201}, nil
	}
	return map[string]func(a idempotency.Attempt) idempotency.Claimed{
		"Claim": func(a idempotency.Attempt) idempotency.Claimed {
			all, err := keys.Claim(ctx, []idempotency.Attempt{a})
			if err != nil {
				t.Fatal(err)
			}
			return all[0]
		},
		"InTx": func(a idempotency.Attempt) idempotency.Claimed {
			got, err := keys.InTx(ctx, a, none)
			if err != nil {
				t.Fatal(err)
			}
			return got
		},
		"ClaimTx": func(a idempotency.Attempt) idempotency.Claimed {
			tx, err := s.DB().BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := keys.ClaimTx(ctx, tx, a)
			if err = errors.Join(err, tx.Commit()); err != nil {
				t.Fatal(err)
			}
			return got
		},
	}
}

func TestSQLiteAKeyOutsideOfItsWindowIsRefusedAndLeavesNothing(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	for way, arrive := range arrivals(t, s) {
		for _, c := range []struct {
			key  string
			made time.Duration // from now
			is   error
		}{
			{"too old", -window, idempotency.ErrExpired}, // a sweep may be about to remove its tombstone
			{"just in time", -window + time.Millisecond, nil},
			{"a little ahead", 5 * time.Minute, nil},
			{"too far ahead", 5*time.Minute + time.Millisecond, fifty.ErrInvalid},
		} {
			got := arrive(timed("a1", way+c.key, clock.Now().Add(c.made)))
			if got.Won != (c.is == nil) || !errors.Is(got.Err, c.is) {
				t.Errorf("%s, %s: %+v", way, c.key, got)
			}
			if c.is != nil {
				gone(t, s, way+c.key)
			}
		}
	}
}

func TestSQLiteTheWindowIsForNewAndFreeKeysOnly(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	made := clock.Now()
	free := win(t, s, timed("a1", "free", made))
	if err := complete(t, s, free, idempotency.Free, idempotency.Response{}); err != nil {
		t.Fatal(err)
	}
	done := win(t, s, timed("a1", "done", made))
	if err := complete(t, s, done, idempotency.Done, idempotency.Response{Status: 201}); err != nil {
		t.Fatal(err)
	}
	resumed := timed("a1", "resumed", made)
	resumed.Resume = true
	win(t, s, resumed)
	clock.Add(2 * window)
	for way, arrive := range arrivals(t, s) {
		if got := arrive(timed("a2", "free", made)); got.Won || !errors.Is(got.Err, idempotency.ErrExpired) {
			t.Errorf("%s: a free key: %+v", way, got)
		}
		if rec := find(t, s, "free"); rec.State != idempotency.Free || rec.Token != free.Token {
			t.Errorf("%s: the free key is %+v", way, rec)
		}
		if got := arrive(timed("a2", "done", made)); got.Won || got.Err != nil || got.Record.Response.Status != 201 {
			t.Errorf("%s: a key with an answer: %+v", way, got)
		}
	}
	resumed.ID = "a2"
	if got := claim(t, s, resumed); !got.Won {
		t.Errorf("work that was begun in the window is not resumed: %+v", got)
	}
}

func TestSQLiteARefusedKeyOfABatchLeavesTheOthers(t *testing.T) {
	clock := newHostClock()
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now})
	got, err := s.Keys().Claim(t.Context(), []idempotency.Attempt{
		attempt("a1", "first"), timed("a2", "old", clock.Now().Add(-2*window)), attempt("a3", "last"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !got[0].Won || !errors.Is(got[1].Err, idempotency.ErrExpired) || !got[2].Won {
		t.Fatalf("got %+v", got)
	}
}

func TestSQLiteAWindowThatHasEndedStaysSoWhenTheHostsClockIsSetBack(t *testing.T) {
	for _, way := range []string{"Claim", "InTx", "ClaimTx"} {
		path, clock := newFile(t), newHostClock()
		s := open(t, path, sqlite.Config{Now: clock.Now})
		a := timed("a1", "k", clock.Now())
		clock.Add(window + time.Second) // right or wrong, this is what the clock says
		if got := arrivals(t, s)[way](a); !errors.Is(got.Err, idempotency.ErrExpired) {
			t.Fatalf("%s got %+v", way, got)
		}
		clock.Add(-window)
		for what, store := range map[string]*sqlite.Store{
			"the same store":  s,
			"one opened anew": open(t, path, sqlite.Config{Now: clock.Now}),
		} {
			if got := claimAnyway(t, store, a); !errors.Is(got.Err, idempotency.ErrExpired) {
				t.Errorf("%s, then %s: its client was told that it has expired, and now it got %+v", way, what, got)
			}
		}
	}
}

func TestSQLiteAWindowGoesByTheFilesTimeNotTheHosts(t *testing.T) {
	path, ahead, behind := newFile(t), newHostClock(), newHostClock()
	a, b := open(t, path, sqlite.Config{Now: ahead.Now}), open(t, path, sqlite.Config{Now: behind.Now})
	made := behind.Now()
	ahead.Add(2 * window)
	win(t, a, attempt("a1", "other")) // the file's time is that of the host ahead
	if got := claimAnyway(t, b, timed("a1", "old", made)); !errors.Is(got.Err, idempotency.ErrExpired) {
		t.Errorf("the host behind accepts what the file's time refuses: %+v", got)
	}
	if got := claimAnyway(t, b, timed("a1", "new", ahead.Now())); !got.Won {
		t.Errorf("the host behind refuses what the file's time accepts: %+v", got)
	}
}

func TestSQLiteRefusingAKeyAgainWritesNothing(t *testing.T) {
	clock := newHostClock()
	var writes atomic.Int32
	s := open(t, newFile(t), sqlite.Config{Now: clock.Now}.WithHook(func(_ context.Context, point string) {
		if strings.HasSuffix(point, ".advance") {
			writes.Add(1)
		}
	}))
	made := clock.Now()
	clock.Add(2 * window)
	for range 3 {
		clock.Add(time.Second)
		claimAnyway(t, s, timed("a1", "k", made))
		claimAnyway(t, s, timed("a1", "older", made.Add(-time.Hour)))
	}
	if n := writes.Load(); n != 1 {
		t.Errorf("the time was written %d times, and once is enough", n)
	}
}

// claimAnyway claims, and the answer may be an error.
func claimAnyway(tb testing.TB, s *sqlite.Store, a idempotency.Attempt) idempotency.Claimed {
	tb.Helper()
	all, err := s.Keys().Claim(tb.Context(), []idempotency.Attempt{a})
	if err != nil {
		tb.Fatal(err)
	}
	return all[0]
}
