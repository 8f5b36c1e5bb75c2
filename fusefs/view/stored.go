package view

import (
	"context"
	"syscall"
	"time"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// Stored applies the rules of a guard, as they are at each moment, to earlier versions of the files: a tree
// beside the view that cannot be changed. What the rules refuse is reported as in the view, except that
// no approval is requested: a path for which a rule asks is refused.
type Stored struct{ *Guard }

// Read is called when a process opens a file, or reads the target of a link.
func (s Stored) Read(pid uint32, link bool, path string) syscall.Errno {
	began, op := time.Now(), fusefs.OpOpenRead
	if link {
		op = fusefs.OpReadlink
	}
	errno := s.read(context.Background(), fusefs.Caller{Pid: pid}, op, path, false)
	s.Count(op, false, errno, time.Since(began).Nanoseconds())
	return errno
}

// Forbidden reports whether the rules refuse to read a path. Nothing is reported.
func (s Stored) Forbidden(path string) bool {
	if path == "" || s.isGitFile(path) || s.inStore(path) {
		return false
	}
	return !clean(path) || s.set.Load().DecideThrough(path, false).Read != policy.Allow
}
