package gitdir

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs"
)

var _ fusefs.Census = (*Guard)(nil)

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

// Counted is part of fusefs.Census. What everybody sees is not the agent's.
func (g *Guard) Counted(path string, n int) {
	if g.cfg.Counted == nil {
		return
	}
	switch classify(path, g.cfg.Worktree) {
	case classPrivate, classWorktree:
		g.cfg.Counted(n)
	}
}

// Unfinished is what the objects take on the disk that were begun through this
// mount and not published: they lie among those of others, and count for nobody
// until they are.
func (g *Guard) Unfinished() (files, bytes int64) {
	g.mu.Lock()
	var paths []string
	for p := range g.made {
		if !g.sealed[p] {
			paths = append(paths, p)
		}
	}
	g.mu.Unlock()
	slices.Sort(paths) // in a directory one after the other
	for _, p := range paths {
		if st, ok := g.look(p); ok {
			files, bytes = files+1, bytes+st.Blocks*512
		}
	}
	return files, bytes
}

func (g *Guard) look(path string) (st unix.Stat_t, ok bool) {
	fd, err := unix.Openat2(g.root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: resolve})
	if err != nil {
		return st, false // it is gone
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st) == nil
}
