package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"polis/fusefs"
)

// Locker takes the leases of one operation, all or nothing. It waits as long
// as its configuration says, and gives up at once when ctx ends.
type Locker interface {
	// Acquire returns a *LockedError if another agent is in the way, and a
	// *LimitError if the request can never be granted as it is. Any other error
	// means that the lock table cannot be reached.
	Acquire(ctx context.Context, req LockRequest) (fusefs.Ticket, error)
}

// Holder is a Locker that can say at once whether it has a lease already: most
// writes are to a file that was written a moment ago.
type Holder interface {
	// Held returns a ticket on the path's lease, nil if it is not held.
	Held(path string) fusefs.Ticket
}

// LocalLocker is a Locker that can grant leases from memory: an operation that needs no more does
// not leave its reader.
type LocalLocker interface {
	// AcquireLocal is Acquire without waiting. ErrMustWait means that Acquire must be called.
	AcquireLocal(req LockRequest) (fusefs.Ticket, error)
}

// ErrMustWait reports that a lease cannot be granted without another process.
var ErrMustWait = errors.New("view: the lock table must be asked")

// LockRequest names what an operation is about to change.
type LockRequest struct {
	// Paths and Trees are repository paths, sorted and unique. A tree stands
	// for itself and everything below.
	Paths, Trees []string
	Op           string
	Pid          uint32
}

// LockedError says whose lease is in the way.
type LockedError struct {
	Path, Holder string
	Since        time.Time
	Reason       string
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is held by %s since %s", e.Path, e.Holder, e.Since.Format(time.RFC3339))
}

// LimitError says that a request for leases is over a bound of the lock table:
// to try again does not help.
type LimitError struct {
	// Errno is what the caller gets, Code what is reported: CodeQuota or
	// CodeTooLarge.
	Errno syscall.Errno
	Code  string
	Err   error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the lock table.
func (e *LimitError) Unwrap() error { return e.Err }

// Codes of refusals; the same words as in the API.
const (
	CodePathTraversal    = "PATH_TRAVERSAL"
	CodeUndeclaredRead   = "UNDECLARED_READ"
	CodeUndeclaredWrite  = "UNDECLARED_WRITE"
	CodeHidden           = "HIDDEN"
	CodeNotApproved      = "NOT_APPROVED"
	CodeFileLocked       = "FILE_LOCKED"
	CodeQuota            = "QUOTA"
	CodeLockdUnavailable = "LOCKD_UNAVAILABLE"
	CodeTooLarge         = "TOO_LARGE"
)

// MaxPath is the length in bytes of the longest path that a name may be made
// at, and that has a lease of its own: PATH_MAX, as git and most programs have it.
const MaxPath = 4096

// Denial is one refusal: a record for the audit, and what why shows.
type Denial struct {
	Time   time.Time `json:"time"`
	Op     string    `json:"op"`
	Path   string    `json:"path"`
	Code   string    `json:"code"`
	Errno  string    `json:"errno"` // symbolic name, as "EACCES"
	Rule   string    `json:"rule,omitempty"`
	Holder string    `json:"holder,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Pid    uint32    `json:"pid,omitempty"`
	// Program is the name of Pid's program, where it is known.
	Program string `json:"program,omitempty"`
	Hint    string `json:"hint,omitempty"`
	// Count is how many equal refusals are reported as one; 0 is one.
	Count int `json:"count,omitempty"`
}

// Asker decides what the rules leave to a person: paths that a rule `ask` names.
type Asker interface {
	// Ask may block for minutes; no lock, reader or thread is held meanwhile. ctx ends when the
	// caller is ending (a signal that only interrupts it does not count) or the view is unmounted;
	// Ask then returns soon. The deadline of an answer is the Asker's own. Any error is a refusal.
	// It is called concurrently, and again for the same operation if names or rules changed
	// meanwhile.
	Ask(ctx context.Context, r Request) (Verdict, error)
}

// Request is what an Asker decides: may the agent do Op to Paths?
type Request struct {
	Agent, Op string
	Rule      string // that names the first path
	Write     bool
	Paths     []string // in the view, at most 64
	Pid       uint32   // of the calling thread, 0 if it is not visible
}

// Verdict is the answer of an Asker. The zero value refuses.
type Verdict struct {
	Allow bool
	// Reason, if not empty, is shown to the agent with a refusal.
	Reason string
}

// Config is what a Guard needs. Agent and Locker must be set.
type Config struct {
	Agent  string
	Locker Locker
	// Ignore says that git ignores the path and does not track it, nor
	// anything below it. Such paths take no lease. May be nil.
	Ignore func(path string, dir bool) bool
	// Exempt are globs of paths that take no lease.
	Exempt []string
	// GitFile says that the root's .git ties the worktree to its repository:
	// it can be read, and never be changed, moved or replaced.
	GitFile bool
	// Store is the name in the view's root of a package store, "" for none: what
	// is in it lives in the root with the index StoreRoot.
	Store string
	// Below says that names may show that are not below RootFD. A directory of
	// which RootFD has nothing never moves as a whole then.
	Below bool
	// RootFD is a descriptor of the tree below the view, for proving that
	// everything in a directory may be moved; New duplicates it. Without one
	// (0 or negative) only what the rules alone prove may be moved.
	RootFD int
	// Asker decides about paths that a rule leaves to a person. If nil, the answer is always no.
	Asker Asker
	// Quota is called before an operation that may take space. "" allows it; else it returns
	// which limit is reached, and what to do. It must not block. May be nil.
	Quota func(op fusefs.Op) string
	// Counted is called with the change of the number of objects (fusefs.ObjectCounter). It must
	// not block. May be nil.
	Counted func(n int)
	// OnDenial gets refusals, at a bounded rate. It must not block.
	OnDenial func(Denial)
	// LeaseInfo is the value of user.polis.lease of a path.
	LeaseInfo func(path string) (string, bool)
	Now       func() time.Time
	Log       *slog.Logger
}

// StoreRoot is the index of the package store among fusefs.Config.Roots.
const StoreRoot = 1

// ErrConfig is what New returns for an incomplete Config.
var ErrConfig = errors.New("view: invalid configuration")
