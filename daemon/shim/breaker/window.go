package breaker

import (
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
)

// window counts the events of the last minute, by seconds.
type window struct {
	total   int64
	buckets [minute]int64
	second  int64 // of the last count, since the epoch
	began   time.Time
	seen    map[string]int64 // distinct things, with the second of the first count
	last    []string
	pids    []uint32 // of the last counted, each once
}

// add counts n or, if distinct is given, one for a distinct thing that the window does not have. It
// returns the count of the last minute, and the time since which it counts.
func (w *window) add(now time.Time, n int64, distinct, what string, pid uint32) (int64, time.Time) {
	w.expire(now)
	if distinct != "" {
		if _, ok := w.seen[distinct]; ok {
			return w.total, w.began
		}
		if w.seen == nil {
			w.seen = map[string]int64{}
		}
		w.seen[strings.Clone(distinct)] = w.second
	}
	if w.total == 0 {
		w.began = now
	}
	w.total += n
	w.buckets[w.second%minute] += n
	if what != "" {
		w.last = append(w.last, api.Shorten(strings.Clone(what), maxText))
		w.last = w.last[max(0, len(w.last)-shown):]
	}
	if pid != 0 && !slices.Contains(w.pids, pid) {
		w.pids = append(w.pids, pid)
		w.pids = w.pids[max(0, len(w.pids)-shown):]
	}
	return w.total, w.began
}

// expire drops what is older than a minute.
func (w *window) expire(now time.Time) {
	second := now.Unix()
	gone := second - w.second
	switch {
	case gone <= 0:
		return // the clock may go back
	case gone >= minute:
		w.total, w.buckets, w.seen, w.last, w.pids = 0, [minute]int64{}, nil, nil, nil
	default:
		for s := w.second + 1; s <= second; s++ {
			w.total -= w.buckets[s%minute]
			w.buckets[s%minute] = 0
		}
		for k, at := range w.seen {
			if second-at >= minute {
				delete(w.seen, k)
			}
		}
		if first := time.Unix(second-minute+1, 0); w.began.Before(first) {
			w.began = first
		}
	}
	w.second = second
}
