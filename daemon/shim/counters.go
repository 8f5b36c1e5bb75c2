package shim

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"polis/daemon/api"
	"polis/daemon/store/counters"
	"polis/fusefs/view"
)

// keptCounters are the agent's counters, which continue where the last shim's ended.
type keptCounters struct {
	// leaseWaits are how long requests for leases took that were sent to polisd.
	leaseWaits view.Histogram
	// questionsDenied is as in api.Counters.
	questionsDenied atomic.Int64

	mu     sync.Mutex
	file   *counters.File // nil if it cannot be opened, or there is none
	failed func(err error)
	broken bool // the last attempt to save failed
}

// openCounters lets the guard continue from the counters of the agent's last shim. An agent does not
// depend on it.
func (s *Shim) openCounters(g *view.Guard) {
	f, last, damaged, err := counters.Open(s.logDir(), s.Spec.Created)
	if err != nil {
		s.Log.Error("counters begin with zero, and are not kept", "op", "counters", "err", err)
		return
	}
	if damaged {
		s.Log.Warn("counters begin with zero: their file was damaged", "op", "counters", "path", s.Spec.LogDir)
	}
	st := view.Stats{ReadCount: last.Counters.ReadCount, WriteCount: last.Counters.WriteCount, ReadDenied: last.Counters.ReadDenied, WriteDenied: last.Counters.WriteDenied,
		LockConflicts: last.Counters.LockConflicts, AvgReadLatency: last.Counters.AvgReadLatency, AvgWriteLatency: last.Counters.AvgWriteLatency}
	if slices.Equal(last.Times.Bounds, view.Bounds[:]) {
		st.ReadTimes, st.WriteTimes = timesOf(last.Times.Reads), timesOf(last.Times.Writes)
		s.kept.leaseWaits.Set(timesOf(last.Times.LeaseWaits))
	}
	g.SetStats(st)
	s.kept.questionsDenied.Store(last.Counters.QuestionsDenied)
	s.kept.file = f
	s.kept.failed = func(err error) { s.Log.Warn("counters not saved", "op", "counters", "err", err) }
	// Before the guard closes, and after the view has ended.
	s.onClose("counters", func(context.Context) error {
		s.kept.report(g)
		s.kept.mu.Lock()
		defer s.kept.mu.Unlock()
		s.kept.file = nil
		return f.Close()
	})
}

// counters returns the agent's counters.
func (s *Shim) counters() api.Counters {
	c, _ := s.kept.report(s.views.guard)
	return c
}

// report returns the counters. They are in the file before they are returned, so that the next shim
// reports no less.
func (k *keptCounters) report(g *view.Guard) (api.Counters, api.AgentTimes) {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := g.Stats()
	c := api.Counters{ReadCount: st.ReadCount, WriteCount: st.WriteCount, ReadDenied: st.ReadDenied, WriteDenied: st.WriteDenied,
		LockConflicts: st.LockConflicts, QuestionsDenied: k.questionsDenied.Load(), AvgReadLatency: st.AvgReadLatency, AvgWriteLatency: st.AvgWriteLatency}
	t := api.AgentTimes{Bounds: view.Bounds[:], Reads: wireTimes(st.ReadTimes), Writes: wireTimes(st.WriteTimes), LeaseWaits: wireTimes(k.leaseWaits.Times())}
	if k.file != nil {
		err := k.file.Save(counters.Record{Counters: c, Times: t})
		if err != nil && !k.broken {
			k.failed(err)
		}
		k.broken = err != nil
	}
	return c, t
}

func wireTimes(t view.Times) api.Times {
	return api.Times{Counts: slices.Clone(t.Counts[:]), SumNanos: t.Sum}
}

func timesOf(t api.Times) view.Times {
	out := view.Times{Sum: t.SumNanos}
	copy(out.Counts[:], t.Counts)
	return out
}
