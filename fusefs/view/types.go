package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"polis/fusefs"
	"polis/fusefs/changed"
	"polis/fusefs/tempfile"
)

// Locker takes the leases of one operation, all or none. It waits as long as its configuration
// allows, and returns at once when ctx ends.
type Locker interface {
	// Acquire returns a *LockedError if another agent holds a lease, and a *LimitError if the
	// request can never be granted. Any other error means that the lock table is unreachable.
	Acquire(ctx context.Context, req LockRequest) (fusefs.Ticket, error)
}

// Holder is a Locker that knows without waiting whether it holds a lease: most writes are to a
// file that was just written.
type Holder interface {
	// Held returns a ticket of an operation on the path's lease, or nil if the lease is not held.
	Held(op fusefs.Op, path string) fusefs.Ticket
}

// LocalLocker is a Locker that can grant leases from memory. An operation that needs no other
// lease does not leave its reader thread.
type LocalLocker interface {
	// AcquireLocal is Acquire without waiting. ErrMustWait means that Acquire must be called.
	AcquireLocal(req LockRequest) (fusefs.Ticket, error)
}

// ErrMustWait reports that granting a lease needs another process.
var ErrMustWait = errors.New("view: the lease is not in memory")

// LockRequest names what an operation will change.
type LockRequest struct {
	// Paths and Trees are repository paths, sorted and unique. A tree includes everything below
	// it.
	Paths, Trees []string
	Op           string
	Pid          uint32
}

// LockedError names the holder of a lease.
type LockedError struct {
	Path, Holder string
	Since        time.Time
	Reason       string
	// Until is how long it is held, in words: "until ..."; empty if that is not known.
	Until string
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is held by %s since %s", e.Path, e.Holder, e.Since.Format(time.RFC3339))
}

// LimitError reports that a request for leases exceeds a limit of the lock table. A retry fails as
// well.
type LimitError struct {
	// Errno is what the caller gets. Code is what is reported: CodeQuota or CodeTooLarge.
	Errno syscall.Errno
	Code  string
	Err   error
}

func (e *LimitError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the lock table.
func (e *LimitError) Unwrap() error { return e.Err }

// Codes of refusals, as in the API.
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
	CodeReadOnly         = "READ_ONLY"
)

// What people are shown instead of a code; see Denial.Shown.
const (
	ShownDeniedRead  = "DENIED_READ"
	ShownDeniedWrite = "DENIED_WRITE"
)

// MaxPath is the longest path, in bytes, at which a name may be made and that has a lease of its
// own: PATH_MAX, the limit of git and most programs.
const MaxPath = 4096

// Denial is one refusal: a record of the audit, and an entry of why.
type Denial struct {
	Time   time.Time `json:"time"`
	Op     string    `json:"op"`
	Path   string    `json:"path"`
	Code   string    `json:"code"`
	Errno  string    `json:"errno"` // symbolic name, such as "EACCES"
	Rule   string    `json:"rule,omitempty"`
	Holder string    `json:"holder,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Pid    uint32    `json:"pid,omitempty"`
	// Program is the name of Pid's program, if it is known.
	Program string `json:"program,omitempty"`
	Hint    string `json:"hint,omitempty"`
	// By denied it, if it was asked about, and Reason is what the answer said.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Count is the number of equal refusals that are reported as one; 0 means one. First is the time of the first one.
	Count int       `json:"count,omitempty"`
	First time.Time `json:"first,omitzero"`
	// Foreign: the call was none of the agent's.
	Foreign bool `json:"-"`
	// Within is what Path is in, if it is no path of files.
	Within string `json:"-"`
}

// Shown is the name of the refusal for people: DENIED_READ or DENIED_WRITE if a rule denies the path, where Code is
// also that of a path which no rule permits.
func (d Denial) Shown() string {
	if !strings.HasPrefix(d.Rule, "deny ") {
		return d.Code
	}
	switch d.Code {
	case CodeUndeclaredRead:
		return ShownDeniedRead
	case CodeUndeclaredWrite:
		return ShownDeniedWrite
	}
	return d.Code
}

// OwnRule is the rule of the agent that decided; "" if another thing did: of a locked file Rule is the reason of its holder.
func (d Denial) OwnRule() string {
	switch d.Code {
	case CodeUndeclaredRead, CodeUndeclaredWrite, CodeHidden, CodeNotApproved:
		return d.Rule
	}
	return ""
}

// Class is what refusals have in common that differ only in the last part of what was asked for.
type Class struct{ Op, Code, Rule, Parent string }

// Class returns the class of a refusal.
func (d Denial) Class() Class {
	c := Class{d.Op, d.Code, d.Rule, d.Within}
	if c.Parent == "" {
		c.Parent = "."
		if i := strings.LastIndexByte(d.Path, '/'); i > 0 { // path.Dir would copy
			c.Parent = d.Path[:i]
		}
	}
	return c
}

// Asker decides about paths for which a rule `ask` requires a person's decision.
type Asker interface {
	// Ask may block for minutes; no lock, reader or thread is held meanwhile. ctx ends when the
	// caller is ending (a signal that only interrupts it does not count) or the view is unmounted;
	// Ask then returns soon. The deadline of an answer is the Asker's own. Any error is a refusal.
	// It is called concurrently, and again for the same operation if names or rules changed
	// meanwhile.
	Ask(ctx context.Context, r Request) (Verdict, error)
}

// Request is a question to an Asker: may the agent do Op to Paths?
type Request struct {
	Agent, Op string
	Rule      string // the rule that matches the first path
	Write     bool
	Paths     []string // in the view, at most 64
	// Content: the operation reads or writes what is in the one file of Paths, and changes nothing else.
	Content bool
	Pid     uint32 // the calling thread; 0 if it is not visible
}

// Verdict is the answer of an Asker. The zero value refuses.
type Verdict struct {
	Allow bool
	// Reason, if not empty, is shown to the agent with a refusal.
	Reason string
	// By is the person or the rule that refused; "" if there was no answer.
	By string
	// Foreign: the call was none of the agent's, so that nobody was asked.
	Foreign bool
}

// Config configures a Guard. Agent and Locker must be set.
type Config struct {
	Agent  string
	Locker Locker
	// Ignore reports whether git ignores the path, and tracks neither it nor anything below it.
	// Such a path takes no lease. May be nil.
	Ignore func(path string, dir bool) bool
	// Exempt lists globs of paths that take no lease.
	Exempt []string
	// ReadOnly refuses every change with EROFS, whatever the rules say. No lease is taken then.
	ReadOnly bool
	// GitFile means that the root's .git ties the worktree to its repository. It can be read, and
	// cannot be changed, moved or replaced.
	GitFile bool
	// Temps has the temporary files of the agent, in the directory of RootFD; nil: there are none. The marks of files
	// count for reading.
	Temps *tempfile.Table
	// NoTemps lets the agent make and change none.
	NoTemps bool
	// Tracked reports whether a branch has the path: it is that of no temporary file. May be nil.
	Tracked func(path string) bool
	// Store is the name of a package store in the view's root, or "" for none. Its content is in
	// the root with the index StoreRoot.
	Store string
	// Below means that the view can show names that are not below RootFD. A directory that RootFD
	// does not have is then never moved as a whole.
	Below bool
	// RootFD is a descriptor of the tree below the view. It is needed to prove that everything in
	// a directory may be moved; New duplicates it. Without it (0 or negative) only moves that the
	// rules alone prove are allowed.
	RootFD int
	// List lists a directory of the tree, if its names are not simply those below RootFD. It follows
	// no symbolic link. May be nil.
	List func(path string) ([]fs.DirEntry, error)
	// Asker decides about paths that a rule leaves to a person. If nil, every such path is
	// refused.
	Asker Asker
	// Quota is called before an operation that may take space. It returns "" to allow the
	// operation; else it returns which limit is reached, and what to do. It must not block. May be
	// nil.
	Quota func(op fusefs.Op) string
	// Counted is called with the change of the number of objects (fusefs.ObjectCounter). It must
	// not block. May be nil.
	Counted func(n int)
	// Refused is called with every refusal by the rules, before it is answered. It must not block.
	// May be nil.
	Refused func(d Denial)
	// Deleting is called before a file is unlinked. It must not block. May be nil.
	Deleting func(c fusefs.Caller, path string)
	// Changes collects the paths that change. May be nil.
	Changes *changed.Set
	// OnDenial is called with each refusal. It must not block.
	OnDenial func(Denial)
	// OnHidden is OnDenial for what a rule hides (CodeHidden). The agent must not learn of it: that would
	// reveal that the name exists. May be nil.
	OnHidden func(Denial)
	// LeaseInfo returns the value of the attribute user.polis.lease of a path.
	LeaseInfo func(path string) (string, bool)
	Now       func() time.Time
	Log       *slog.Logger
}

// StoreRoot is the index of the package store among fusefs.Config.Roots.
const StoreRoot = 1

// ErrConfig is returned by New for an incomplete Config.
var ErrConfig = errors.New("view: invalid configuration")
