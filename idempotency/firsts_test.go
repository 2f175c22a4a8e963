package idempotency_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
)

// renewals is a store that notes when each key was renewed.
type renewals struct {
	*faulty
	began time.Time
	mu    sync.Mutex
	at    map[string][]time.Duration
}

func newRenewals() *renewals {
	return &renewals{faulty: newFaulty(), began: time.Now(), at: map[string][]time.Duration{}}
}

func (r *renewals) Renew(ctx context.Context, cs []idempotency.Claim, lease time.Duration) ([]error, error) {
	r.mu.Lock()
	for _, c := range cs {
		r.at[c.Key] = append(r.at[c.Key], time.Since(r.began))
	}
	r.mu.Unlock()
	return r.faulty.Renew(ctx, cs, lease)
}

// Works that begin at different times and end in any order must each be renewed at each third of its own lease,
// and not after its end, although one timer serves the first renewals of all.
func TestEachOfManyWorksIsRenewedInItsOwnTime(t *testing.T) {
	const third, apart = 10 * time.Second, 3 * time.Second
	for name, last := range map[string][]time.Duration{ // how long each work takes; one begins every three seconds
		"one ends early at each place":      {1, 25 * time.Second, 2 * time.Second, 35 * time.Second, 9 * time.Second, 25 * time.Second, 1},
		"all end before their first":        {9 * time.Second, 8 * time.Second, 7 * time.Second, 9 * time.Second},
		"none ends before its first":        {25 * time.Second, 15 * time.Second, 35 * time.Second},
		"the line is empty again and again": {1, 1, 25 * time.Second, 1, 1, 1, 1, 1, 1, 1, 1, 25 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRenewals()
				keys := idempotency.New(store, idempotency.Config{Lease: 3 * third})
				want := map[string][]time.Duration{}
				var all sync.WaitGroup
				for i, d := range last {
					key, begins := fmt.Sprint("k", i), time.Duration(i)*apart
					for at := third; at < d; at += third {
						want[key] = append(want[key], begins+at)
					}
					all.Go(func() {
						pass(begins)
						_, err := keys.Do(t.Context(), request(key), func(context.Context) (idempotency.Response, error) {
							pass(d)
							return created("ch_1"), nil
						})
						if err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				pass(time.Hour)
				if !maps.EqualFunc(store.at, want, slices.Equal) {
					t.Errorf("renewed at %v, want %v", store.at, want)
				}
			})
		})
	}
}

// A store that hangs holds up the renewal of one work, and of no other.
func TestRenewalThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRenewals()
		var first sync.Once
		store.set("renew", func() error {
			hangs := false
			first.Do(func() { hangs = true })
			if hangs {
				pass(time.Hour)
			}
			return nil
		}, nil)
		keys := idempotency.New(store, idempotency.Config{Lease: 30 * time.Second})
		var all sync.WaitGroup
		for _, key := range []string{"hangs", "goes on"} {
			all.Go(func() {
				if key == "goes on" {
					pass(time.Second)
				}
				_, err := keys.Do(t.Context(), request(key), func(context.Context) (idempotency.Response, error) {
					pass(25 * time.Second)
					return created("ch_1"), nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got, want := store.at["goes on"], []time.Duration{11 * time.Second, 21 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("renewed at %v, want %v", got, want)
		}
		pass(2 * time.Hour)
	})
}
