package table

import (
	"errors"
	"fmt"
	"time"
)

// Sentinel errors of the table.
var (
	// ErrInvalid: the request is malformed; it would never succeed.
	ErrInvalid = errors.New("invalid lease request")
	// ErrGrace: the table has just restarted and waits for earlier holders.
	ErrGrace = errors.New("lease table is in its grace period")
	// ErrLimit: too many leases of one holder, or too many waiters.
	ErrLimit = errors.New("lease limit reached")
	// ErrNoSession: the caller's session is unknown, lost or replaced.
	ErrNoSession = errors.New("no such lease session")
	// ErrSessionExists: the agent has a live session that is not the caller's.
	ErrSessionExists = errors.New("agent has another live lease session")
	// ErrNotHeld: there is no such lease to give back or break.
	ErrNotHeld = errors.New("lease is not held")
	// ErrCanceled: the queued request was withdrawn.
	ErrCanceled = errors.New("lease request canceled")
)

// ConflictError names the lease of another holder that conflicts.
type ConflictError struct {
	Workspace string
	// Path is the requested path; Lease is the path of the conflicting lease, which differs when
	// one of them is a tree.
	Path   string
	Lease  string
	Holder string
	Since  time.Time
	Reason string
	Token  uint64
	Mode   Mode
	Tree   bool
	Op     string
	Pid    uint32
	Until  Until
}

// Until is when a lease ends, if its holder does not use it again. The zero value is that of one that ends with its use.
type Until struct {
	// At is zero for a lease without a time limit.
	At       time.Time
	Explicit bool
	Merge    bool
	// After is how long after its last use.
	After time.Duration
}

func (e *ConflictError) Error() string {
	s := fmt.Sprintf("%s: %s lease held by %s since %s", e.Path, e.Mode, e.Holder, e.Since.Format(time.RFC3339))
	if e.Lease != e.Path {
		s += fmt.Sprintf(" (lease on %q)", e.Lease)
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func conflictOf(k Key, l *lease) *ConflictError {
	return &ConflictError{
		Workspace: l.Workspace, Path: k.Path, Lease: l.Path, Holder: l.Holder, Since: l.Since,
		Reason: l.Reason, Token: l.Token, Mode: l.Mode, Tree: l.Tree, Op: l.Op, Pid: l.Pid,
		Until: Until{At: l.Expires, Explicit: l.Explicit, Merge: l.Merge, After: l.Keep},
	}
}
