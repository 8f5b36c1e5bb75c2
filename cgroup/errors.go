package cgroup

import (
	"errors"
	"fmt"
)

var (
	// ErrNone: no cgroup hierarchy is mounted, or none is writable.
	ErrNone = errors.New("no cgroup hierarchy is mounted")
	// ErrPath: a cgroup path is not absolute, not clean, or the root.
	ErrPath = errors.New("bad cgroup path")
	// ErrNotFound: the group exists in no hierarchy.
	ErrNotFound = errors.New("cgroup does not exist")
	// ErrSelf: the calling process is a member of the group to kill.
	ErrSelf = errors.New("the calling process is in this cgroup")
	// ErrBusy: processes were still in the group when the time was up.
	ErrBusy = errors.New("cgroup still has processes")
)

// ControllerError: a limit cannot be enforced because its controller is not available in the
// group.
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

// IO reports whether it is the controller of block devices.
func (e *ControllerError) IO() bool { return e.Controller == disks || e.Controller == blkio }
