package gitdir

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"polis/fusefs"
	"polis/fusefs/gitdir/level"
)

// Limits of how long a running process of one agent may block the others.
const (
	refBound    = 30 * time.Second // a ref's lock file
	packedBound = 10 * time.Second // packed-refs.lock
	// allBound is how long the exclusive lock blocks the others. It is less than RefWait, so that
	// no commit of another agent fails because an agent runs gc. gc continues without the lock: it
	// cannot remove anything through a view.
	allBound = 4 * time.Second
	// restWait is how long an agent that exceeded a limit cannot take that lock again.
	restWait = 30 * time.Second
)

// lockFile is a lock file or a temporary file of git that was made through this mount. A lock of
// the table is held as long as its file exists. Guarded by Guard.mu.
type lockFile struct {
	path  string
	lock  Lock
	lease Lease // nil: none was needed, or it was released
	owner process
	temp  bool   // an unfinished object or pack: it blocks no agent, but takes space
	pid   uint32 // the thread that made it; owner is determined only if the file stays
	since time.Time
	gone  time.Time // when the owner was first seen to have ended
	made  identity  // zero until the file exists
}

// bound returns how long the file may exist while its process lives; 0 is without limit.
func (f *lockFile) bound() time.Duration {
	switch {
	case f.lock.Level == level.RefWrite && f.lock.Ref == packedRef:
		return packedBound
	case f.lock.Level == level.RefWrite:
		return refBound
	}
	return 0
}

// takeLock takes the lock of the table before git makes a lock file, and records which process
// makes the file.
func (g *Guard) takeLock(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string, l Lock) (*lockFile, syscall.Errno) {
	l.Op, l.Pid = string(op), c.Pid
	now := g.cfg.Now()
	f := &lockFile{path: path, lock: l, since: now}
	if leader(c.Pid) {
		f.pid = c.Pid
	} else { // a thread can exit long before its process
		f.owner = processOf(c.Pid)
	}
	if l.Level != level.None && g.cfg.Locker != nil {
		g.mu.Lock()
		until := g.rest[l.Ref]
		g.mu.Unlock()
		if now.Before(until) {
			return nil, g.refuseWith(c, op, path, syscall.EBUSY, Denial{Code: l.Level.Code(), Holder: g.cfg.Agent,
				Hint: "this agent kept the lock for too long and has to leave it to others for a while"})
		}
		var lease Lease
		var err error
		switch e := fusefs.Wait(ctx, func() { lease, err = g.cfg.Locker.Acquire(ctx, l) }); e {
		case 0:
		case fusefs.Restart:
			return nil, fusefs.Restart
		default:
			return nil, g.refuseWith(c, op, path, e, Denial{Code: "QUOTA", Hint: "too many operations of this agent wait for leases; try again in a moment"})
		}
		if err != nil {
			return nil, g.busy(ctx, c, op, path, l, err)
		}
		f.lease = lease
	}
	g.mu.Lock()
	old := g.locks[path]
	g.locks[path] = f
	g.mu.Unlock()
	old.release() // its file is removed, or this create fails
	g.wakeSweeper()
	return f, 0
}

// takeTemp records which process makes a temporary file. Such files are frequent and usually
// removed at once.
func (g *Guard) takeTemp(c fusefs.Caller, path string) *lockFile {
	f := &lockFile{path: path, temp: true, pid: c.Pid, since: g.cfg.Now()}
	g.mu.Lock()
	g.locks[path] = f
	g.mu.Unlock()
	g.wakeSweeper()
	return f
}

// journaled reports whether the file is recorded in the journal.
func (f *lockFile) journaled() bool { return !f.temp || strings.HasPrefix(f.path, "objects/pack/") }

// busy refuses an operation whose lock another holder has.
func (g *Guard) busy(ctx context.Context, c fusefs.Caller, op fusefs.Op, path string, l Lock, err error) syscall.Errno {
	var held *BusyError
	switch {
	case ctx.Err() != nil:
		return syscall.EINTR
	case errors.As(err, &held):
		return g.refuseWith(c, op, path, syscall.EBUSY, Denial{Code: l.Level.Code(), Holder: held.Holder, Since: held.Since,
			Hint: held.Error() + "; try again in a moment"})
	}
	return g.refuseWith(c, op, path, syscall.EAGAIN, Denial{Code: "LOCKD_UNAVAILABLE", Hint: err.Error()})
}

// release releases the lock. The caller has removed the record from the guard's set, or replaces
// it there.
func (f *lockFile) release() {
	if f != nil && f.lease != nil {
		f.lease.Release()
	}
}

// dropLock removes the record of a lock file that is removed, or that could not be made.
func (g *Guard) dropLock(f *lockFile) {
	if f == nil {
		return
	}
	g.mu.Lock()
	known := g.locks[f.path] == f
	if known {
		g.forget(f)
	}
	g.mu.Unlock()
	if known {
		f.release()
		g.journal.drop(g)
	}
}

// forget removes a file from the sets. g.mu is held.
func (g *Guard) forget(f *lockFile) {
	delete(g.locks, f.path)
	if f.temp {
		delete(g.made, f.path)
		delete(g.sealed, f.path)
	}
}

// renameLock moves a lock and its process to another name: gc writes gc.pid.lock and renames it to
// gc.pid, and repack renames a pack before it gets its last name.
func (g *Guard) renameLock(f *lockFile, to string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.locks[f.path] != f {
		return
	}
	delete(g.locks, f.path)
	if f.temp {
		delete(g.made, f.path)
		g.made[to] = true
	}
	f.path = to
	g.locks[to] = f
}

// lockAt returns the record of a lock file of this mount.
func (g *Guard) lockAt(path string) *lockFile {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.locks[path]
}

// valid reports whether the lock of a lock file is still held.
func (g *Guard) valid(path string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.locks[path]
	return f != nil && (f.lease == nil || f.lease.Valid())
}
