package gitdir

import (
	"context"
	"fmt"
	"strings"
	"time"

	"polis/fusefs/gitdir/level"
)

// packedRef is the name of the file packed-refs in the table of locks. It has one writer at a
// time, and none during an exclusive operation.
const packedRef = "packed-refs"

// Lock is one lock of the table: of a ref, given by its full name, or of the whole repository.
type Lock struct {
	Level level.Level
	Ref   string
	Op    string
	Pid   uint32
}

// Locker takes locks from the table that all agents and the daemon share.
type Locker interface {
	// Acquire waits at most l.Level.Wait. It returns a *BusyError if another holder keeps the
	// lock. Any other error means that the table is unreachable.
	Acquire(ctx context.Context, l Lock) (Lease, error)
}

// Lease is a lock that is held. Release is called once and must not block.
type Lease interface {
	// Valid reports whether the lock is still held.
	Valid() bool
	Release()
}

// BusyError names the holder of a lock.
type BusyError struct {
	Ref    string
	Holder string
	Since  time.Time
}

// Error implements error.
func (e *BusyError) Error() string {
	what := e.Ref
	if what == "" {
		what = "the repository"
	}
	return fmt.Sprintf("%s is locked by %s since %s", what, e.Holder, e.Since.Format(time.TimeOnly))
}

// lockOf returns the lock that a lock file of git stands for. tracked is false for all other
// files, and for locks on files that only this agent sees: those need no entry in the table.
func lockOf(path, own string) (l Lock, tracked bool) {
	switch classify(path, own) {
	case classRefLock:
		return Lock{Level: level.RefWrite, Ref: refName(path)}, true
	case classPackedTmp:
		if path == "packed-refs.lock" {
			return Lock{Level: level.RefWrite, Ref: packedRef}, true
		}
		return Lock{}, true
	case classPackKeep:
		return Lock{}, true
	case classWorktree:
		return Lock{}, strings.HasSuffix(path, ".lock")
	case classPrivate:
		if path == "gc.pid" || path == "gc.pid.lock" {
			return Lock{Level: level.Exclusive}, true
		}
		return Lock{}, privateLock(path)
	}
	return Lock{}, false
}

// privateLock reports whether a file in the agent's own part is a lock file of git. Other programs
// keep files with such names permanently.
func privateLock(path string) bool {
	part := strings.Split(path, "/")
	if !strings.HasSuffix(path, ".lock") {
		return false
	}
	switch part[0] {
	case "config.lock", "refs", "worktrees":
		return true
	case "info":
		return len(part) == 2
	case "modules":
		for _, p := range part[1 : len(part)-1] {
			if p == "refs" {
				return true
			}
		}
		switch part[len(part)-1] {
		case "index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock":
			return true
		}
	}
	return false
}
