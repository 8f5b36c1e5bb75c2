package leases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"polis/daemon/api"
	"polis/fusefs/gitdir/level"
	"polis/lockd"
)

// DaemonHolder is the prefix of the holder names of the daemon's own operations.
const DaemonHolder = "polisd:"

// Git takes the leases that the daemon's own git operations in a workspace need. They are in the
// same table as the agents' leases. Assign the fields, then use it.
type Git struct {
	Table     *lockd.Server
	Workspace string
	Bare      string // directory of the shared repository
	Log       *slog.Logger
	// Waits replaces the waits of the levels, for tests.
	Waits func(level.Level) time.Duration

	n atomic.Uint64
}

// AcquireRef takes the write lease of a ref. ref is its full name.
func (g *Git) AcquireRef(ctx context.Context, ref string) (func(), error) {
	return g.Acquire(ctx, level.RefWrite, ref, "the daemon works on this ref")
}

// AcquireExclusive takes the lock of the whole repository, which gc, repack, prune, fetch and push
// need.
func (g *Git) AcquireExclusive(ctx context.Context, why string) (func(), error) {
	return g.Acquire(ctx, level.Exclusive, "", why)
}

// Acquire takes the lock of a level, and returns the function that releases it. If another holder
// keeps the lock for longer than the level waits, it returns BRANCH_LOCK_TIMEOUT (after 5 s) or
// EXCLUSIVE_LOCK_TIMEOUT (after 30 s; property 12). An operation that needs no lock takes none.
func (g *Git) Acquire(ctx context.Context, at level.Level, ref, why string) (func(), error) {
	key, mode := lockd.RefKey(ref), lockd.Write
	switch at {
	case level.None:
		return func() {}, nil
	case level.RefRead:
		mode = lockd.Read
	case level.Exclusive:
		key = lockd.Exclusive
	}
	// Every operation has a holder name of its own, so that two of them exclude each other.
	holder := fmt.Sprintf(DaemonHolder+"git:%d", g.n.Add(1))
	_, err := g.Table.Lock(ctx, lockd.LockRequest{Workspace: g.Workspace, Holder: holder, Paths: []string{key},
		Mode: mode, Reason: why, Wait: g.wait(at), Op: "git"})
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
		return nil, Error(err)
	}
	if at == level.RefWrite {
		g.clearStale(ref)
	}
	return func() {
		if _, err := g.Table.Unlock(g.Workspace, holder, key); err != nil {
			g.Log.Warn("lease of git not released", "path", key, "err", err)
		}
	}, nil
}

func (g *Git) wait(at level.Level) time.Duration {
	if g.Waits != nil {
		return g.Waits(at)
	}
	return at.Wait()
}

// staleAge is the least age of a ref's lock file that the daemon removes.
const staleAge = 2 * time.Second

// clearStale removes the lock file of a ref. The daemon holds the lease of the ref, and agents and
// the daemon create the file only with the lease: its creator is gone and cannot remove it.
func (g *Git) clearStale(ref string) {
	// The owner of the repository can replace its directories by links.
	root, err := os.OpenRoot(g.Bare)
	if err != nil {
		return // git reports it
	}
	defer root.Close()
	name := filepath.FromSlash(ref) + ".lock"
	fi, err := root.Lstat(name)
	if err != nil || !fi.Mode().IsRegular() || time.Since(fi.ModTime()) < staleAge {
		return
	}
	path := filepath.Join(g.Bare, name)
	if err := root.Remove(name); err != nil {
		g.Log.Warn("stale lock file of git not removed", "path", path, "err", err)
		return
	}
	g.Log.Warn("stale lock file of git removed", "path", path, "why", "no agent holds the lease of the ref")
}

// Busy reports whether the lock of any ref, or of the whole repository, is held.
func (g *Git) Busy() bool {
	for _, l := range g.Table.List(lockd.Filter{Workspace: g.Workspace}) {
		if !isFile(l) {
			return true
		}
	}
	return false
}
