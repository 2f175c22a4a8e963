package inventory_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/inventory"
)

// script is a store that answers each Reserve and Supply as told, the last line again and again.
type script struct {
	inventory.Store
	lines []func(ctx context.Context, asks []inventory.Ask) error
	calls int
}

func (s *script) next(ctx context.Context, asks []inventory.Ask) error {
	line := s.lines[min(s.calls, len(s.lines)-1)]
	s.calls++
	return line(ctx, asks)
}

func (s *script) Reserve(ctx context.Context, asks []inventory.Ask) ([]inventory.Answer, error) {
	return make([]inventory.Answer, len(asks)), s.next(ctx, asks)
}

func (s *script) Supply(ctx context.Context, _ inventory.Delivery) error { return s.next(ctx, nil) }

func says(err error) func(context.Context, []inventory.Ask) error {
	return func(context.Context, []inventory.Ask) error { return err }
}

var (
	errDown = errors.New("the store is down")
	errLost = errors.Join(errors.New("the reply was lost"), fifty.ErrUnknownOutcome)
)

func TestAnAskIsMadeAgainUntilTheStoreAnswers(t *testing.T) {
	type lines = []func(context.Context, []inventory.Ask) error
	for _, tc := range []struct {
		name  string
		lines lines
		want  []error // nil: it succeeds
		not   error
	}{
		{"down for a while", lines{says(errDown), says(errDown), says(nil)}, nil, nil},
		{"a lost reply, then the answer", lines{says(errLost), says(nil)}, nil, nil},
		{"down for long", lines{says(errDown)}, []error{inventory.ErrUnavailable, errDown}, fifty.ErrUnknownOutcome},
		{"every reply lost", lines{says(errLost)}, []error{fifty.ErrUnknownOutcome}, inventory.ErrUnavailable},
		{"a lost reply, then down for long", lines{says(errLost), says(errDown)}, []error{fifty.ErrUnknownOutcome, errDown}, inventory.ErrUnavailable},
		{"too busy", lines{says(inventory.ErrBusy)}, []error{inventory.ErrBusy}, fifty.ErrUnknownOutcome},
		{"a lost reply, then too busy", lines{says(errLost), says(inventory.ErrBusy)}, []error{fifty.ErrUnknownOutcome, inventory.ErrBusy}, nil},
		{"a lost reply, then called off", lines{says(errLost), says(context.Canceled)}, []error{fifty.ErrUnknownOutcome, context.Canceled}, nil},
		{"unknown SKU", lines{says(&inventory.UnknownSKUError{SKU: "x"})}, []error{inventory.ErrUnknownSKU}, inventory.ErrUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for what, call := range map[string]func(t *testing.T, s *inventory.Stock) error{
				"Reserve": func(t *testing.T, s *inventory.Stock) error {
					_, err := s.Reserve(t.Context(), "id", inventory.Items{"x": 1}, time.Minute)
					return err
				},
				"Supply": func(t *testing.T, s *inventory.Stock) error {
					return s.Supply(t.Context(), "id", inventory.Items{"x": 1})
				},
			} {
				synctest.Test(t, func(t *testing.T) {
					for _, strategy := range []inventory.Strategy{inventory.Row, inventory.Combined} {
						err := call(t, inventory.New(&script{lines: tc.lines}, inventory.Config{Strategy: strategy}))
						if (err == nil) != (tc.want == nil) || tc.not != nil && errors.Is(err, tc.not) {
							t.Fatalf("%s: %v", what, err)
						}
						for _, want := range tc.want {
							if !errors.Is(err, want) {
								t.Errorf("%s: got %v, want %v", what, err, want)
							}
						}
					}
				})
			}
		})
	}
}

// With -race this also finds a store that reads what the caller writes.
func TestACallerThatLeftMayChangeItsItems(t *testing.T) {
	atWork, left := make(chan struct{}, 2), make(chan struct{})
	seen := make(chan int64, 2)
	store := &script{lines: []func(context.Context, []inventory.Ask) error{
		func(context.Context, []inventory.Ask) error { // the first caller keeps the store busy, so that others queue
			atWork <- struct{}{}
			<-left
			return nil
		},
		func(_ context.Context, asks []inventory.Ask) error {
			atWork <- struct{}{}
			<-left
			seen <- asks[0].Items["x"]
			return nil
		},
	}}
	synctest.Test(t, func(t *testing.T) {
		atWork, left, seen = make(chan struct{}, 2), make(chan struct{}), make(chan int64, 2)
		s := inventory.New(store, inventory.Config{})
		go func() { _, _ = s.Reserve(t.Context(), "first", inventory.Items{"x": 1}, time.Minute) }()
		<-atWork
		items := inventory.Items{"x": 1}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Reserve(ctx, "second", items, time.Minute)
			done <- err
		}()
		synctest.Wait()
		left <- struct{}{} // the first is done, and the second is sent
		<-atWork
		cancel()
		if err := <-done; !errors.Is(err, fifty.ErrUnknownOutcome) {
			t.Errorf("the caller that left got %v", err)
		}
		items["x"] = 1000
		left <- struct{}{}
		if got := <-seen; got != 1 {
			t.Errorf("the store saw %d units", got)
		}
	})
}
