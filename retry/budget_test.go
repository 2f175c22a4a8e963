package retry_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/retry"
)

// none is a Jitter that never waits, so that only the budget bounds.
func none(time.Duration) time.Duration { return 0 }

// retriesOf makes calls that all fail and returns how many retries the budget allowed them together.
func retriesOf(t *testing.T, budget *retry.Budget, calls, attempts int) (retries int) {
	t.Helper()
	for range calls {
		fn, ran := always(errDown)
		_ = retry.Do(t.Context(), retry.Policy{Budget: budget, AttemptsMax: attempts, Jitter: none, Clock: &manualClock{}}, fn)
		retries += *ran - 1
	}
	return retries
}

func TestEmptyBudgetEndsBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: -1, Max: 1})
		began := time.Now()
		fn, calls := always(errDown)
		err := retry.Do(t.Context(), retry.Policy{Base: time.Second, Budget: budget, Jitter: most}, fn)
		wantCalls(t, calls, 2) // one token, one retry
		wantIs(t, err, retry.ErrBudgetExhausted, retry.ErrExhausted, errDown)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited %v, want only the 1s before the retry that the budget allowed", waited)
		}
		if exhausted, ok := errors.AsType[*retry.ExhaustedError](err); !ok || exhausted.Attempts != 2 {
			t.Errorf("got %+v, want 2 attempts", exhausted)
		}
	})
}

func TestFirstAttemptsNeedNoBudget(t *testing.T) {
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: -1, Max: 1})
	retriesOf(t, budget, 1, 9)
	for range 3 {
		fn, calls := failing()
		if err := retry.Do(t.Context(), retry.Policy{Budget: budget}, fn); err != nil {
			t.Error(err)
		}
		wantCalls(t, calls, 1)
	}
}

func TestRatioBoundsTheRetriesOfADownPeer(t *testing.T) {
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: 0.1, MinPerSecond: -1, Max: 5, Clock: &manualClock{}})
	// The first call finds the budget full, so its deposit is lost: 5 saved, and 999 deposits of a tenth.
	if got := retriesOf(t, budget, 1000, 100); got != 5+99 {
		t.Errorf("1000 failing calls were retried %d times, want the 5 saved and one for ten calls", got)
	}
}

func TestTenDepositsOfATenthAreOneRetry(t *testing.T) {
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: 0.1, MinPerSecond: -1, Max: 1})
	retriesOf(t, budget, 1, 9)
	for round := range 100 {
		if got := retriesOf(t, budget, 9, 2); got != 0 {
			t.Fatalf("round %d: 9 calls paid for %d retries", round, got)
		}
		if got := retriesOf(t, budget, 1, 2); got != 1 {
			t.Fatalf("round %d: 10 calls paid for %d retries, want 1", round, got)
		}
	}
}

func TestDefaultBudget(t *testing.T) {
	clock := &manualClock{}
	budget := retry.NewBudget(retry.BudgetConfig{Clock: clock})
	if got := retriesOf(t, budget, 1, 1000); got != 100 {
		t.Errorf("a full default budget allowed %d retries, want 100", got)
	}
	clock.now = clock.now.Add(3 * time.Second)
	if got := retriesOf(t, budget, 10, 1000); got != 3+1 {
		t.Errorf("3 seconds and 10 calls allowed %d retries, want 4", got)
	}
}

func TestTokensComeWithTimeUpToMax(t *testing.T) {
	clock := &manualClock{}
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: 2, Max: 10, Clock: clock})
	for _, tt := range []struct {
		pass time.Duration
		want int
	}{{0, 10}, {0, 0}, {time.Second, 2}, {400 * time.Millisecond, 0}, {100 * time.Millisecond, 1}, {time.Hour, 10}, {-time.Hour, 0}, {time.Hour, 0}} {
		clock.now = clock.now.Add(tt.pass)
		if got := retriesOf(t, budget, 1, 100); got != tt.want {
			t.Errorf("after %v more: %d retries, want %d", tt.pass, got, tt.want)
		}
	}
}

func TestTimeThatPassesDuringACallStopsAtMaxToo(t *testing.T) {
	clock := &manualClock{}
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: 1, Max: 3, Clock: clock})
	attempts := 0
	err := retry.Do(t.Context(), retry.Policy{Budget: budget, Jitter: none, Clock: &manualClock{}}, func(context.Context) error {
		clock.now = clock.now.Add(time.Hour)
		if attempts++; attempts == 1 {
			return errDown
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	clock.now = clock.now.Add(-time.Hour) // back to when the retry took its token
	if got := retriesOf(t, budget, 1, 100); got != 2 {
		t.Errorf("%d retries left of 3 after one, want 2", got)
	}
}

func TestDepositsStopAtMax(t *testing.T) {
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: 1, MinPerSecond: -1, Max: 3, Clock: &manualClock{}})
	for range 50 {
		fn, _ := failing()
		if err := retry.Do(t.Context(), retry.Policy{Budget: budget}, fn); err != nil {
			t.Fatal(err)
		}
	}
	if got := retriesOf(t, budget, 1, 100); got != 3 {
		t.Errorf("%d retries, want Max", got)
	}
}

func TestSenselessBudgetsStayBounded(t *testing.T) {
	for _, strange := range []float64{math.NaN(), math.Inf(-1), math.Inf(1), math.MaxFloat64} {
		clock := &manualClock{}
		budget := retry.NewBudget(retry.BudgetConfig{Ratio: strange, MinPerSecond: strange, Max: 4, Clock: clock})
		for range 3 {
			clock.now = clock.now.Add(time.Second)
			if got := retriesOf(t, budget, 1, 100); got > 4 {
				t.Errorf("a ratio of %v allowed %d retries, want at most Max", strange, got)
			}
		}
	}
}

func TestRetryThatIsNotMadeCostsNothing(t *testing.T) {
	ways := map[string]func(context.Context, retry.Policy) error{
		"ended while waiting": func(ctx context.Context, p retry.Policy) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			fn, _ := always(errDown)
			p.Base, p.Jitter = time.Second, most
			return retry.Do(ctx, p, fn)
		},
		"host stood still": func(ctx context.Context, p retry.Policy) error {
			fn, _ := always(errDown)
			p.Clock = &manualClock{late: time.Hour}
			return retry.Do(ctx, p, fn)
		},
		"attempts used up": func(ctx context.Context, p retry.Policy) error {
			fn, _ := always(errDown)
			p.AttemptsMax = 1
			return retry.Do(ctx, p, fn)
		},
		"push-back too long": func(ctx context.Context, p retry.Policy) error {
			fn, _ := always(retry.After(time.Hour, errDown))
			return retry.Do(ctx, p, fn)
		},
		"permanent": func(ctx context.Context, p retry.Policy) error {
			fn, _ := always(retry.Permanent(errDown))
			return retry.Do(ctx, p, fn)
		},
	}
	for name, call := range ways {
		synctest.Test(t, func(t *testing.T) {
			budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: -1, Max: 1})
			err := call(t.Context(), retry.Policy{Budget: budget})
			wantIs(t, err, errDown)
			wantIsNot(t, err, retry.ErrBudgetExhausted)
			if got := retriesOf(t, budget, 1, 9); got != 1 {
				t.Errorf("%s: %d retries left, want the one whose token was never used", name, got)
			}
		})
	}
}

func TestBudgetIsExactAcrossGoroutines(t *testing.T) {
	budget := retry.NewBudget(retry.BudgetConfig{Ratio: -1, MinPerSecond: -1, Max: 50})
	var callers sync.WaitGroup
	var mu sync.Mutex
	attempts := 0
	for range 20 {
		callers.Go(func() {
			_ = retry.Do(t.Context(), retry.Policy{Budget: budget, AttemptsMax: 10, Jitter: none, Clock: &manualClock{}}, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				attempts++
				return errDown
			})
		})
	}
	callers.Wait()
	if attempts != 20+50 {
		t.Errorf("20 callers with 50 tokens made %d attempts, want 70", attempts)
	}
}
