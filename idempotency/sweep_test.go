package idempotency_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

const day = 24 * time.Hour

func TestKeyIsAnsweredThenRefusedThenForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Retention: day, Tombstone: 30 * day})
		ask := func() (idempotency.Result, error) {
			return keys.Do(t.Context(), request("k"), answering(created("ch_1")))
		}
		sweep := func(want int) {
			t.Helper()
			if n, err := keys.Sweep(t.Context()); n != want || err != nil {
				t.Fatalf("swept %d, %v; want %d", n, err, want)
			}
		}
		if _, err := ask(); err != nil {
			t.Fatal(err)
		}
		pass(day - time.Second)
		sweep(0)
		if res, err := ask(); err != nil || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
		pass(time.Second)
		sweep(1)
		_, err := ask()
		wantIs(t, err, idempotency.ErrExpired)
		pass(29*day - time.Second)
		sweep(0)
		_, err = ask()
		wantIs(t, err, idempotency.ErrExpired)
		pass(time.Second)
		sweep(1)
		if res, err := ask(); err != nil || res.Replayed {
			t.Fatalf("an opaque key is new after its tombstone: %+v, %v", res, err)
		}
	})
}

func TestSweepNeverTouchesWhatIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{})
		_, err := keys.Do(t.Context(), request("unknown"), func(context.Context) (idempotency.Response, error) {
			return idempotency.Response{}, errDown
		})
		wantIs(t, err, idempotency.ErrUnresolved)
		vanished := idempotency.Attempt{ID: "a", Request: request("vanished"), Lease: time.Second}
		if _, err := store.Claim(t.Context(), []idempotency.Attempt{vanished}); err != nil {
			t.Fatal(err)
		}
		pass(365 * day)
		if n, err := keys.Sweep(t.Context()); n != 0 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
		for _, key := range []string{"unknown", "vanished"} {
			_, err := keys.Do(t.Context(), request(key), mustNotRun(t))
			wantIs(t, err, idempotency.ErrUnresolved)
		}
	})
}

func TestTokenOutlivesItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{})
		token := func() (got int64) {
			_, err := keys.Do(t.Context(), request("k"), func(ctx context.Context) (idempotency.Response, error) {
				got, _ = idempotency.TokenFrom(ctx)
				return idempotency.Response{}, idempotency.NotDone(errDown)
			})
			wantIs(t, err, errDown)
			return got
		}
		token()
		before := token()
		pass(day)
		if n, err := keys.Sweep(t.Context()); n != 1 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
		if after := token(); after <= before {
			t.Fatalf("token %d after %d", after, before)
		}
	})
}

func TestTimeOrderedKeyOutsideTheWindowIsRefusedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Retention: day, Tombstone: 30 * day})
		now := time.Now()
		do := func(key string) error {
			_, err := keys.Do(t.Context(), request(key), answering(created("ch")))
			return err
		}
		if err := do(uuidAt(now.Add(-30*day + time.Millisecond))); err != nil {
			t.Fatalf("just within the window: %v", err)
		}
		wantIs(t, do(uuidAt(now.Add(-30*day))), idempotency.ErrExpired) // a sweep may remove its tombstone now
		if err := do(uuidAt(now.Add(5 * time.Minute))); err != nil {
			t.Fatalf("a client's clock that is a little ahead: %v", err)
		}
		wantIs(t, do(uuidAt(now.Add(5*time.Minute+time.Millisecond))), fifty.ErrInvalid)

		// Its tombstone is removed, and still it is not new.
		key := uuidAt(now)
		if err := do(key); err != nil {
			t.Fatal(err)
		}
		for range 62 {
			pass(day)
			if _, err := keys.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := keys.Find(t.Context(), "acme", key); !errors.Is(err, idempotency.ErrNotFound) {
			t.Fatalf("its record is still there: %v", err)
		}
		wantIs(t, do(key), idempotency.ErrExpired)
	})
}

func TestTombstoneOfAKeyFromAFastClockStaysUntilTheWindowCoversIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Retention: day, Tombstone: day})
		key := uuidAt(time.Now().Add(4 * time.Minute))
		run := func() error {
			_, err := keys.Do(t.Context(), request(key), answering(created("ch")))
			return err
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
		pass(day + time.Minute)
		for range 2 {
			if _, err := keys.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		wantIs(t, run(), idempotency.ErrExpired)
	})
}

// uuidAt is a UUIDv7 of that time.
func uuidAt(at time.Time) string {
	ms := fmt.Sprintf("%012x", at.UnixMilli())
	return ms[:8] + "-" + ms[8:] + "-7abc-8def-0123456789ab"
}

func TestMadeReadsTimeOrderedKeysAndNoOthers(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	for key, want := range map[string]bool{
		uuidAt(at):                             true,
		"01HF7YAT3V0000000000000000":           true, // a ULID of that time
		"01hf7yat3v0000000000000000":           true,
		"018bcfe5-687b-4abc-8def-0123456789ab": false, // version 4
		"018bcfe5-687b-7abc-cdef-0123456789ab": false, // another variant
		"018bcfe5x687b-7abc-8def-0123456789ab": false,
		"018bcfe5-687b-7abc-8def-0123456789az": false,
		"81HF7YAT3V0000000000000000":           false, // more than 128 bits
		"01HF7YAT3VU000000000000000":           false, // no U in the alphabet
		"00HF7YAT3V0000000000000000":           false, // a ULID of 1987
		"7QX4RTNB2VHZCMJ6SAWE5PGKYD":           false, // random text, and would be of the year 10579
		"order-7/payment":                      false,
		"":                                     false,
	} {
		got, ok := idempotency.Made(key)
		if ok != want || (ok && !got.Equal(at)) {
			t.Errorf("%q: %v, %v", key, got, ok)
		}
	}
}

// TestRandomTextIsNoTimeOrderedKey: about one of 150 reads as a ULID, and would be refused for its time.
func TestRandomTextIsNoTimeOrderedKey(t *testing.T) {
	for range 10_000 {
		if key := rand.Text(); !isOpaque(key) {
			t.Fatalf("%q was taken for a key that carries a time", key)
		}
	}
}

func isOpaque(key string) bool { _, ok := idempotency.Made(key); return !ok }

func TestSweepReportsWhatItDidBeforeAnError(t *testing.T) {
	var events []string
	store := &sweepFails{newFaulty()}
	keys := idempotency.New(store, idempotency.Config{Observer: fifty.ObserverFunc(func(_ context.Context, e fifty.Event) {
		events = append(events, e.Name)
	})})
	n, err := keys.Sweep(t.Context())
	if n != 500 || !errors.Is(err, errDown) || len(events) != 1 || events[0] != "idempotency.sweep_failed" {
		t.Fatalf("%d, %v, %q", n, err, events)
	}
}

// sweepFails sweeps one full batch and then fails.
type sweepFails struct{ *faulty }

func (s *sweepFails) Sweep(_ context.Context, _, _ time.Duration, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls["sweep"]++; s.calls["sweep"] == 1 {
		return limit, nil
	}
	return 0, errDown
}

func TestOperatorDecidesForEveryArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{})
		keys, operator := idempotency.New(store.Keys(), idempotency.Config{}), idempotency.NewOperator(store.Keys())
		leave := func(key string) idempotency.Record {
			_, err := keys.Do(t.Context(), request(key), func(context.Context) (idempotency.Response, error) {
				return idempotency.Response{}, errDown
			})
			wantIs(t, err, idempotency.ErrUnresolved)
			rec, err := keys.Find(t.Context(), "acme", key)
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}
		answered, freed := leave("answered"), leave("freed")
		if _, err := keys.Do(t.Context(), request("done"), answering(created("ch"))); err != nil {
			t.Fatal(err)
		}
		open, err := operator.List(t.Context(), idempotency.Filter{Unresolved: true})
		if err != nil || len(open) != 2 || open[0].Request.Key != "answered" || open[1].State != idempotency.Unknown {
			t.Fatalf("%+v, %v", open, err)
		}
		happened := created("ch_by_hand")
		for _, r := range []idempotency.Resolution{
			{Scope: "acme", Key: "answered", Token: answered.Token, Response: &happened, By: "ana", Note: "seen at the bank"},
			{Scope: "acme", Key: "freed", Token: freed.Token, By: "ana", Note: "the bank has nothing"},
		} {
			if err := operator.Resolve(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			wantIs(t, operator.Resolve(t.Context(), r), idempotency.ErrDecided) // a second click changes nothing
		}
		if res, err := keys.Do(t.Context(), request("answered"), mustNotRun(t)); err != nil || string(res.Body) != "ch_by_hand" {
			t.Fatalf("%+v, %v", res, err)
		}
		if res, err := keys.Do(t.Context(), request("freed"), answering(created("ch_2"))); err != nil || res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
		log, err := operator.Audit(t.Context(), "acme", "freed")
		if err != nil || len(log) != 1 || log[0].By != "ana" || log[0].Note != "the bank has nothing" || log[0].From != idempotency.Unknown || log[0].To != idempotency.Free {
			t.Fatalf("%+v, %v", log, err)
		}
	})
}

func TestOperatorCannotDecideWhatIsNotUnresolved(t *testing.T) {
	store := memory.New(memory.Config{})
	keys, operator := idempotency.New(store.Keys(), idempotency.Config{}), idempotency.NewOperator(store.Keys())
	resolve := func(key string) error {
		return operator.Resolve(t.Context(), idempotency.Resolution{Scope: "acme", Key: key, By: "ana", Note: "why"})
	}
	wantIs(t, resolve("none"), idempotency.ErrNotFound)
	_, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
		wantIs(t, resolve("k"), idempotency.ErrDecided) // its owner is at work
		return created("ch"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantIs(t, resolve("k"), idempotency.ErrDecided)
	for _, by := range []string{"", "an\xffa", "an\x00a", strings.Repeat("a", 1001)} {
		wantIs(t, operator.Resolve(t.Context(), idempotency.Resolution{Scope: "acme", Key: "k", By: by, Note: "why"}), fifty.ErrInvalid)
	}
	_, err = operator.List(t.Context(), idempotency.Filter{Limit: 1001})
	wantIs(t, err, fifty.ErrInvalid)
}

func TestPausedOwnerLearnsThatAnOperatorDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		store.set("renew", always(errDown), nil) // paused: no heartbeat
		operator := idempotency.NewOperator(store.TxStore.(memory.Keys))
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		res, err := keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
			pass(31 * time.Second)
			byHand := created("ch_by_hand")
			err := operator.Resolve(t.Context(), idempotency.Resolution{Scope: "acme", Key: "k", Response: &byHand, By: "ana", Note: "seen at the bank"})
			return created("ch_late"), err
		})
		if err != nil || string(res.Body) != "ch_by_hand" {
			t.Fatalf("%+v, %v: everyone gets the answer that was decided", res, err)
		}
	})
}
