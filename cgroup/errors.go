package cgroup

import (
	"errors"
	"fmt"
)

var (
	// ErrNone says that no cgroup hierarchy is mounted, or none that can be
	// written to.
	ErrNone = errors.New("no cgroup hierarchy is mounted")
	// ErrPath says that a cgroup path is not absolute, not clean, or the root.
	ErrPath = errors.New("bad cgroup path")
	// ErrNotFound says that the group exists in no hierarchy.
	ErrNotFound = errors.New("cgroup does not exist")
	// ErrSelf says that the calling process is a member of the group it was
	// asked to kill.
	ErrSelf = errors.New("the calling process is in this cgroup")
	// ErrBusy says that processes were still there when the time was up.
	ErrBusy = errors.New("cgroup still has processes")
)

// ControllerError says that a limit cannot be enforced because its controller
// is not available in the group.
type ControllerError struct {
	Controller string // "memory", "pids", "cpu", "io" or "blkio"
	Path       string // the group that lacks it
	Err        error  // why it could not be enabled; may be nil
}

func (e *ControllerError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("cgroup %s: no %s controller", e.Path, e.Controller)
	}
	return fmt.Sprintf("cgroup %s: no %s controller: %v", e.Path, e.Controller, e.Err)
}

func (e *ControllerError) Unwrap() error { return e.Err }

// IO says whether it is the controller of the disks.
func (e *ControllerError) IO() bool { return e.Controller == disks || e.Controller == blkio }
