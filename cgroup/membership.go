package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// sharing are the v1 controllers that divide a resource among sibling groups.
var sharing = []string{cpu, "cpuacct", blkio}

// Membership is the calling process in a group other than its own.
type Membership struct {
	group *Group
	from  map[string]string // previous directory, by that of the group
}

// Join creates the group p and moves the calling process into it, so that the
// kernel schedules it as a sibling of the groups beside p: a process outside
// competes as one group with all of them together. On cgroup v1 and hybrid hosts
// the process moves in the hierarchies of cpu, cpuacct and blkio only; its memory
// is still charged to the previous group, and systemd's hierarchy is unchanged.
// [Membership.Restore] moves it back.
func (h *Host) Join(p string) (*Membership, error) {
	g, err := h.Group(p)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("own cgroup: %w", err)
	}
	s := &Membership{group: g, from: map[string]string{}}
	for _, hier := range h.hierarchies {
		if hier.v2 != (h.Mode == V2) || !hier.v2 && !slices.ContainsFunc(sharing, func(c string) bool { return slices.Contains(hier.controllers, c) }) {
			continue
		}
		dir := g.dir(hier)
		s.from[dir] = h.place(hier, string(own))
		if err := enter(dir); err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("enter cgroup %s: %w", p, err), s.Restore(ctx))
		}
	}
	return s, nil
}

// enter moves the calling process to dir. Another process's Prune may remove an
// empty parent between the two steps, so it tries again.
func enter(dir string) (err error) {
	for range 10 {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			err = writeFile(dir, "cgroup.procs", "0")
		}
		if !gone(err) {
			return err
		}
	}
	return err
}

// place returns the directory of the group that text, the content of
// /proc/PID/cgroup, names for a hierarchy, or the root of the hierarchy if that
// group is not visible in this cgroup namespace.
func (h *Host) place(hier hierarchy, text string) string {
	want := strings.Join(hier.controllers, ",")
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || parts[1] != want {
			continue
		}
		if p, ok := h.visible(parts[1], parts[2]); ok {
			return filepath.Join(hier.root, p)
		}
	}
	return hier.root
}

// Restore moves the process back to where it was and removes the group, and the
// groups above it that are then empty. If the previous group no longer exists, the
// process moves to the root of the hierarchy.
func (s *Membership) Restore(ctx context.Context) error {
	var errs []error
	for dir, from := range s.from {
		err := writeFile(from, "cgroup.procs", "0")
		if gone(err) {
			err = writeFile(strings.TrimSuffix(dir, s.group.Path), "cgroup.procs", "0")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("leave cgroup %s: %w", s.group.Path, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(s.group.Remove(ctx), s.group.Prune())
}
