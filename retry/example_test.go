package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/retry"
)

// bank is a peer that loses its first reply, and knows a repeat by its key.
type bank struct {
	calls   int
	balance map[string]int
}

func (b *bank) Deposit(_ context.Context, key string, amount int) (total int, err error) {
	b.calls++
	if _, repeat := b.balance[key]; !repeat {
		b.balance[key] = amount
	}
	if b.calls == 1 {
		return 0, fmt.Errorf("connection reset: %w", fifty.ErrUnknownOutcome)
	}
	for _, amount := range b.balance {
		total += amount
	}
	return total, nil
}

func ExampleDo() {
	attempts := 0
	err := retry.Do(context.Background(), retry.Policy{Base: time.Millisecond}, func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("connection refused")
		}
		return nil
	})
	fmt.Println(attempts, err)
	// Output: 3 <nil>
}

// The reply of the first attempt is lost. All attempts carry the same key, so it is safe to ask again.
func ExampleValue() {
	peer := &bank{balance: map[string]int{}}
	policy := retry.Policy{Base: time.Millisecond, Idempotent: true}
	total, err := retry.Value(context.Background(), policy, func(ctx context.Context) (int, error) {
		return peer.Deposit(ctx, "deposit-7", 100)
	})
	fmt.Println(total, err, peer.calls)
	// Output: 100 <nil> 2
}

func ExamplePermanent() {
	attempts := 0
	err := retry.Do(context.Background(), retry.Policy{}, func(context.Context) error {
		attempts++
		return retry.Permanent(errors.New("card declined"))
	})
	fmt.Println(attempts, err)
	// Output: 1 card declined
}

func ExampleAfter() {
	err := retry.Do(context.Background(), retry.Policy{ElapsedMax: time.Minute}, func(context.Context) error {
		err := errors.New("503 Service Unavailable")
		if wait, ok := retry.ParseAfter("3600", time.Now()); ok { // the Retry-After header
			return retry.After(wait, err)
		}
		return err
	})
	exhausted, ok := errors.AsType[*retry.ExhaustedError](err)
	fmt.Println(ok, exhausted.Attempts, exhausted.Wait, errors.Is(err, retry.ErrPushBack))
	// Output: true 1 1h0m0s true
}

// One budget for all calls to a peer: when it is down for all of them, few are retried.
func ExampleNewBudget() {
	budget := retry.NewBudget(retry.BudgetConfig{Max: 2, MinPerSecond: -1})
	policy := retry.Policy{Base: time.Millisecond, Budget: budget}
	attempts := 0
	var err error
	for range 10 {
		err = retry.Do(context.Background(), policy, func(context.Context) error {
			attempts++
			return errors.New("connection refused")
		})
	}
	fmt.Println(attempts, errors.Is(err, retry.ErrBudgetExhausted))
	// Output: 12 true
}
