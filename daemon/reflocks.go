package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"polis/daemon/api"
	"polis/fusefs/gitdir/level"
	"polis/lockd"
)

// daemonHolder begins the names of holders that are the daemon's own operations.
const daemonHolder = "polisd:"

// refLocks takes the leases of the daemon's own git operations from the same
// table as the agents'.
type refLocks struct {
	d         *Daemon
	workspace string
	bare      string // the shared repository
	// waits replaces the levels' own waits, for tests.
	waits func(level.Level) time.Duration
	n     atomic.Uint64
}

// AcquireRef takes the write lease of a ref, given by its full name.
func (r *refLocks) AcquireRef(ctx context.Context, ref string) (func(), error) {
	return r.Acquire(ctx, level.RefWrite, ref, "the daemon works on this ref")
}

// AcquireExclusive takes the lock of the whole repository: for gc, repack,
// prune, fetch and push.
func (r *refLocks) AcquireExclusive(ctx context.Context, why string) (func(), error) {
	return r.Acquire(ctx, level.Exclusive, "", why)
}

// Acquire takes the lock of a level. Another holder for longer than the level
// waits is BRANCH_LOCK_TIMEOUT (5 s) or EXCLUSIVE_LOCK_TIMEOUT (30 s; property
// 12). An operation that needs none gets none.
func (r *refLocks) Acquire(ctx context.Context, at level.Level, ref, why string) (func(), error) {
	key, mode := lockd.RefKey(ref), lockd.Write
	switch at {
	case level.None:
		return func() {}, nil
	case level.RefRead:
		mode = lockd.Read
	case level.Exclusive:
		key = lockd.Exclusive
	}
	// Every operation is a holder of its own: a holder is never in its own way.
	holder := fmt.Sprintf(daemonHolder+"git:%d", r.n.Add(1))
	_, err := r.d.locks.Lock(ctx, lockd.LockRequest{Workspace: r.workspace, Holder: holder, Paths: []string{key},
		Mode: mode, Reason: why, Wait: r.wait(at), Op: "git"})
	var ce *lockd.ConflictError
	if errors.As(err, &ce) {
		code, what := api.CodeBranchLockTimeout, ref
		if at == level.Exclusive {
			code, what = api.CodeExclusiveLockTimeout, "the repository is in use: "+ce.Path
		}
		return nil, api.Errorf(code, "%s is locked by %s since %s", what, ce.Holder, ce.Since.Format(time.TimeOnly)).
			WithHint("try again in a moment; polisctl locks shows who has it").With("holder", ce.Holder)
	}
	if err != nil {
		return nil, lockError(err)
	}
	if at == level.RefWrite {
		r.clearStale(ref)
	}
	return func() {
		if _, err := r.d.locks.Unlock(r.workspace, holder, key); err != nil {
			r.d.Log.Warn("lease of git not given back", "path", key, "err", err)
		}
	}, nil
}

func (r *refLocks) wait(at level.Level) time.Duration {
	if r.waits != nil {
		return r.waits(at)
	}
	return at.Wait()
}

// staleAge is how old a ref's lock file is at least before the daemon removes it.
const staleAge = 2 * time.Second

// clearStale removes the lock file of a ref whose lease the daemon has: agents create theirs only
// with the lease, and so does the daemon, so no process is left that would remove it.
func (r *refLocks) clearStale(ref string) {
	path := filepath.Join(r.bare, filepath.FromSlash(ref)+".lock")
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || time.Since(fi.ModTime()) < staleAge {
		return
	}
	if err := os.Remove(path); err != nil {
		r.d.Log.Warn("stale lock file of git not removed", "path", path, "err", err)
		return
	}
	r.d.Log.Warn("stale lock file of git removed", "path", path, "why", "no agent holds the lease of the ref")
}
