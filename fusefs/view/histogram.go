package view

import "sync/atomic"

// Buckets is the number of buckets of Times.
const Buckets = 13

// Bounds are the upper bounds of the buckets of Times, inclusive, in nanoseconds. The last bucket has
// no bound. 10 ms is the bound of seed 002, "Isolation Overhead Bound".
var Bounds = [Buckets - 1]int64{1e3, 5e3, 25e3, 100e3, 500e3, 1e6, 5e6, 10e6, 50e6, 250e6, 1e9, 10e9}

// Times are durations, counted by buckets. Their counts only grow.
type Times struct {
	// Counts has a number for each bucket, which does not contain the buckets below.
	Counts [Buckets]int64
	// Sum is the sum of all durations, in nanoseconds.
	Sum int64
}

// Histogram collects Times. The zero value is empty and ready to use; it is safe for concurrent use.
type Histogram struct {
	counts [Buckets]atomic.Int64
	sum    atomic.Int64
}

// Observe counts a duration, in nanoseconds. Less than zero counts as zero.
func (h *Histogram) Observe(nanos int64) {
	nanos = max(nanos, 0)
	i := 0
	for i < len(Bounds) && nanos > Bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(nanos)
}

// Times returns what was counted. A duration that is counted at the same moment can be in Sum and in
// no bucket, or the reverse.
func (h *Histogram) Times() Times {
	t := Times{Sum: h.sum.Load()}
	for i := range h.counts {
		t.Counts[i] = h.counts[i].Load()
	}
	return t
}

// Set sets what was counted. It must not be called concurrently with Observe.
func (h *Histogram) Set(t Times) {
	h.sum.Store(t.Sum)
	for i := range h.counts {
		h.counts[i].Store(t.Counts[i])
	}
}
