package shim

import (
	"context"
	"errors"
	"net/netip"

	"polis/daemon/gateway"
	"polis/daemon/shim/leftover"
)

// workOf returns what a request to a model counts for: the task that runs or, of a process that a task left running, that
// task. While no task runs, only what certainly belongs to a person's shell, or to a command that a person started, counts
// for none; everything else counts for the last task. So no process of the agent is without the bound of a task once there
// was one. from is the agent's end of the connection; the zero value asks for what the agent works on now.
func (s *Shim) workOf(from netip.AddrPort) gateway.Work {
	s.mu.Lock()
	now, last, main := "", s.lastTask, 0
	if s.main != nil && !s.main.over() {
		if now = s.task.id; now == "" {
			main = s.main.proc.Pid()
		}
	}
	s.mu.Unlock()
	switch {
	case !from.IsValid(), last == "", now != "" && !s.leftovers.Any():
		return gateway.Work{Task: now}
	}
	h := s.sendersAt(from, main)
	switch {
	case h.Task != "":
		return gateway.Work{Task: h.Task, Over: h.Task != now}
	case now != "" || h.Guests:
		return gateway.Work{Task: now}
	}
	return gateway.Work{Task: last, Over: true}
}

// sendersAt returns which processes have the socket at the agent's end of a connection to the endpoint; nothing if they
// are not found in time. One search is made at a time: an agent cannot have its shim make many.
func (s *Shim) sendersAt(from netip.AddrPort, main int) leftover.Holders {
	s.senders.Lock()
	defer s.senders.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, findTime)
	defer cancel()
	inode, ok, err := s.ns.Owner(ctx, "tcp", from, modelAddr())
	var h leftover.Holders
	if err == nil && ok {
		h, err = s.leftovers.Holders(ctx, inode, main)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		s.Log.Warn("processes that send a request to a model not found", "op", "model", "err", err)
	}
	return h
}
