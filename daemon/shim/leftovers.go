package shim

import (
	"context"
	"net/http"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/leftover"
	"polis/netbridge"
)

// openLeftovers begins to track the processes that the main command leaves running.
func (s *Shim) openLeftovers() {
	s.leftovers = &leftover.Tracker{Procs: func() ([]int, error) {
		pids, err := s.sandbox.Pids()
		return slices.DeleteFunc(pids, func(pid int) bool { return pid == s.sandbox.InitPid() }), err
	}}
}

// leftRunning records the processes that are left of a main command that began at since and has
// exited. task is the task that it was, or "".
func (s *Shim) leftRunning(since uint64, task string) {
	if err := s.leftovers.Ended(since, task); err != nil {
		s.Log.Warn("processes that the command left running not found", "err", err)
	}
}

// listLeftovers returns the processes that are left running, with their ports.
func (s *Shim) listLeftovers(ctx context.Context) ([]api.Leftover, error) {
	left, err := s.leftovers.List()
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "%w", err)
	}
	var listeners []netbridge.Listener
	if s.ns != nil && len(left) > 0 {
		if listeners, err = s.ns.Listeners(ctx); err != nil {
			s.Log.Debug("listeners", "err", err) // they are listed without ports
		}
	}
	out := []api.Leftover{}
	for _, p := range left {
		l := api.Leftover{PID: p.PID, Program: p.Name, Command: api.Shorten(p.Command, 200), MemoryBytes: p.Memory}
		for _, ls := range listeners {
			port := api.LeftoverPort{Port: int(ls.Port), Protocol: ls.Proto}
			if slices.Contains(p.Inodes, ls.Inode) && !slices.Contains(l.Ports, port) && len(l.Ports) < 16 {
				l.Ports = append(l.Ports, port)
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// handleLeftovers is GET /v1/leftovers. With DELETE it first ends the processes.
func (s *Shim) handleLeftovers(w http.ResponseWriter, r *http.Request) error {
	var res api.Leftovers
	if r.Method == http.MethodDelete {
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(s.Spec.StopGrace)+10*time.Second)
		defer cancel()
		n, err := s.leftovers.End(ctx, time.Duration(s.Spec.StopGrace))
		if err != nil {
			return api.Errorf(api.CodeReapFailed, "end what the task of agent %s left running: %w", s.Spec.Agent, err)
		}
		res.Ended = n
	}
	var err error
	if res.Leftovers, err = s.listLeftovers(r.Context()); err != nil {
		return err
	}
	return writeJSON(w, res)
}
