package main

import (
	"math/bits"
	"time"
)

const (
	// Each power of two is split into this many steps, so a latency is off by at most 1/32 of itself.
	histogramSteps     = 32
	histogramStepsBits = 5
	// histogramPowers covers latencies below 2^40 ns, 18 minutes; longer ones count as that.
	histogramPowers = 40
)

// A histogram counts latencies in bounded space. The zero value is empty. It is for one goroutine.
type histogram struct {
	counts [histogramPowers * histogramSteps]int64
	total  int64
}

func (h *histogram) add(d time.Duration, times int64) {
	h.counts[histogramIndex(d)] += times
	h.total += times
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// percentile is the upper end of the step that p percent of the latencies don't exceed.
func (h *histogram) percentile(p int64) time.Duration {
	rank, seen := max((h.total*p+99)/100, 1), int64(0)
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return histogramUpper(i)
		}
	}
	return 0
}

func histogramIndex(d time.Duration) int {
	n := uint64(max(d, 0)) //nolint:gosec // not negative
	if n < histogramSteps {
		return int(n) //nolint:gosec // below 32
	}
	power := bits.Len64(n) - 1 // at least histogramStepsBits
	step := n>>(power-histogramStepsBits) - histogramSteps
	index := (power-histogramStepsBits+1)*histogramSteps + int(step) //nolint:gosec // below 32
	return min(index, histogramPowers*histogramSteps-1)
}

func histogramUpper(index int) time.Duration {
	if index < histogramSteps {
		return time.Duration(index)
	}
	shift := index/histogramSteps - 1
	return time.Duration((index%histogramSteps+histogramSteps+1)<<shift - 1)
}
