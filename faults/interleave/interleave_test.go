package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiftyhosts/fifty/faults/interleave"
)

// unhurried is the grace of cases in which nobody is blocked: a caller that is only slow keeps its turn.
const unhurried = time.Minute

// steps is a caller that stops at n points and tells seen of each.
func steps(n int, seen func(i int)) func(ctx context.Context) {
	return func(ctx context.Context) {
		for i := range n {
			interleave.Point(ctx, fmt.Sprintf("step %d", i))
			seen(i)
		}
	}
}

func TestEveryOrderIsRunOnce(t *testing.T) {
	for _, tc := range []struct {
		points []int
		want   int // the multinomial of the points
	}{
		{[]int{1, 1}, 2},
		{[]int{2, 2}, 6},
		{[]int{3, 3}, 20},
		{[]int{1, 4}, 5},
		{[]int{2, 2, 2}, 90},
		{[]int{5}, 1},
	} {
		t.Run(fmt.Sprint(tc.points), func(t *testing.T) {
			orders := map[string]int{}
			report, err := interleave.Explore(t.Context(), interleave.Options{SchedulesMin: 1, Grace: unhurried}, func(int) interleave.Case {
				var order strings.Builder
				c := interleave.Case{Check: func() error { orders[order.String()]++; return nil }}
				for id, n := range tc.points {
					c.Callers = append(c.Callers, steps(n, func(int) { fmt.Fprint(&order, id) }))
				}
				return c
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.Schedules != tc.want || len(orders) != tc.want {
				t.Errorf("%v with %d different orders, want %d", report, len(orders), tc.want)
			}
		})
	}
}

func TestPreemptionsAreBounded(t *testing.T) {
	// Two callers with three points: without an interruption one runs after the other, AAABBB and BBBAAA.
	// One interruption adds AABBBA, ABBBAA and the same begun by B.
	little := []string{"AAABBB", "AABBBA", "ABBBAA", "BAAABB", "BBAAAB", "BBBAAA"}
	for _, tc := range []struct {
		preemptionsMax, ordersMax int
		want                      int
	}{
		{1, 0, len(little)},
		{1, 6, 6 + 3}, // six in all, three of them little, and the other three little ones
		{1, 20, 20},
		{100, 0, 20},
	} {
		t.Run(fmt.Sprintf("%d of %d", tc.preemptionsMax, tc.ordersMax), func(t *testing.T) {
			orders := map[string]bool{}
			opts := interleave.Options{PreemptionsMax: tc.preemptionsMax, OrdersMax: tc.ordersMax, Grace: unhurried}
			report, err := interleave.Explore(t.Context(), opts, func(int) interleave.Case {
				var order strings.Builder
				caller := func(name string) func(context.Context) {
					return steps(3, func(int) { order.WriteString(name) })
				}
				return interleave.Case{
					Callers: []func(context.Context){caller("A"), caller("B")},
					Check:   func() error { orders[order.String()] = true; return nil },
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if report.Schedules != tc.want || len(orders) != tc.want || report.Bounded != (tc.want < 20) {
				t.Errorf("%v with %d different orders, want %d", report, len(orders), tc.want)
			}
			for _, order := range little {
				if !orders[order] {
					t.Errorf("%s was not run", order)
				}
			}
		})
	}
}

// lostUpdate is a counter that two callers raise by a read and a write.
func lostUpdate(int) interleave.Case {
	count := 0
	raise := func(ctx context.Context) {
		interleave.Point(ctx, "read")
		seen := count
		interleave.Point(ctx, "write")
		count = seen + 1
	}
	return interleave.Case{
		Callers: []func(context.Context){raise, raise},
		Check: func() error {
			if count != 2 {
				return fmt.Errorf("two callers raised the counter to %d", count)
			}
			return nil
		},
	}
}

func TestALostUpdateIsFoundAndReplayed(t *testing.T) {
	_, err := interleave.Explore(t.Context(), interleave.Options{Grace: unhurried}, lostUpdate)
	failure, ok := errors.AsType[*interleave.Failure](err)
	if !ok {
		t.Fatalf("the lost update went unnoticed: %v", err)
	}
	if !strings.Contains(failure.Error(), failure.Schedule) || len(failure.Trace) != len(failure.Schedule) {
		t.Errorf("the failure does not tell its schedule: %v", failure)
	}
	_, err = interleave.Explore(t.Context(), interleave.Options{Schedule: failure.Schedule, Grace: unhurried}, lostUpdate)
	again, ok := errors.AsType[*interleave.Failure](err)
	if !ok || again.Schedule != failure.Schedule || again.Err.Error() != failure.Err.Error() {
		t.Errorf("the replay gave %v, want %v", err, failure)
	}
	if _, err = interleave.Explore(t.Context(), interleave.Options{Schedule: "AABB", Grace: unhurried}, lostUpdate); err != nil {
		t.Errorf("one after the other: %v", err)
	}
}

// locked is two callers that hold a lock across a point, which the scheduler can't see.
func locked(int) interleave.Case {
	var mu sync.Mutex
	inside, most := 0, 0
	caller := func(ctx context.Context) {
		interleave.Point(ctx, "lock")
		mu.Lock()
		inside++
		most = max(most, inside)
		interleave.Point(ctx, "unlock")
		inside--
		mu.Unlock()
		interleave.Point(ctx, "after")
	}
	return interleave.Case{Callers: []func(context.Context){caller, caller}, Check: func() error {
		if most != 1 {
			return fmt.Errorf("%d callers held the lock", most)
		}
		return nil
	}}
}

func TestACallerThatIsBlockedOutsideLetsTheOthersGoOn(t *testing.T) {
	report, err := interleave.Explore(t.Context(), interleave.Options{Grace: 20 * time.Millisecond}, locked)
	if err != nil {
		t.Fatal(err)
	}
	if report.Blocked == 0 {
		t.Errorf("nobody was blocked: %v", report)
	}
	if report.Schedules < 6 {
		t.Errorf("%v, want at least 6 schedules", report)
	}
}

func TestBlockedCallersAreTakenFromWhoKnowsThem(t *testing.T) {
	var mu sync.Mutex
	waiting := 0
	newCase := func(int) interleave.Case {
		lock := make(chan struct{}, 1)
		caller := func(ctx context.Context) {
			interleave.Point(ctx, "lock")
			mu.Lock()
			waiting++
			mu.Unlock()
			lock <- struct{}{}
			mu.Lock()
			waiting--
			mu.Unlock()
			interleave.Point(ctx, "unlock")
			<-lock
		}
		return interleave.Case{Callers: []func(context.Context){caller, caller}}
	}
	opts := interleave.Options{Blocked: func(context.Context) int {
		mu.Lock()
		defer mu.Unlock()
		return waiting
	}}
	report, err := interleave.Explore(t.Context(), opts, newCase)
	if err != nil {
		t.Fatal(err)
	}
	if report.Blocked == 0 || report.Diverged != 0 {
		t.Errorf("%v, want some blocked and none diverged", report)
	}
}

func TestCallersThatBlockOneAnotherAreReported(t *testing.T) {
	newCase := func(int) interleave.Case {
		a, b := make(chan struct{}, 1), make(chan struct{}, 1)
		caller := func(first, second chan struct{}) func(context.Context) {
			return func(ctx context.Context) {
				for _, lock := range []chan struct{}{first, second} {
					interleave.Point(ctx, "lock")
					select {
					case lock <- struct{}{}:
					case <-ctx.Done():
						return
					}
				}
				<-first
				<-second
			}
		}
		return interleave.Case{Callers: []func(context.Context){caller(a, b), caller(b, a)}}
	}
	opts := interleave.Options{Grace: 10 * time.Millisecond, Stuck: time.Second}
	_, err := interleave.Explore(t.Context(), opts, newCase)
	failure, ok := errors.AsType[*interleave.Failure](err)
	if !ok || !strings.Contains(failure.Err.Error(), "blocked by one another") {
		t.Errorf("two callers that wait for each other: %v", err)
	}
}

func TestACallerThatBreaksOffIsReported(t *testing.T) {
	for want, fn := range map[string]func(ctx context.Context){
		"panicked: boom":         func(context.Context) { panic("boom") },
		"left its goroutine":     func(context.Context) { runtime.Goexit() },
		"blocked, although all ": func(ctx context.Context) { <-ctx.Done() },
	} {
		t.Run(want, func(t *testing.T) {
			opts := interleave.Options{Grace: 50 * time.Millisecond, Stuck: time.Second}
			_, err := interleave.Explore(t.Context(), opts, func(int) interleave.Case {
				return interleave.Case{Callers: []func(context.Context){steps(1, func(int) {}), fn}}
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want one that says %q", err, want)
			}
		})
	}
}

func TestACaseThatLostItsPointsFails(t *testing.T) {
	nothing := func(context.Context) {}
	_, err := interleave.Explore(t.Context(), interleave.Options{}, func(int) interleave.Case {
		return interleave.Case{Callers: []func(context.Context){nothing, nothing}}
	})
	if err == nil || !strings.Contains(err.Error(), "only 1 schedules") {
		t.Errorf("two callers without a point: %v", err)
	}
}

func TestACaseThatIsTooLargeFails(t *testing.T) {
	_, err := interleave.Explore(t.Context(), interleave.Options{SchedulesMax: 19, Grace: unhurried}, func(int) interleave.Case {
		nothing := func(int) {}
		return interleave.Case{Callers: []func(context.Context){steps(3, nothing), steps(3, nothing)}}
	})
	if err == nil || !strings.Contains(err.Error(), "more than 19 schedules") {
		t.Errorf("20 schedules where 19 are allowed: %v", err)
	}
}

func TestGoroutinesOfACallerTakeTurnsToo(t *testing.T) {
	report, err := interleave.Explore(t.Context(), interleave.Options{SchedulesMin: 1}, func(int) interleave.Case {
		both := func(ctx context.Context) {
			var helpers sync.WaitGroup
			for range 3 {
				helpers.Go(func() { interleave.Point(ctx, "helper") })
			}
			helpers.Wait()
			go interleave.Point(ctx, "left behind")
		}
		return interleave.Case{Callers: []func(context.Context){both}}
	})
	if err != nil || report.Steps < 3 {
		t.Errorf("%v, %v, want three steps at least", report, err)
	}
}

func TestAPointOutsideOfAScheduleIsNone(t *testing.T) {
	interleave.Point(t.Context(), "nobody waits here")
}

func TestAnEndedContextEndsTheExploration(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := interleave.Explore(ctx, interleave.Options{}, func(n int) interleave.Case {
		if n == 2 {
			cancel()
		}
		nothing := func(int) {}
		return interleave.Case{Callers: []func(context.Context){steps(3, nothing), steps(3, nothing)}}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
