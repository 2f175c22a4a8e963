package retry_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fiftyhosts/fifty/retry"
)

// manualClock stands still except in Sleep, which passes at once and notes the wait.
type manualClock struct {
	now   time.Time
	waits []time.Duration
	late  time.Duration // how much longer each Sleep takes than asked for
	err   error         // of each Sleep
}

func (c *manualClock) Now() time.Time { return c.now }

func (c *manualClock) Sleep(_ context.Context, d time.Duration) error {
	c.waits = append(c.waits, d)
	c.now = c.now.Add(d + c.late)
	return c.err
}

const forever = time.Duration(math.MaxInt64)

func TestWaitsDoubleUpToTheCap(t *testing.T) {
	clock := &manualClock{}
	fn, _ := always(errDown)
	_ = retry.Do(t.Context(), retry.Policy{Base: 100 * time.Millisecond, Cap: time.Second, AttemptsMax: 8, Jitter: most, Clock: clock}, fn)
	want := []time.Duration{100, 200, 400, 800, 1000, 1000, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(clock.waits, want) {
		t.Errorf("waited %v, want %v", clock.waits, want)
	}
}

func TestManyAttemptsNeverOverflowToNoWait(t *testing.T) {
	for _, base := range []time.Duration{1, time.Millisecond, time.Hour, forever} {
		for _, limit := range []time.Duration{1, 3 * time.Second, forever} {
			var drawnFrom []time.Duration
			fn, calls := always(errDown)
			_ = retry.Do(t.Context(), retry.Policy{
				Base: base, Cap: limit, ElapsedMax: forever, AttemptsMax: 200,
				Jitter: func(longest time.Duration) time.Duration { drawnFrom = append(drawnFrom, longest); return 0 },
				Clock:  &manualClock{},
			}, fn)
			wantCalls(t, calls, 200)
			previous := time.Duration(1)
			for n, longest := range drawnFrom {
				if longest < previous || longest > limit {
					t.Fatalf("base %v, cap %v: wait %d is drawn from %v, after %v", base, limit, n, longest, previous)
				}
				previous = longest
			}
			if last := drawnFrom[len(drawnFrom)-1]; last != limit {
				t.Errorf("base %v, cap %v: the last wait is drawn from %v, want the cap", base, limit, last)
			}
		}
	}
}

func TestCapDefaultsToNoLessThanBase(t *testing.T) {
	clock := &manualClock{}
	fn, _ := always(errDown)
	_ = retry.Do(t.Context(), retry.Policy{Base: 9 * time.Second, AttemptsMax: 3, Jitter: most, Clock: clock}, fn)
	if want := []time.Duration{9 * time.Second, 9 * time.Second}; !slices.Equal(clock.waits, want) {
		t.Errorf("waited %v, want %v", clock.waits, want)
	}
	clock = &manualClock{}
	_ = retry.Do(t.Context(), retry.Policy{AttemptsMax: 9, Jitter: most, Clock: clock}, fn)
	if longest := slices.Max(clock.waits); longest != 5*time.Second {
		t.Errorf("the zero policy waited up to %v, want 5s", longest)
	}
}

func TestJitterIsHeldWithinItsBounds(t *testing.T) {
	for drawn, want := range map[time.Duration]time.Duration{forever: time.Second, 1500 * time.Millisecond: time.Second, -1: 0, math.MinInt64: 0} {
		clock := &manualClock{}
		fn, _ := failing(errDown)
		err := retry.Do(t.Context(), retry.Policy{
			Base: time.Second, Clock: clock, Jitter: func(time.Duration) time.Duration { return drawn },
		}, fn)
		if err != nil || !slices.Equal(clock.waits, []time.Duration{want}) {
			t.Errorf("a jitter of %v waited %v (%v), want %v", drawn, clock.waits, err, want)
		}
	}
}

// Full jitter: the default draw covers all of [0, max] evenly, before the cap is reached and after.
// Each of the twenty bands of a draw stays empty with a probability of 0.95^2000, about 10⁻⁴⁵.
func TestDefaultJitterIsFullBeforeAndAfterTheCap(t *testing.T) {
	const bands, draws = 20, 2000
	for _, tt := range []struct {
		name   string
		retry  int // which retry is looked at
		within time.Duration
	}{{"first wait", 0, 200 * time.Millisecond}, {"past the cap", 6, 3 * time.Second}} {
		var seen [bands]int
		for range draws {
			clock := &manualClock{}
			fn, _ := always(errDown)
			_ = retry.Do(t.Context(), retry.Policy{
				Base: 200 * time.Millisecond, Cap: 3 * time.Second, ElapsedMax: time.Hour, AttemptsMax: tt.retry + 2, Clock: clock,
			}, fn)
			wait := clock.waits[tt.retry]
			if wait < 0 || wait > tt.within {
				t.Fatalf("%s: waited %v, want 0 to %v", tt.name, wait, tt.within)
			}
			seen[min(int(wait*bands/tt.within), bands-1)]++
		}
		if slices.Min(seen[:]) == 0 || slices.Max(seen[:]) > draws/bands*3 {
			t.Errorf("%s: not even over 0 to %v: %v", tt.name, tt.within, seen)
		}
	}
}

func TestDefaultJitterTakesTheLongestCap(t *testing.T) {
	fn, calls := failing(errDown)
	if err := retry.Do(t.Context(), retry.Policy{Base: forever, ElapsedMax: forever, Clock: &manualClock{}}, fn); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, 2)
}

func TestNoWaitBeginsThatWouldEndPastElapsedMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fn, calls := always(errDown)
		err := retry.Do(t.Context(), retry.Policy{Base: time.Second, Cap: time.Minute, ElapsedMax: 6 * time.Second, AttemptsMax: 99, Jitter: most}, fn)
		wantCalls(t, calls, 3) // at 0 s, 1 s and 3 s; the next wait would end at 7 s
		wantIs(t, err, retry.ErrElapsedMax, errDown)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
		exhausted, ok := errors.AsType[*retry.ExhaustedError](err)
		if !ok || exhausted.Attempts != 3 || exhausted.Elapsed != 3*time.Second || exhausted.Wait != 4*time.Second {
			t.Errorf("got %+v, want 3 attempts in 3s and a wait of 4s not begun", exhausted)
		}
	})
}

func TestAWaitMayEndAtElapsedMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fn, calls := always(errDown)
		err := retry.Do(t.Context(), retry.Policy{Base: time.Second, ElapsedMax: 3 * time.Second, AttemptsMax: 99, Jitter: most}, fn)
		wantCalls(t, calls, 3) // at 0 s, 1 s and 3 s
		wantIs(t, err, retry.ErrElapsedMax)
	})
}

func TestSlowAttemptsCountTowardsElapsedMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		err := retry.Do(t.Context(), retry.Policy{ElapsedMax: 10 * time.Second, AttemptsMax: 99}, func(ctx context.Context) error {
			calls++
			slow, cancel := context.WithTimeout(ctx, 11*time.Second)
			defer cancel()
			<-slow.Done()
			return errDown
		})
		wantCalls(t, &calls, 1)
		wantIs(t, err, retry.ErrElapsedMax)
	})
}

func TestNoAttemptAfterTheHostStoodStill(t *testing.T) {
	clock := &manualClock{late: time.Hour}
	fn, calls := always(errDown)
	err := retry.Do(t.Context(), retry.Policy{ElapsedMax: time.Minute, Clock: clock}, fn)
	wantCalls(t, calls, 1)
	wantIs(t, err, retry.ErrElapsedMax, errDown)
}

func TestClockThatGoesBackwardsStaysBounded(t *testing.T) {
	clock := &manualClock{now: time.Unix(0, 0), late: -24 * time.Hour}
	fn, calls := always(errDown)
	err := retry.Do(t.Context(), retry.Policy{ElapsedMax: forever, AttemptsMax: 9, Clock: clock}, fn)
	wantCalls(t, calls, 9)
	wantIs(t, err, retry.ErrAttemptsMax)
	if exhausted, ok := errors.AsType[*retry.ExhaustedError](err); !ok || exhausted.Elapsed != 0 {
		t.Errorf("got %+v, want no time elapsed", exhausted)
	}
}

func TestClockThatFailsEndsTheRetries(t *testing.T) {
	errClock := errors.New("clock stopped")
	fn, calls := always(errDown)
	err := retry.Do(t.Context(), retry.Policy{Clock: &manualClock{err: errClock}}, fn)
	wantCalls(t, calls, 1)
	wantIs(t, err, errClock, errDown)
}

func TestPushBackIsWaitedForAndJitterComesOnTop(t *testing.T) {
	for jitter, want := range map[time.Duration]time.Duration{0: 7 * time.Second, 50 * time.Millisecond: 7050 * time.Millisecond} {
		clock := &manualClock{}
		fn, calls := failing(retry.After(7*time.Second, errDown))
		err := retry.Do(t.Context(), retry.Policy{Clock: clock, Jitter: func(time.Duration) time.Duration { return jitter }}, fn)
		wantCalls(t, calls, 2)
		if err != nil || !slices.Equal(clock.waits, []time.Duration{want}) {
			t.Errorf("waited %v (%v), want %v", clock.waits, err, want)
		}
	}
}

func TestPushBackInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		fn, _ := failing(retry.After(20*time.Second, errDown))
		if err := retry.Do(t.Context(), retry.Policy{}, fn); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 20*time.Second || waited > 20*time.Second+50*time.Millisecond {
			t.Errorf("waited %v, want 20s and up to 50ms of jitter", waited)
		}
	})
}

func TestLongPushBackEndsAtOnceAndSaysSo(t *testing.T) {
	for _, asked := range []time.Duration{31 * time.Second, time.Hour, forever} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			fn, calls := always(retry.After(asked, errDown))
			err := retry.Do(t.Context(), retry.Policy{}, fn)
			wantCalls(t, calls, 1)
			wantIs(t, err, retry.ErrPushBack, retry.ErrExhausted, errDown)
			wantIsNot(t, err, retry.ErrElapsedMax)
			if waited := time.Since(began); waited != 0 {
				t.Errorf("waited %v for a peer that asked for %v", waited, asked)
			}
			if exhausted, ok := errors.AsType[*retry.ExhaustedError](err); !ok || exhausted.Wait != asked {
				t.Errorf("got %+v, want the %v that the peer asked for", exhausted, asked)
			}
			if !strings.Contains(err.Error(), asked.String()) {
				t.Errorf("message %q doesn't tell the wait asked for", err)
			}
		})
	}
}

func TestPushBackThatJustFitsIsNotRefusedForItsJitter(t *testing.T) {
	clock := &manualClock{}
	fn, calls := failing(retry.After(29*time.Second, errDown), retry.After(time.Second, errDown))
	err := retry.Do(t.Context(), retry.Policy{Base: 10 * time.Second, Clock: clock, Jitter: func(longest time.Duration) time.Duration {
		return longest * 0
	}}, fn)
	if err != nil || !slices.Equal(clock.waits, []time.Duration{29 * time.Second, time.Second}) {
		t.Errorf("waited %v (%v), want 29s and 1s", clock.waits, err)
	}
	wantCalls(t, calls, 3)

	clock = &manualClock{}
	fn, _ = failing(retry.After(29*time.Second, errDown))
	err = retry.Do(t.Context(), retry.Policy{Base: 10 * time.Second, Clock: clock, Jitter: most}, fn)
	if err != nil || !slices.Equal(clock.waits, []time.Duration{30 * time.Second}) {
		t.Errorf("waited %v (%v), want the jitter drawn from the second that is left", clock.waits, err)
	}
}
