package main

import (
	"cmp"
	"slices"
)

// median is the middle of values, or the mean of the two in the middle. Of none it is zero.
func median[T int64 | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile is the smallest value that p percent of values don't exceed. Of none it is zero.
func percentile[T cmp.Ordered](values []T, p int) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := (len(sorted)*p + 99) / 100
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// ratios divides ours by theirs, round by round.
func ratios(ours, theirs []float64) []float64 {
	out := make([]float64, len(ours))
	for i := range ours {
		out[i] = ours[i] / theirs[i]
	}
	return out
}
