package idempotency_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/idempotency"
	"github.com/fiftyhosts/fifty/store/memory"
)

func TestReplayOfARecordIsWhatADuplicateGets(t *testing.T) {
	store := memory.New(memory.Config{}).Keys()
	keys := idempotency.New(store, idempotency.Config{Seal: ring(t, "2026")})
	if _, err := keys.Do(t.Context(), request("done"), answering(secret())); err != nil {
		t.Fatal(err)
	}
	rec, err := keys.Find(t.Context(), "acme", "done")
	if err != nil {
		t.Fatal(err)
	}
	if id := rec.Response.SealedWith(); id != "2026" {
		t.Errorf("sealed with %q", id)
	}
	res, err := keys.Replay(t.Context(), rec)
	if err != nil || !res.Replayed || !reflect.DeepEqual(res.Response, secret()) {
		t.Errorf("done: %+v, %v", res, err)
	}
	for state, want := range map[idempotency.State]error{
		idempotency.InFlight: idempotency.ErrInFlight, idempotency.Unknown: idempotency.ErrUnresolved,
		idempotency.Free: idempotency.ErrInFlight, idempotency.Tombstone: idempotency.ErrExpired,
	} {
		_, err := keys.Replay(t.Context(), idempotency.Record{Request: request("k"), State: state, ExpiresIn: time.Second})
		wantIs(t, err, want)
	}
}

// TestAgeOfStepsCountsFromTheFirstClaim: over takeovers, and on within a run.
func TestAgeOfStepsCountsFromTheFirstClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := idempotency.New(memory.New(memory.Config{}).Keys(), idempotency.Config{})
		for _, want := range []time.Duration{0, time.Hour} {
			_, err := keys.DoSteps(t.Context(), request("k"), func(_ context.Context, s *idempotency.Steps) (idempotency.Response, error) {
				if least, most := s.Age(); least != want || most != want {
					t.Errorf("the age is %v to %v at first, want %v", least, most, want)
				}
				<-time.After(time.Minute)
				if least, most := s.Age(); least != want || most != want+time.Minute {
					t.Errorf("the age is %v to %v later, want %v to %v", least, most, want, want+time.Minute)
				}
				return idempotency.Response{}, errProvider
			})
			wantIs(t, err, errProvider)
			<-time.After(59 * time.Minute)
		}
	})
}
