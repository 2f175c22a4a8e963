package idempotency_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

// reading is a store that can read an answer for less than a claim costs.
type reading struct{ *faulty }

func (r reading) FindAnswer(ctx context.Context, scope, key string) (rec idempotency.Record, err error) {
	err = r.do("find answer", func() error {
		if rec, err = r.Find(ctx, scope, key); err == nil && rec.State != idempotency.Done {
			err = idempotency.ErrNotFound
		}
		return err
	})
	return rec, err
}

func (r reading) wantCalls(t *testing.T, reads, claims int) {
	t.Helper()
	if r.count("find answer") != reads || r.count("claim") != claims {
		t.Errorf("%d reads and %d claims, want %d and %d", r.count("find answer"), r.count("claim"), reads, claims)
	}
}

func TestKeyThatThisHostSawIsReadFirstAndAFreshOneIsNot(t *testing.T) {
	store := reading{newFaulty()}
	keys := idempotency.New(store, idempotency.Config{})
	if _, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
		t.Fatal(err)
	}
	store.wantCalls(t, 0, 1)
	res, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
	if err != nil || !res.Replayed || string(res.Body) != "ch_1" {
		t.Fatalf("%+v, %v", res, err)
	}
	store.wantCalls(t, 1, 1)

	other := idempotency.New(store, idempotency.Config{}) // another host
	if res, err := other.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || !res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	store.wantCalls(t, 1, 2)
}

// The read decides one thing only. Whatever else it finds, the claim decides.
func TestReadShortCircuitsOnlyAnAnswerOfTheSameFingerprint(t *testing.T) {
	store := reading{newFaulty()}
	keys := idempotency.New(store, idempotency.Config{})
	if _, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
		t.Fatal(err)
	}
	other := request("k")
	other.Fingerprint = idempotency.FingerprintOf("another intent")
	_, err := keys.Do(t.Context(), other, mustNotRun(t))
	wantIs(t, err, idempotency.ErrMismatch)
	store.wantCalls(t, 1, 2)

	_, err = keys.Do(t.Context(), request("free"), func(context.Context) (idempotency.Response, error) {
		return idempotency.Response{}, idempotency.NotDone(errDown)
	})
	wantIs(t, err, errDown)
	if res, err := keys.Do(t.Context(), request("free"), answering(created("ch_2"))); err != nil || res.Replayed {
		t.Fatalf("%+v, %v", res, err)
	}
	store.wantCalls(t, 2, 4)
}

// What an operator or a sweep takes away is gone at once: nothing is remembered but that the key was seen.
func TestErasedAnswerIsNotReplayedByAHostThatSawIt(t *testing.T) {
	store := reading{newFaulty()}
	keys := idempotency.New(store, idempotency.Config{})
	if _, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
		t.Fatal(err)
	}
	if _, err := store.TxStore.(memory.Keys).Erase(t.Context(), request("k").Scope, 1); err != nil {
		t.Fatal(err)
	}
	_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
	wantIs(t, err, idempotency.ErrNotReplayable)
	if _, err := store.Sweep(t.Context(), 0, day, 1); err != nil {
		t.Fatal(err)
	}
	_, err = keys.Do(t.Context(), request("k"), mustNotRun(t))
	wantIs(t, err, idempotency.ErrExpired)
}

func TestReadThatFailsLeavesItToTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := reading{newFaulty()}
		store.set("find answer", always(errDown), nil)
		keys := idempotency.New(store, idempotency.Config{})
		for i := range 2 {
			if res, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil || res.Replayed != (i == 1) {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		store.wantCalls(t, 1, 2)
	})
}
