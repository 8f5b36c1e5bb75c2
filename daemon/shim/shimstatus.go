package shim

import (
	"os"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// status returns the state of the shim as polisd sees it.
func (s *Shim) status() wire.Status {
	counters, times := s.kept.report(s.views.guard)
	st := wire.Status{Version: wire.Version, MinVersion: wire.MinVersion, Agent: s.Spec.Agent, Generation: s.Spec.Generation, PID: os.Getpid(),
		InitPID: s.sandbox.InitPid(), StartedAt: s.started, Counters: counters, Times: &times, Sessions: int(s.sessions.Load()),
		Ports: s.ports.list(), Address: s.Spec.Address, LastEvent: s.events.Last(), Passthrough: s.views.tree.Passthrough(), Audit: s.Spec.Audit, Snapshots: s.snapshots.list(), OwnedRefs: s.views.ownedRefs()}
	if stats, err := s.sandbox.Stats(); err == nil {
		st.Memory, st.CPUMicros, st.Processes = int64(stats.MemoryBytes), stats.CPU.Microseconds(), int(stats.Pids)
	}
	if m := s.addMain(&st); m != nil && st.Running {
		st.Progress = s.progress(m)
	}
	return st
}

// addMain adds the state of the main command, and returns it; nil if there is none.
func (s *Shim) addMain(st *wire.Status) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.LimitHits = s.hits.list()
	st.OOM, st.Listening = s.oomOfMain(), s.listeningOn(api.ProtoTCP)
	st.ListeningUDP = s.listeningOn(api.ProtoUDP)
	st.LeftRunning, st.Waiting = s.leftovers.Any(), s.approvals.Waiting()
	if st.Frozen = s.freezer.state(); waitsForThaw(st.Frozen, st.Waiting) {
		st.Waiting = &api.Waiting{For: api.WaitingThaw, Since: st.Frozen.At, What: st.Frozen.Reason}
	}
	if st.Waiting == nil {
		st.Waiting = s.leaseWaits.waiting(time.Now())
	}
	if s.main != nil {
		st.Running, st.MainPID = !s.main.over(), s.main.proc.Pid()
		if st.Running {
			st.MainSince = s.mainStart.UTC()
		} else {
			st.ExitCode, st.ExitedAt = &s.main.code, &s.main.ended
		}
	}
	st.Said = s.said
	s.addTask(st)
	return s.main
}
