package gitdir

import (
	"syscall"

	"polis/fusefs"
)

var _ fusefs.ObjectCounter = (*Guard)(nil)

// room checks that the agent may take more space on the disk.
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

// Counted implements fusefs.ObjectCounter. Objects that all agents see are not charged to the
// agent.
func (g *Guard) Counted(path string, n int) {
	if g.cfg.Counted == nil {
		return
	}
	if Route(path, g.cfg.Worktree) == 1 || classify(path, g.cfg.Worktree) == classWorktree {
		g.cfg.Counted(n)
	}
}
