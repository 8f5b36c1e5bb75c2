package gitdir

import (
	"context"
	"fmt"
	"strings"
	"time"

	"polis/fusefs/gitdir/level"
)

// packedRef stands for the file packed-refs in the table of locks: one writer
// at a time, and none beside an exclusive operation.
const packedRef = "packed-refs"

// Lock is one lock of the table: of a ref, given by its full name, or of all.
type Lock struct {
	Level level.Level
	Ref   string
	Op    string
	Pid   uint32
}

// Locker takes locks from the table that all agents and the daemon share.
type Locker interface {
	// Acquire waits at most l.Level.Wait. Another holder is a *BusyError; any
	// other error means that the table could not be asked.
	Acquire(ctx context.Context, l Lock) (Lease, error)
}

// Lease is a lock that was taken. Release is called once and does not block.
type Lease interface {
	// Valid says whether the lock is still known to be held.
	Valid() bool
	Release()
}

// BusyError says who has the lock.
type BusyError struct {
	Ref    string
	Holder string
	Since  time.Time
}

// Error is part of error.
func (e *BusyError) Error() string {
	what := e.Ref
	if what == "" {
		what = "the repository"
	}
	return fmt.Sprintf("%s is locked by %s since %s", what, e.Holder, e.Since.Format(time.TimeOnly))
}

// lockOf says which lock a file stands for that git makes as a lock. tracked
// is false for files that are none. What git locks with a file that only this
// agent sees needs no entry in the table.
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

// privateLock reports whether a file in the agent's own part is a lock of git's. Other programs
// keep files of such names permanently.
func privateLock(path string) bool {
	part := strings.Split(path, "/")
	if !strings.HasSuffix(path, ".lock") {
		return false
	}
	switch part[0] {
	case "config.lock", "refs":
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
