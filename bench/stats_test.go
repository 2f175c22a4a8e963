package main

import (
	"math"
	"testing"
	"time"
)

func TestMedianIsTheMiddleOrTheMeanOfTheTwoInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentileIsTheSmallestValueThatCoversTheShare(t *testing.T) {
	values := make([]int64, 200) // 200, 199, … 1
	for i := range values {
		values[i] = int64(len(values) - i)
	}
	for p, want := range map[int]int64{0: 1, 1: 2, 50: 100, 99: 198, 100: 200} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile(1…200, %d) = %d, want %d", p, got, want)
		}
	}
	if got := percentile([]int64(nil), 50); got != 0 {
		t.Errorf("percentile of nothing = %d, want 0", got)
	}
}

func TestRatiosAreRoundByRound(t *testing.T) {
	got := ratios([]float64{10, 30}, []float64{20, 10})
	if got[0] != 0.5 || got[1] != 3 {
		t.Errorf("ratios = %v, want 0.5 and 3", got)
	}
}

func TestHistogramIsOffByAtMostAStep(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 31, 32, 33, 1000, 999_999, time.Millisecond, 17 * time.Second, 18 * time.Minute} {
		var h histogram
		h.add(d, 1)
		got := h.percentile(50)
		if got < d || float64(got) > float64(d)*(1+1.0/histogramSteps)+1 {
			t.Errorf("a latency of %d ns is told as %d ns", d, got)
		}
	}
}

func TestHistogramCountsWhatIsLongerThanItsRange(t *testing.T) {
	var h histogram
	h.add(-time.Second, 1) // a clock that went back
	h.add(time.Duration(math.MaxInt64), 3)
	if h.total != 4 || h.percentile(99) < 15*time.Minute {
		t.Errorf("total %d, p99 %v", h.total, h.percentile(99))
	}
}

func TestHistogramsOfWorkersAddUp(t *testing.T) {
	var all, slow histogram
	all.add(time.Microsecond, 98)
	slow.add(time.Second, 2)
	all.merge(&slow)
	if p50, p99 := all.percentile(50), all.percentile(99); all.total != 100 || p50 > 2*time.Microsecond || p99 < time.Second {
		t.Errorf("total %d, p50 %v, p99 %v", all.total, p50, p99)
	}
}
