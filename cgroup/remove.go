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

	"golang.org/x/sys/unix"
)

// Remove removes the group and all groups below it from every hierarchy. It does not kill: for a
// group with processes it tries again until ctx ends, then returns [ErrBusy]. A missing group is
// no error.
func (g *Group) Remove(ctx context.Context) error {
	wait := newBackoff()
	for {
		var busy error
		for _, hier := range g.host.hierarchies {
			if err := removeTree(g.dir(hier)); errors.Is(err, unix.EBUSY) {
				busy = err
			} else if err != nil {
				return fmt.Errorf("remove cgroup %s: %w", g.Path, err)
			}
		}
		if busy == nil {
			return nil
		}
		if err := wait.sleep(ctx); err != nil {
			return fmt.Errorf("remove cgroup %s: %w: %w", g.Path, ErrBusy, busy)
		}
	}
}

// RemoveIfEmpty removes the group from the hierarchies in which it has neither processes nor
// groups below it: for the parent of agents' groups when the last one may have gone.
func (g *Group) RemoveIfEmpty() error {
	for _, hier := range g.host.hierarchies {
		err := unix.Rmdir(g.dir(hier))
		if err == nil || gone(err) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
			continue
		}
		return fmt.Errorf("remove cgroup %s: %w", g.Path, err)
	}
	return nil
}

// Prune removes the groups above this one that are empty, up to the first that is in use: the
// parent of the agents' groups goes with the last of them. Groups that systemd made for its units
// are systemd's to remove; in hierarchies that systemd does not manage, Ensure made the groups of
// the same names, and Prune removes those.
func (g *Group) Prune() error {
	for _, hier := range g.host.hierarchies {
		for p := path.Dir(g.Path); p != "/"; p = path.Dir(p) {
			if hier.systemd() && unit(path.Base(p)) {
				break
			}
			err := unix.Rmdir(filepath.Join(hier.root, p))
			if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
				break
			}
			if err != nil && !gone(err) {
				return fmt.Errorf("remove cgroup %s: %w", p, err)
			}
		}
	}
	return nil
}

// systemd reports whether systemd, if it runs, manages the hierarchy.
func (h hierarchy) systemd() bool {
	return h.v2 || slices.ContainsFunc(h.controllers, func(c string) bool {
		return slices.Contains([]string{"name=systemd", "cpu", "cpuacct", "blkio", "memory", "devices", "pids"}, c)
	})
}

// unit reports whether a group has the name of a systemd unit.
func unit(name string) bool {
	return slices.Contains([]string{".slice", ".service", ".scope", ".socket", ".mount"}, path.Ext(name))
}

// removeTree removes a directory of a cgroup file system: only directories can
// be removed there, deepest first.
func removeTree(dir string) error {
	err := unix.Rmdir(dir)
	if err == nil || gone(err) {
		return nil
	}
	entries, rerr := os.ReadDir(dir)
	if gone(rerr) {
		return nil
	}
	if rerr != nil {
		return rerr
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !gone(err) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
