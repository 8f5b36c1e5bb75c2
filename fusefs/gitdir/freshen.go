package gitdir

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// freshen sets the time of an existing object or pack to now. The agent may not change these
// attributes itself. Git usually sets the time instead of writing an object again, and maintenance
// keeps objects with a recent time.
func (g *Guard) freshen(path string) {
	fd, err := unix.Openat2(g.roots[Route(path, g.cfg.Worktree)], path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: resolve})
	if errors.Is(err, syscall.ENOENT) {
		return
	}
	if err == nil {
		defer unix.Close(fd)
		err = unix.UtimesNanoAt(fd, "", nil, unix.AT_EMPTY_PATH)
	}
	if err != nil && g.cfg.Log != nil {
		g.cfg.Log.Warn("time of an object not set", "agent", g.cfg.Agent, "path", path, "err", err)
	}
}
