package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty"
	"github.com/fiftyhosts/fifty/retry"
)

var errDown = errors.New("peer is down")

// most is a Jitter that draws the longest wait, so that tests know how long Do waits.
func most(longest time.Duration) time.Duration { return longest }

// failing returns a function that fails with the given errors, one a call, and then succeeds, and the
// number of its calls so far.
func failing(errs ...error) (fn func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		*calls++
		if *calls > len(errs) {
			return nil
		}
		return errs[*calls-1]
	}, calls
}

// always returns a function that fails with err, and the number of its calls so far.
func always(err error) (fn func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error { *calls++; return err }, calls
}

func wantCalls(t *testing.T, calls *int, want int) {
	t.Helper()
	if *calls != want {
		t.Errorf("fn ran %d times, want %d", *calls, want)
	}
}

func wantIs(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q is not %q", err, target)
		}
	}
}

func wantIsNot(t *testing.T, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("error %q is %q", err, target)
		}
	}
}

func TestSucceedsOnceAnAttemptSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fn, calls := failing(errDown, errDown)
		if err := retry.Do(t.Context(), retry.Policy{}, fn); err != nil {
			t.Fatal(err)
		}
		wantCalls(t, calls, 3)
	})
}

func TestZeroPolicyIsBoundedAndSaysWhatItDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fn, calls := always(errDown)
		err := retry.Do(t.Context(), retry.Policy{Jitter: most}, fn)
		wantCalls(t, calls, 5)
		wantIs(t, err, errDown, retry.ErrExhausted, retry.ErrAttemptsMax)
		wantIsNot(t, err, retry.ErrElapsedMax, retry.ErrPushBack, retry.ErrBudgetExhausted)

		const waited = (50 + 100 + 200 + 400) * time.Millisecond
		if took := time.Since(began); took != waited {
			t.Errorf("took %v, want %v", took, waited)
		}
		exhausted, ok := errors.AsType[*retry.ExhaustedError](err)
		if !ok || exhausted.Attempts != 5 || exhausted.Elapsed != waited || exhausted.Err != errDown {
			t.Errorf("got %+v, want 5 attempts in %v", exhausted, waited)
		}
		if text := err.Error(); !strings.Contains(text, "5 attempts in 750ms") || !strings.Contains(text, errDown.Error()) {
			t.Errorf("message %q doesn't say how many attempts, how long and why", text)
		}
	})
}

func TestNeverRetriesMoreThanAttemptsMax(t *testing.T) {
	for _, attempts := range []int{1, 2, 7} {
		synctest.Test(t, func(t *testing.T) {
			fn, calls := always(errDown)
			err := retry.Do(t.Context(), retry.Policy{AttemptsMax: attempts}, fn)
			wantCalls(t, calls, attempts)
			wantIs(t, err, retry.ErrAttemptsMax)
		})
	}
}

func TestWhichErrorsAreRetried(t *testing.T) {
	unknown := fmt.Errorf("reply lost: %w", fifty.ErrUnknownOutcome)
	invalid := fmt.Errorf("claim: %w", &fifty.InvalidError{Field: "Request.Key", Problem: "is empty"})
	none := func(error) bool { return false }
	all := func(error) bool { return true }
	table := []struct {
		name   string
		policy retry.Policy
		err    error
		again  bool
	}{
		{"any error", retry.Policy{}, errDown, true},
		{"any error, if repeats are known", retry.Policy{Idempotent: true}, errDown, true},
		{"any error, if Retryable says yes", retry.Policy{Retryable: all}, errDown, true},
		{"not if Retryable says no", retry.Policy{Retryable: none}, errDown, false},
		{"permanent", retry.Policy{}, retry.Permanent(errDown), false},
		{"permanent, wrapped", retry.Policy{}, fmt.Errorf("charge: %w", retry.Permanent(errDown)), false},
		{"permanent, joined", retry.Policy{}, errors.Join(errDown, retry.Permanent(errDown)), false},
		{"permanent with a push-back", retry.Policy{}, retry.After(1, retry.Permanent(errDown)), false},
		{"permanent, whatever Retryable says", retry.Policy{Retryable: all, Idempotent: true}, retry.Permanent(errDown), false},
		{"invalid", retry.Policy{}, invalid, false},
		{"invalid, whatever Retryable says", retry.Policy{Retryable: all, Idempotent: true}, invalid, false},
		{"unsupported", retry.Policy{Retryable: all, Idempotent: true}, fifty.ErrUnsupported, false},
		{"unknown", retry.Policy{}, unknown, false},
		{"unknown with a push-back", retry.Policy{}, retry.After(1, unknown), false},
		{"unknown, whatever Retryable says", retry.Policy{Retryable: all}, unknown, false},
		{"unknown, if repeats are known", retry.Policy{Idempotent: true}, unknown, true},
		{"not unknown, if Retryable says no", retry.Policy{Idempotent: true, Retryable: none}, unknown, false},
		{"a time-out of fn's own", retry.Policy{}, context.DeadlineExceeded, true},
	}
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fn, calls := failing(tt.err)
				err := retry.Do(t.Context(), tt.policy, fn)
				if tt.again {
					wantCalls(t, calls, 2)
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantCalls(t, calls, 1)
				if err != tt.err {
					t.Errorf("got %v, want fn's error as it is", err)
				}
			})
		})
	}
}

func TestPermanentIsTransparent(t *testing.T) {
	if retry.Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
	inner := &fifty.InvalidError{Field: "amount", Problem: "is negative"}
	err := retry.Permanent(inner)
	if errors.Unwrap(err) != error(inner) || err.Error() != inner.Error() {
		t.Errorf("Permanent doesn't unwrap to its error: %v", err)
	}
	if found, ok := errors.AsType[*fifty.InvalidError](err); !ok || found != inner {
		t.Error("errors.As doesn't see through Permanent")
	}
	wantIs(t, err, fifty.ErrInvalid)
}

func TestPermanentEndsTheOuterRetryToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fn, calls := always(retry.Permanent(errDown))
		err := retry.Do(t.Context(), retry.Policy{}, func(ctx context.Context) error {
			return retry.Do(ctx, retry.Policy{}, fn)
		})
		wantCalls(t, calls, 1)
		wantIs(t, err, errDown)
	})
}

// The first attempt may have taken effect; the later ones never got through. Reporting only the later
// ones would tell the caller that nothing happened.
func TestLostReplyStaysUnknownUntilSettled(t *testing.T) {
	unknown := fmt.Errorf("reply lost: %w", fifty.ErrUnknownOutcome)
	errDenied := errors.New("credentials rejected")
	synctest.Test(t, func(t *testing.T) {
		fn, _ := failing(unknown, errDown, errDown, errDown, errDown)
		err := retry.Do(t.Context(), retry.Policy{Idempotent: true}, fn)
		wantIs(t, err, fifty.ErrUnknownOutcome, errDown, retry.ErrAttemptsMax)
		if _, ok := errors.AsType[*retry.ExhaustedError](err); !ok {
			t.Errorf("no *ExhaustedError in %v", err)
		}

		fn, calls := failing(unknown, errDenied)
		err = retry.Do(t.Context(), retry.Policy{Idempotent: true, Retryable: func(err error) bool { return err != errDenied }}, fn)
		wantCalls(t, calls, 2)
		wantIs(t, err, fifty.ErrUnknownOutcome, errDenied)

		ctx, cancel := context.WithCancel(t.Context())
		attempt := 0
		err = retry.Do(ctx, retry.Policy{Idempotent: true}, func(context.Context) error {
			if attempt++; attempt == 1 {
				return unknown
			}
			cancel()
			return errDown
		})
		wantIs(t, err, fifty.ErrUnknownOutcome, context.Canceled, errDown)

		fn, calls = failing(unknown, retry.Permanent(errDown))
		err = retry.Do(t.Context(), retry.Policy{Idempotent: true}, fn)
		wantCalls(t, calls, 2)
		wantIs(t, err, errDown)
		wantIsNot(t, err, fifty.ErrUnknownOutcome)

		fn, _ = failing(unknown)
		if err = retry.Do(t.Context(), retry.Policy{Idempotent: true}, fn); err != nil {
			t.Errorf("a success didn't settle the lost reply: %v", err)
		}
	})
}

func TestEndedContextRunsNothing(t *testing.T) {
	errShutdown := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errShutdown)
	fn, calls := always(errDown)
	err := retry.Do(ctx, retry.Policy{}, fn)
	wantCalls(t, calls, 0)
	wantIs(t, err, context.Canceled, errShutdown)
}

func TestContextThatEndsDuringAnAttemptEndsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errShutdown := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		began := time.Now()
		err := retry.Do(ctx, retry.Policy{Jitter: most}, func(context.Context) error {
			calls++
			cancel(errShutdown)
			return errDown
		})
		wantCalls(t, &calls, 1)
		wantIs(t, err, context.Canceled, errShutdown, errDown)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v after the context had ended", waited)
		}
		for _, part := range []string{"context canceled", errShutdown.Error(), errDown.Error(), "1 attempt"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("message %q doesn't say %q", err, part)
			}
		}
	})
}

func TestEndOfTheContextIsAskedBeforeTheBounds(t *testing.T) {
	for _, attempts := range []int{1, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		clock := &manualClock{}
		err := retry.Do(ctx, retry.Policy{AttemptsMax: attempts, Clock: clock}, func(context.Context) error { cancel(); return errDown })
		wantIs(t, err, context.Canceled, errDown)
		wantIsNot(t, err, retry.ErrExhausted)
		if len(clock.waits) != 0 {
			t.Errorf("waited %v after the context had ended", clock.waits)
		}
	}
}

func TestContextThatEndsDuringAWaitEndsItAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		fn, calls := always(errDown)
		err := retry.Do(ctx, retry.Policy{Base: 10 * time.Second, Jitter: most}, fn)
		wantCalls(t, calls, 1)
		wantIs(t, err, context.DeadlineExceeded, errDown)
		wantIsNot(t, err, retry.ErrExhausted)
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("came back after %v, want 3s", waited)
		}
	})
}

func TestResultCountsEvenIfTheContextHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := retry.Do(ctx, retry.Policy{}, func(context.Context) error { cancel(); return nil }); err != nil {
		t.Errorf("a success was reported as %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	answer := retry.Permanent(errDown)
	if err := retry.Do(ctx, retry.Policy{}, func(context.Context) error { cancel(); return answer }); err != answer {
		t.Errorf("a definite answer was reported as %v", err)
	}
}

func TestFnGetsTheCallersContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "caller")
	err := retry.Do(ctx, retry.Policy{}, func(got context.Context) error {
		if got != ctx {
			t.Error("fn got another context")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPanicPassesThrough(t *testing.T) {
	defer func() {
		if got := recover(); got != "boom" {
			t.Errorf("recovered %v, want fn's panic", got)
		}
	}()
	_ = retry.Do(t.Context(), retry.Policy{}, func(context.Context) error { panic("boom") })
	t.Error("the panic was swallowed")
}

func TestImpossiblePoliciesRunNothing(t *testing.T) {
	for field, policy := range map[string]retry.Policy{
		"Policy.Base":        {Base: -1},
		"Policy.Cap":         {Cap: math.MinInt64},
		"Policy.ElapsedMax":  {ElapsedMax: -1},
		"Policy.AttemptsMax": {AttemptsMax: -1},
	} {
		fn, calls := always(errDown)
		err := retry.Do(t.Context(), policy, fn)
		wantCalls(t, calls, 0)
		wantIs(t, err, fifty.ErrInvalid)
		if invalid, ok := errors.AsType[*fifty.InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("got %v, want an InvalidError of %s", err, field)
		}
	}
	wantIs(t, retry.Do(t.Context(), retry.Policy{}, nil), fifty.ErrInvalid)
	_, err := retry.Value[int](t.Context(), retry.Policy{}, nil)
	wantIs(t, err, fifty.ErrInvalid)
}

func TestValueIsThatOfTheAttemptThatSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		got, err := retry.Value(t.Context(), retry.Policy{}, func(context.Context) (int, error) {
			if calls++; calls < 3 {
				return -calls, errDown
			}
			return calls, nil
		})
		if got != 3 || err != nil {
			t.Errorf("got %d, %v; want 3", got, err)
		}
		got, err = retry.Value(t.Context(), retry.Policy{}, func(context.Context) (int, error) { return 9, errDown })
		if got != 0 {
			t.Errorf("a failed attempt's value %d came back", got)
		}
		wantIs(t, err, errDown, retry.ErrAttemptsMax)
	})
}
