package interleave_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

// account is a balance that a withdrawal checks first and changes then.
type account struct{ balance int }

func (a *account) withdraw(ctx context.Context, amount int) {
	interleave.Point(ctx, "look")
	if a.balance < amount {
		return
	}
	interleave.Point(ctx, "take")
	a.balance -= amount
}

func twoWithdrawals() interleave.Case {
	a := &account{balance: 100}
	withdraw := func(ctx context.Context) { a.withdraw(ctx, 80) }
	return interleave.Case{
		Callers: []func(context.Context){withdraw, withdraw},
		Check: func() error {
			if a.balance < 0 {
				return fmt.Errorf("the balance is %d", a.balance)
			}
			return nil
		},
	}
}

// Every order of a small case.
func ExampleExplore() {
	_, err := interleave.Explore(context.Background(), interleave.Options{Grace: unhurried}, func(int) interleave.Case {
		return twoWithdrawals()
	})
	fmt.Println(err)
	// Output:
	// the balance is -60
	// under the schedule ABBA:
	// 	A look
	// 	B look
	// 	B take
	// 	A take
}

// Orders chosen by seeds, and the one that failed run again by its seed. A test passes its t.Name() as
// Options.Test, and then the error also prints the command.
func ExampleSample() {
	newCase := func(uint64) interleave.Case { return twoWithdrawals() }
	_, err := interleave.Sample(context.Background(), interleave.Options{Grace: unhurried}, newCase)
	failure, ok := errors.AsType[*interleave.Failure](err)
	if !ok {
		return
	}
	_, err = interleave.Sample(context.Background(), interleave.Options{Seed: failure.Seed, Runs: 1, Grace: unhurried}, newCase)
	again, _ := errors.AsType[*interleave.Failure](err)
	fmt.Println(failure.Err, "and again:", again.Err, again.Schedule == failure.Schedule)
	// Output:
	// the balance is -60 and again: the balance is -60 true
}
