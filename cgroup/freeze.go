package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFrozen is wrapped by a [NotFrozenError].
var ErrNotFrozen = errors.New("a process is not frozen")

// NotFrozenError names a thread that did not freeze in time.
type NotFrozenError struct {
	Group string
	TID   int
	// Wchan is the kernel function that the thread waits in, "0" if it runs or none is known.
	Wchan string
}

func (e *NotFrozenError) Error() string {
	return fmt.Sprintf("freeze cgroup %s: thread %d is not frozen (it waits in %s)", e.Group, e.TID, e.Wchan)
}

// Unwrap returns ErrNotFrozen.
func (e *NotFrozenError) Unwrap() error { return ErrNotFrozen }

// freezeFile is the file that freezes a group in a hierarchy, and what is written; ok is false if
// the hierarchy does not freeze. Hybrid hosts freeze with v1 if it has the controller.
func (h *Host) freezeFile(hier hierarchy, on bool) (file, value string, ok bool) {
	_, v1 := h.v1Freezer()
	switch {
	case hier.v2 && (h.Mode == V2 || !v1):
		if on {
			return "cgroup.freeze", "1", true
		}
		return "cgroup.freeze", "0", true
	case !hier.v2 && slices.Contains(hier.controllers, "freezer"):
		if on {
			return "freezer.state", "FROZEN", true
		}
		return "freezer.state", "THAWED", true
	}
	return "", "", false
}

func (h *Host) v1Freezer() (hierarchy, bool) {
	for _, hier := range h.hierarchies {
		if !hier.v2 && slices.Contains(hier.controllers, "freezer") {
			return hier, true
		}
	}
	return hierarchy{}, false
}

// freeze stops or continues the group. It does not wait until the freeze is complete: it only
// makes the race with forks smaller, and Kill checks again.
func (g *Group) freeze(on bool) error {
	for _, hier := range g.host.hierarchies {
		file, value, ok := g.host.freezeFile(hier, on)
		if !ok {
			continue
		}
		err := walk(g.dir(hier), func(dir string) error {
			if err := writeFile(dir, file, value); err != nil && !gone(err) {
				return err
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	return nil
}

// Freeze stops every process of the group, or continues them if on is false. It does not wait:
// see [Group.AwaitFrozen].
func (g *Group) Freeze(on bool) error {
	if err := g.freeze(on); err != nil {
		return fmt.Errorf("cgroup %s: %w", g.Path, err)
	}
	return nil
}

// AwaitFrozen waits until every thread of a group that Freeze stopped is frozen, or waits in the
// kernel in a function that excused accepts. Such a thread runs no code of its program before what
// it waits for is answered, and freezes then; the caller withholds the answer. If ctx ends first it
// returns a [NotFrozenError]; the group stays as it is.
func (g *Group) AwaitFrozen(ctx context.Context, excused func(wchan string) bool) error {
	wait := newBackoff()
	for {
		done, err := g.frozen()
		if err != nil || done {
			return err
		}
		tid, wchan, err := g.awake(excused)
		if err != nil || tid == 0 {
			return err
		}
		if err := wait.sleep(ctx); err != nil {
			return &NotFrozenError{Group: g.Path, TID: tid, Wchan: wchan}
		}
	}
}

// frozen reports whether the kernel has frozen every thread of the group.
func (g *Group) frozen() (bool, error) {
	for _, hier := range g.host.hierarchies {
		file, _, ok := g.host.freezeFile(hier, true)
		if !ok {
			continue
		}
		if file == "freezer.state" {
			state, err := readFile(g.dir(hier), file)
			return strings.TrimSpace(state) == "FROZEN", err
		}
		text, err := readFile(g.dir(hier), "cgroup.events")
		return strings.Contains(text, "frozen 1"), err
	}
	return false, fmt.Errorf("freeze cgroup %s: the host has no freezer: %w", g.Path, errors.ErrUnsupported)
}

// awake returns a thread of the group that is neither frozen nor excused; 0 if there is none.
func (g *Group) awake(excused func(wchan string) bool) (tid int, wchan string, err error) {
	procs, err := g.Procs()
	if err != nil {
		return 0, "", err
	}
	for _, pid := range procs {
		dir := filepath.Join("/proc", strconv.Itoa(pid), "task")
		threads, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			at := filepath.Join(dir, t.Name())
			where, err := os.ReadFile(filepath.Join(at, "wchan"))
			if err != nil {
				continue
			}
			if excused(string(where)) || stands(at, string(where)) {
				continue
			}
			tid, err = strconv.Atoi(t.Name())
			return tid, string(where), err
		}
	}
	return 0, "", nil
}

// stands reports whether a thread is frozen, or waits uninterruptibly and freezes before it runs
// code of its program again: v1 shows a frozen thread in state D, v2 in the freezer's trap.
func stands(dir, wchan string) bool {
	if wchan == "do_freezer_trap" {
		return true
	}
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return true // it has ended
	}
	text := string(b)
	rest := text[strings.LastIndexByte(text, ')')+1:]
	return strings.HasPrefix(rest, " D") || strings.HasPrefix(rest, " Z") || strings.HasPrefix(rest, " X")
}
