package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one named group in every hierarchy of the host. It is only a name: the group need not
// exist.
type Group struct {
	Path string // below the mount points, as in "/polis-1/claude"
	host *Host
}

// Group names a group. It fails with [ErrPath] unless p is absolute, clean and
// not the root.
func (h *Host) Group(p string) (*Group, error) {
	if err := validate(p); err != nil {
		return nil, err
	}
	return &Group{Path: p, host: h}, nil
}

// List returns the names of the groups directly below parent, sorted, of all hierarchies. A
// parent that does not exist has none.
func (h *Host) List(parent string) ([]string, error) {
	if parent != "/" {
		if err := validate(parent); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, hier := range h.hierarchies {
		entries, err := os.ReadDir(filepath.Join(hier.root, parent))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// dir is the directory of the group in one hierarchy.
func (g *Group) dir(hier hierarchy) string { return filepath.Join(hier.root, g.Path) }

// dirs are the directories of the group that exist.
func (g *Group) dirs() []string {
	var out []string
	for _, hier := range g.host.hierarchies {
		if _, err := os.Stat(g.dir(hier)); err == nil {
			out = append(out, g.dir(hier))
		}
	}
	return out
}

// Exists reports whether the group exists in any hierarchy.
func (g *Group) Exists() bool { return len(g.dirs()) > 0 }

// Ensure creates the group and the groups above it in every hierarchy and sets the limits. An
// existing group is kept with the processes in it.
//
// On v2 the controllers are enabled on the way down. The kernel refuses that in a group that has
// processes of its own: see [Host.EnterLeaf]. The error is then a *[ControllerError] with EBUSY.
// What was created before an error stays for [Group.Remove].
func (g *Group) Ensure(l Limits) error {
	for _, hier := range g.host.hierarchies {
		err := g.mkdir(hier, l)
		// A concurrent Prune of another group may remove an empty parent on the way down.
		for try := 0; gone(err) && try < 10; try++ {
			err = g.mkdir(hier, l)
		}
		if err != nil {
			return fmt.Errorf("make cgroup %s: %w", g.Path, err)
		}
	}
	return g.SetLimits(l)
}

func (g *Group) mkdir(hier hierarchy, l Limits) error {
	at := hier.root
	enabled := make(map[string]error)
	for name := range strings.SplitSeq(strings.TrimPrefix(g.Path, "/"), "/") {
		if hier.v2 && g.host.Mode == V2 {
			for _, c := range l.controllers() {
				if err := enable(at, c); err != nil {
					enabled[c] = err
				}
			}
			_ = enable(at, disks) // only for the counts of Usage
		}
		at = filepath.Join(at, name)
		if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		} else if err == nil && slices.Contains(hier.controllers, "cpuset") {
			// An empty v1 cpuset takes no process; it starts with its parent's.
			if err := inheritCpuset(at); err != nil {
				return err
			}
		}
	}
	if !hier.v2 || g.host.Mode != V2 {
		return nil
	}
	has, err := readFields(at, "cgroup.controllers")
	if err != nil {
		return err
	}
	for _, c := range l.controllers() {
		if !slices.Contains(has, c) {
			return &ControllerError{Controller: c, Path: g.Path, Err: enabled[c]}
		}
	}
	return nil
}

// enable enables a controller for the children of dir, unless it is enabled: groups above a
// delegated one belong to systemd and are only read.
func enable(dir, controller string) error {
	on, err := readFields(dir, "cgroup.subtree_control")
	if err != nil || slices.Contains(on, controller) {
		return err
	}
	return writeFile(dir, "cgroup.subtree_control", "+"+controller)
}

func inheritCpuset(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		v, err := readFile(filepath.Dir(dir), file)
		if err != nil {
			return err
		}
		if err := writeFile(dir, file, v); err != nil {
			return err
		}
	}
	return nil
}

// EnterLeaf moves every process of the group base, the calling one among them, to the group name
// below it, and returns that group's path. On pure v2 a group with processes cannot enable
// controllers for its children, so the supervisor of a delegated unit moves aside before it
// creates its own groups. Elsewhere there is no such rule: no process is moved and base is
// returned.
func (h *Host) EnterLeaf(base, name string) (string, error) {
	if h.Mode != V2 || base == "/" {
		return base, nil
	}
	leaf, err := Sub(base, name)
	if err != nil {
		return "", err
	}
	from, to := path.Join(h.hierarchies[0].root, base), path.Join(h.hierarchies[0].root, leaf)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("enter cgroup %s: %w", leaf, err)
	}
	// A process may fork while it is moved: repeat until none is left.
	for range 100 {
		procs, err := readPids(from, "cgroup.procs")
		if err != nil {
			return "", fmt.Errorf("enter cgroup %s: %w", leaf, err)
		}
		if len(procs) == 0 {
			return leaf, nil
		}
		for _, pid := range procs {
			if err := writeFile(to, "cgroup.procs", fmt.Sprint(pid)); err != nil && !errors.Is(err, unix.ESRCH) {
				return "", fmt.Errorf("enter cgroup %s: move %d: %w", leaf, pid, err)
			}
		}
	}
	return "", fmt.Errorf("enter cgroup %s: %w", leaf, ErrBusy)
}

// Join moves the process pid into the group in every hierarchy.
func (g *Group) Join(pid int) error {
	dirs := g.dirs()
	if len(dirs) == 0 {
		return fmt.Errorf("join cgroup %s: %w", g.Path, ErrNotFound)
	}
	for _, d := range dirs {
		if err := writeFile(d, "cgroup.procs", fmt.Sprint(pid)); err != nil {
			return fmt.Errorf("join cgroup %s: %w", g.Path, err)
		}
	}
	return nil
}

// backoff waits a little longer every time, from 1 ms to 50 ms.
type backoff struct{ d time.Duration }

func newBackoff() *backoff { return &backoff{d: time.Millisecond} }

func (b *backoff) sleep(ctx context.Context) error {
	t := time.NewTimer(b.d)
	defer t.Stop()
	b.d = min(b.d*2, 50*time.Millisecond)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
