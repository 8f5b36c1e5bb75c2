package shim

import (
	"fmt"
	"io"
	"os"
	"slices"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/isolation"
	"polis/daemon/shim/leftover"
	"polis/fusefs/view"
)

// maxUnasked bounds the commands of persons whose refusals are counted.
const maxUnasked = 256

// unasked counts the refusals of one person's command, for its end.
type unasked struct {
	first string // the path of the first
	n     int
}

// origin returns where a process comes from, and the command in the sandbox that it is of.
func (s *Shim) origin(pid int) (leftover.Origin, int) {
	if !s.entered.Load() { // the view is mounted before anything runs in the sandbox
		return leftover.Outside, 0
	}
	return s.leftovers.Origin(pid, s.roots())
}

func (s *Shim) roots() leftover.Roots {
	return leftover.Roots{Parent: os.Getpid(), Init: s.sandbox.InitPid(), Main: int(s.mainPid.Load()), Starts: s.starts.Load() > 0, Adopts: slices.Contains(s.Spec.Lost, isolation.PID)}
}

// lineOf returns the ancestors of a process of the agent's command.
func (s *Shim) lineOf(pid int) (leftover.Line, bool) { return s.leftovers.LineOf(pid, s.roots()) }

// underLine reports whether a process is the nearest of a line, or descends from it (leftover.Tracker.Under).
func (s *Shim) underLine(pid int, l leftover.Line, since uint64) (leftover.Line, bool) {
	return s.leftovers.Under(pid, l, since)
}

// startGuest starts a command in the sandbox that is not the agent's: a person's, or, with own, one that polisd runs for the
// agent.
func (s *Shim) startGuest(p sandbox.Process, own bool) (*sandbox.Proc, error) {
	if own {
		s.starts.Add(1)
		defer s.starts.Add(-1)
	}
	proc, err := s.sandbox.Start(p)
	if err == nil {
		s.leftovers.Guest(proc.Pid(), own)
	}
	return proc, err
}

// unasked refuses a call for which no question is opened: it is not the agent's, and who made it does not know that it
// waits. It is nil for the agent's own calls.
func (p *pathAsker) unasked(pid int, path string) *view.Verdict {
	if p.origin == nil {
		return nil
	}
	of := p.s.Spec.Agent
	switch o, command := p.origin(pid); o {
	case leftover.Persons:
		p.mu.Lock()
		defer p.mu.Unlock()
		u, ok := p.unaskedOf[command]
		if !ok && len(p.unaskedOf) >= maxUnasked {
			clear(p.unaskedOf) // commands that have ended, but for what they left in the background
		}
		if u.n++; u.n == 1 {
			u.first = path
		}
		p.unaskedOf[command] = u
		return &view.Verdict{Foreign: true, Reason: "the rule asks about calls of the agent's own program; a command of polisctl agents exec or shell is refused at once. " +
			"An answer with --for agent holds for it, too; polisctl agents policy " + of + " shows the rule"}
	case leftover.Outside:
		return &view.Verdict{Foreign: true, Reason: "the rule asks about calls of the agent's own program; a program outside of the sandbox is refused at once. " +
			"An answer with --for agent holds for it, too; polisctl agents policy " + of + " shows the rule"}
	}
	return nil
}

// unaskedText says what a person's command was refused without a question, in a line; "" for nothing. It forgets it.
func (p *pathAsker) unaskedText(command int) string {
	p.mu.Lock()
	u := p.unaskedOf[command]
	delete(p.unaskedOf, command)
	p.mu.Unlock()
	what := api.PrintPath(api.Shorten(u.first, 200))
	switch u.n {
	case 0:
		return ""
	case 1:
		what += " needs an approval"
	default:
		what = fmt.Sprintf("%s and %s need approvals", what, api.Count(u.n-1, "other call"))
	}
	return fmt.Sprintf("polis: %s, which this command does not ask for: refused; polisctl agents why %s", what, p.s.Spec.Agent)
}

// tellUnasked sends the line about a command that has ended to its client.
func (s *Shim) tellUnasked(fw *wire.Writer, command int, tty bool) {
	text := s.pathAsker.unaskedText(command)
	if text == "" {
		return
	}
	to, end := wire.FrameStderr, "\n"
	if tty { // its terminal is raw, and shows one stream
		to, end = wire.FrameStdout, "\r\n"
	}
	_, _ = io.WriteString(fw.Stream(to), text+end) //nolint:errcheck // the client has disconnected: nobody reads it
}
