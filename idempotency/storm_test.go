package idempotency_test

import (
	"fmt"
	"testing"

	"github.com/fiftyhosts/fifty/idempotency"
)

// Retries of what other hosts answered come in storms: one of them has died. Then keys that this host never saw are
// read first, and no longer once fresh requests prevail.
func TestHostThatGetsTheRetriesOfOthersReadsFirstUntilFreshRequestsPrevail(t *testing.T) {
	store := reading{newFaulty()}
	dead := idempotency.New(store, idempotency.Config{})
	const retries = 20
	for i := range retries {
		if _, err := dead.Do(t.Context(), request(fmt.Sprint("old ", i)), answering(created("ch_1"))); err != nil {
			t.Fatal(err)
		}
	}
	store.wantCalls(t, 0, retries)

	keys := idempotency.New(store, idempotency.Config{})
	for i := range retries {
		res, err := keys.Do(t.Context(), request(fmt.Sprint("old ", i)), mustNotRun(t))
		if err != nil || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	const surprises = 4 // it takes so many to notice
	store.wantCalls(t, retries-surprises, retries+surprises)

	reads, claims := store.count("find answer"), store.count("claim")
	const fresh = 100
	for i := range fresh {
		res, err := keys.Do(t.Context(), request(fmt.Sprint("new ", i)), answering(created("ch_2")))
		if err != nil || res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	const forgotten = 13 // from the highest level, 24, to below 12
	store.wantCalls(t, reads+forgotten, claims+fresh)
}

// The keys that a host has seen itself say nothing about those that it has not.
func TestRetriesThatComeBackToTheirHostAreNoStorm(t *testing.T) {
	store := reading{newFaulty()}
	keys := idempotency.New(store, idempotency.Config{})
	if _, err := keys.Do(t.Context(), request("k"), answering(created("ch_1"))); err != nil {
		t.Fatal(err)
	}
	const retries = 50
	for range retries {
		if res, err := keys.Do(t.Context(), request("k"), mustNotRun(t)); err != nil || !res.Replayed {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	store.wantCalls(t, retries, 1)
	if _, err := keys.Do(t.Context(), request("fresh"), answering(created("ch_2"))); err != nil {
		t.Fatal(err)
	}
	store.wantCalls(t, retries, 2)
}
