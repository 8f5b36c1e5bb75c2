package view

import (
	"sync/atomic"
	"syscall"

	"polis/fusefs"
)

// Stats are an agent's counters. All except the averages only grow.
type Stats struct {
	// ReadCount and WriteCount count every gated operation, regardless of its result.
	ReadCount, WriteCount int64
	// ReadDenied and WriteDenied count refusals by policy and quota.
	ReadDenied, WriteDenied int64
	// LockConflicts counts writes that were refused because of another agent's lease,
	// LockdUnavailable those for which no lease was available.
	LockConflicts, LockdUnavailable int64
	// AvgReadLatency and AvgWriteLatency are in nanoseconds, each
	// (old*9 + sample)/10 after every operation.
	AvgReadLatency, AvgWriteLatency int64
	// ReadTimes and WriteTimes are the latencies of all gated operations.
	ReadTimes, WriteTimes Times
}

type counters struct {
	reads, writes, readDenied, writeDenied atomic.Int64
	lockConflicts, lockdUnavailable        atomic.Int64
	avgRead, avgWrite                      atomic.Int64
	readTimes, writeTimes                  Histogram
}

// Stats returns the present counters.
func (g *Guard) Stats() Stats {
	s := &g.stats
	return Stats{
		ReadCount: s.reads.Load(), WriteCount: s.writes.Load(),
		ReadDenied: s.readDenied.Load(), WriteDenied: s.writeDenied.Load(),
		LockConflicts: s.lockConflicts.Load(), LockdUnavailable: s.lockdUnavailable.Load(),
		AvgReadLatency: s.avgRead.Load(), AvgWriteLatency: s.avgWrite.Load(),
		ReadTimes: s.readTimes.Times(), WriteTimes: s.writeTimes.Times(),
	}
}

// SetStats sets the counters from which the guard continues. It must be called before the guard is
// used.
func (g *Guard) SetStats(from Stats) {
	s := &g.stats
	s.reads.Store(from.ReadCount)
	s.writes.Store(from.WriteCount)
	s.readDenied.Store(from.ReadDenied)
	s.writeDenied.Store(from.WriteDenied)
	s.lockConflicts.Store(from.LockConflicts)
	s.lockdUnavailable.Store(from.LockdUnavailable)
	s.avgRead.Store(from.AvgReadLatency)
	s.avgWrite.Store(from.AvgWriteLatency)
	s.readTimes.Set(from.ReadTimes)
	s.writeTimes.Set(from.WriteTimes)
}

// Count implements fusefs.Guard.
func (g *Guard) Count(_ fusefs.Op, write bool, _ syscall.Errno, nanos int64) {
	n, avg, times := &g.stats.reads, &g.stats.avgRead, &g.stats.readTimes
	if write {
		n, avg, times = &g.stats.writes, &g.stats.avgWrite, &g.stats.writeTimes
	}
	n.Add(1)
	times.Observe(nanos)
	for {
		old := avg.Load()
		if avg.CompareAndSwap(old, (old*9+nanos)/10) {
			return
		}
	}
}
