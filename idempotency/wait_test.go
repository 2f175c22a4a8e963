package idempotency_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// slow works for d, then answers.
func slow(d time.Duration) func(context.Context) (idempotency.Response, error) {
	return func(context.Context) (idempotency.Response, error) {
		pass(d)
		return created("ch_1"), nil
	}
}

func TestWaitingDuplicateIsWokenWithTheAnswerAndDoesNotPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		keys := idempotency.New(store, idempotency.Config{Wait: true})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = keys.Do(t.Context(), request("k"), slow(5*time.Second)) })
		synctest.Wait()
		began := time.Now()
		res, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		if err != nil || !res.Replayed || time.Since(began) != 5*time.Second {
			t.Fatalf("%+v, %v after %v", res, err, time.Since(began))
		}
		if n := store.count("claim"); n != 3 {
			t.Fatalf("%d claims; want the owner's, the first look and the one after the answer", n)
		}
		wg.Wait()
	})
}

func TestWaitingDuplicateOfAnotherProcessLooksAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFaulty()
		there, here := idempotency.New(store, idempotency.Config{}), idempotency.New(store, idempotency.Config{Wait: true})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = there.Do(t.Context(), request("k"), slow(5*time.Second)) })
		synctest.Wait()
		began := time.Now()
		res, err := here.Do(t.Context(), request("k"), mustNotRun(t))
		if took := time.Since(began); err != nil || !res.Replayed || took > 6*time.Second {
			t.Fatalf("%+v, %v after %v", res, err, took)
		}
		if n := store.count("claim"); n > 60 {
			t.Fatalf("%d claims in 5 s", n)
		}
		wg.Wait()
	})
}

func TestWaitHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Wait: true, WaitMax: 2 * time.Second})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = keys.Do(t.Context(), request("k"), slow(time.Minute)) })
		synctest.Wait()
		began := time.Now()
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrInFlight)
		if took := time.Since(began); took != 2*time.Second {
			t.Fatalf("waited %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = keys.Do(ctx, request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrInFlight)
		wg.Wait()
	})
}

func TestTooManyWaitersAreToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Wait: true, WaitersMax: 2})
		var wg sync.WaitGroup
		for range 3 { // the owner and two that wait
			wg.Go(func() { _, _ = keys.Do(t.Context(), request("k"), slow(5*time.Second)) })
		}
		synctest.Wait()
		began := time.Now()
		_, err := keys.Do(t.Context(), request("k"), mustNotRun(t))
		wantIs(t, err, idempotency.ErrInFlight)
		if took := time.Since(began); took != 0 {
			t.Fatalf("waited %v", took)
		}
		wg.Wait()
	})
}

func TestWaiterTakesAKeyThatBecameFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(newFaulty(), idempotency.Config{Wait: true})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = keys.Do(t.Context(), request("k"), func(context.Context) (idempotency.Response, error) {
				pass(time.Second)
				return idempotency.Response{}, idempotency.NotDone(errDown)
			})
		})
		synctest.Wait()
		res, err := keys.Do(t.Context(), request("k"), answering(created("ch_2")))
		if err != nil || res.Replayed || string(res.Body) != "ch_2" {
			t.Fatalf("%+v, %v", res, err)
		}
		wg.Wait()
	})
}
