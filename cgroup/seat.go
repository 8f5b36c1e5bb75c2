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

// sharing are the v1 controllers that share something out among groups.
var sharing = []string{cpu, "cpuacct", blkio}

// Seat is a group that the calling process has gone to.
type Seat struct {
	group *Group
	from  map[string]string // the directory it was in, by that of the group
}

// Sit makes the group p and moves the calling process there, so that processors
// and disks are shared out to it among the groups beside it: a process that
// works for one group only is otherwise as much as all of them together. On v1
// and hybrid hosts it moves in the hierarchies that share these out; its memory
// stays counted where it was, and so does its place in systemd's tree.
func (h *Host) Sit(p string) (*Seat, error) {
	g, err := h.Group(p)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("own cgroup: %w", err)
	}
	s := &Seat{group: g, from: map[string]string{}}
	for _, hier := range h.hierarchies {
		if hier.v2 != (h.Mode == V2) || !hier.v2 && !slices.ContainsFunc(sharing, func(c string) bool { return slices.Contains(hier.controllers, c) }) {
			continue
		}
		dir := g.dir(hier)
		s.from[dir] = h.place(hier, string(own))
		if err := enter(dir); err != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			return nil, errors.Join(fmt.Errorf("enter cgroup %s: %w", p, err), s.Leave(ctx))
		}
	}
	return s, nil
}

// enter moves the calling process. A neighbour's Prune may take an empty parent
// away between the two steps.
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

// place is the directory of the group that text, a /proc/PID/cgroup, names for
// a hierarchy; the root of what can be seen if that is outside.
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

// Leave goes back, and removes the group and those above it that are then empty.
// Where the process came from may be gone: it goes to the root then.
func (s *Seat) Leave(ctx context.Context) error {
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
