package gitdir

import (
	"syscall"

	"polis/fusefs"
)

var _ fusefs.ObjectCounter = (*Guard)(nil)

// room asks whether the agent may have more on the disk.
func (g *Guard) room(c fusefs.Caller, op fusefs.Op, path string) syscall.Errno {
	if g.cfg.Disk == nil || !op.Adds() {
		return 0
	}
	full := g.cfg.Disk(op)
	if full == "" {
		return 0
	}
	return g.refuseWith(c, op, path, syscall.EDQUOT, Denial{Code: codeQuota, Hint: full})
}

// Counted is part of fusefs.ObjectCounter. What everybody sees is not the agent's.
func (g *Guard) Counted(path string, n int) {
	if g.cfg.Counted == nil {
		return
	}
	if Route(path) == 1 || classify(path, g.cfg.Worktree) == classWorktree {
		g.cfg.Counted(n)
	}
}
