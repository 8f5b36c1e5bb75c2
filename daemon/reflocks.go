package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"polis/daemon/api"
	"polis/lockd"
)

// refWait bounds the wait for a ref's lease (property 12: 5 s for a branch).
const refWait = 5 * time.Second

// daemonHolder begins the names of holders that are the daemon's own operations.
const daemonHolder = "polisd:"

// refLocks takes the leases of the daemon's own git operations from the same
// table as the agents'.
type refLocks struct {
	d         *Daemon
	workspace string
	n         atomic.Uint64
}

// AcquireRef takes the write lease of a ref. Every operation is a holder of
// its own: a holder is never in its own way.
func (r *refLocks) AcquireRef(ctx context.Context, ref string) (func(), error) {
	holder := fmt.Sprintf(daemonHolder+"git:%d", r.n.Add(1))
	_, err := r.d.locks.Lock(ctx, lockd.LockRequest{Workspace: r.workspace, Holder: holder, Paths: []string{lockd.RefKey(ref)},
		Mode: lockd.Write, Reason: "the daemon works on this ref", Wait: refWait, Op: "git"})
	var ce *lockd.ConflictError
	if errors.As(err, &ce) {
		return nil, api.Errorf(api.CodeBranchLockTimeout, "%s is locked by %s since %s", ref, ce.Holder, ce.Since.Format(time.TimeOnly)).
			WithHint("try again in a moment; polisctl locks shows who has it")
	}
	if err != nil {
		return nil, lockError(err)
	}
	return func() {
		if _, err := r.d.locks.Unlock(r.workspace, holder, lockd.RefKey(ref)); err != nil {
			r.d.Log.Warn("give back a ref's lease", "path", ref, "err", err)
		}
	}, nil
}
