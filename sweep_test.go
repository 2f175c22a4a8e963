package fifty_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
)

type sweeper func() (int, error)

func (s sweeper) Sweep(context.Context) (int, error) { return s() }

func TestSweepGoesOnAfterAnErrorAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errStop := errors.New("shutting down")
		ctx, stop := context.WithCancelCause(t.Context())
		first, second := 0, 0
		done := make(chan error)
		go func() {
			done <- fifty.Sweep(ctx, time.Minute,
				sweeper(func() (int, error) { first++; return 0, errors.New("down") }),
				sweeper(func() (int, error) { second++; return 1, nil }))
		}()
		<-time.After(time.Hour)
		stop(errStop)
		if err := <-done; err != errStop {
			t.Fatal(err)
		}
		if first != second || first < 40 || first > 120 {
			t.Fatalf("%d and %d rounds in an hour", first, second)
		}
	})
}

func TestSweepRefusesAnImpossibleInterval(t *testing.T) {
	if err := fifty.Sweep(t.Context(), 0); !errors.Is(err, fifty.ErrInvalid) {
		t.Fatal(err)
	}
}
