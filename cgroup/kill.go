package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Procs returns the processes of the group and of all groups below it, in any hierarchy, sorted.
// A missing group has none.
func (g *Group) Procs() ([]int, error) {
	var out []int
	for _, hier := range g.host.hierarchies {
		err := walk(g.dir(hier), func(dir string) error {
			p, err := readPids(dir, "cgroup.procs")
			if err != nil && !gone(err) {
				return err
			}
			out = append(out, p...)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("processes of cgroup %s: %w", g.Path, err)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func walk(root string, fn func(dir string) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !d.IsDir() {
			return nil
		}
		return fn(p)
	})
}

// Kill kills every process of the group and of those below it, however it was forked or
// daemonised, and returns when none is left. It returns [ErrSelf] if the caller is among them,
// and [ErrBusy] if ctx ends first (a process in an uninterruptible wait cannot be killed).
func (g *Group) Kill(ctx context.Context) error {
	wait := newBackoff()
	for {
		procs, err := g.Procs()
		if err != nil {
			return err
		}
		if len(procs) == 0 {
			// A frozen group that is empty would freeze the next process to enter.
			return g.freeze(false)
		}
		if slices.Contains(procs, os.Getpid()) {
			return fmt.Errorf("kill cgroup %s: %w", g.Path, ErrSelf)
		}
		if err := g.killOnce(procs); err != nil {
			return fmt.Errorf("kill cgroup %s: %w", g.Path, err)
		}
		if err := wait.sleep(ctx); err != nil {
			return fmt.Errorf("kill cgroup %s: %w: %d left: %w", g.Path, ErrBusy, len(procs), err)
		}
	}
}

// killOnce uses cgroup.kill if it exists, which the kernel makes atomic against forks. It kills
// process by process all the same: a process may be in the v1 groups and not in the v2 one.
func (g *Group) killOnce(procs []int) error {
	for _, hier := range g.host.hierarchies {
		if !hier.v2 {
			continue
		}
		// cgroup.kill is new in Linux 5.14.
		if err := writeFile(g.dir(hier), "cgroup.kill", "1"); err != nil && !gone(err) {
			return err
		}
		if g.host.Mode == V2 {
			if _, err := os.Stat(filepath.Join(g.dir(hier), "cgroup.kill")); err == nil {
				return nil
			}
		}
	}
	// Frozen processes cannot fork while their list is read. The signal stays
	// pending and is taken at the thaw.
	if err := g.freeze(true); err != nil {
		return err
	}
	if frozen, err := g.Procs(); err == nil {
		procs = frozen
	}
	var first error
	for _, pid := range procs {
		if err := g.killOne(pid); err != nil && first == nil {
			first = err
		}
	}
	return errors.Join(first, g.freeze(false))
}

// KillFile opens the file to which a write of "1" kills all processes in the group and below it.
// Its holder needs no privileges. os.ErrNotExist: the group is in no v2 hierarchy, or the kernel
// is older than 5.14.
func (g *Group) KillFile() (*os.File, error) {
	for _, hier := range g.host.hierarchies {
		if hier.v2 {
			return os.OpenFile(filepath.Join(g.dir(hier), "cgroup.kill"), os.O_WRONLY, 0)
		}
	}
	return nil, os.ErrNotExist
}

// killOne kills a process if it is still the listed member of the group: its number may have been
// reused since.
func (g *Group) killOne(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !g.member(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// member reports whether a process is in the group or below it, in any hierarchy.
func (g *Group) member(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		p, ok := g.host.visible(parts[1], parts[2])
		if ok && (p == g.Path || strings.HasPrefix(p, g.Path+"/")) {
			return true
		}
	}
	return false
}
