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
	// Suppressed counts refusals that were not passed to OnDenial.
	Suppressed int64
}

type counters struct {
	reads, writes, readDenied, writeDenied    atomic.Int64
	lockConflicts, lockdUnavailable, withheld atomic.Int64
	avgRead, avgWrite                         atomic.Int64
}

// Stats returns the present counters.
func (g *Guard) Stats() Stats {
	s := &g.stats
	return Stats{
		ReadCount: s.reads.Load(), WriteCount: s.writes.Load(),
		ReadDenied: s.readDenied.Load(), WriteDenied: s.writeDenied.Load(),
		LockConflicts: s.lockConflicts.Load(), LockdUnavailable: s.lockdUnavailable.Load(),
		AvgReadLatency: s.avgRead.Load(), AvgWriteLatency: s.avgWrite.Load(),
		Suppressed: s.withheld.Load(),
	}
}

// Count implements fusefs.Guard.
func (g *Guard) Count(_ fusefs.Op, write bool, _ syscall.Errno, nanos int64) {
	n, avg := &g.stats.reads, &g.stats.avgRead
	if write {
		n, avg = &g.stats.writes, &g.stats.avgWrite
	}
	n.Add(1)
	for {
		old := avg.Load()
		if avg.CompareAndSwap(old, (old*9+nanos)/10) {
			return
		}
	}
}
