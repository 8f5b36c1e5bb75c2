package daemon

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/leases"
	"polis/lockd"
)

// Locks lists the leases.
func (b *backend) Locks(workspace string) []api.Lock { return b.apiLocks(workspace) }

func (d *Daemon) apiLocks(workspace string) []api.Lock {
	out := []api.Lock{}
	for _, l := range d.locks.List(lockd.Filter{Workspace: workspace}) {
		out = append(out, apiLock(l))
	}
	return out
}

func apiLock(l lockd.Lease) api.Lock {
	a := api.Lock{Workspace: l.Workspace, Path: lockd.FilePath(l.Path), Holder: l.Holder, LockType: fmt.Sprint(l.Mode), AcquiredAt: l.Since,
		Token: l.Token, Reason: l.Reason, Tree: l.Tree, Waiters: l.Waiters, Op: l.Op, Hold: l.Hold()}
	for _, w := range l.Waiting {
		a.Waiting = append(a.Waiting, api.Waiter{Holder: w.Holder, Since: w.Since, Op: w.Op})
	}
	if !l.Expires.IsZero() {
		a.ExpiresAt = &l.Expires
	}
	return a
}

// lockPath validates a repository path of an API request.
func lockPath(p string) (string, error) {
	switch {
	case p == "" || len(p) > 4096 || strings.ContainsRune(p, 0):
		return "", api.Errorf(api.CodeBadRequest, "path = %q: must have 1 to 4096 bytes and no NUL", api.Shorten(p, 64))
	case path.IsAbs(p):
		return "", api.Errorf(api.CodePathTraversal, "path = %q: must be relative to the repository", api.Shorten(p, 200))
	}
	clean := path.Clean(p)
	if clean == ".." || strings.HasPrefix(clean, "../") || clean == "." {
		return "", api.Errorf(api.CodePathTraversal, "path = %q: leaves the repository, or is its root", api.Shorten(p, 200))
	}
	return clean, nil
}

func (b *backend) lockRequest(by string, req api.LockRequest) (lockd.LockRequest, error) {
	var lr lockd.LockRequest
	ws, err := b.Workspace(req.Workspace)
	if err != nil {
		return lr, err
	}
	p, err := lockPath(req.Path)
	if err != nil {
		return lr, err
	}
	if req.ForSeconds < 0 || req.ForSeconds > 7*24*3600 || req.WaitMillis < 0 || req.WaitMillis > 600_000 {
		return lr, api.Errorf(api.CodeBadRequest, "for_seconds = %d, wait_ms = %d: from 0 to 7 days and from 0 to 10 minutes", req.ForSeconds, req.WaitMillis)
	}
	if len(req.Reason) > 1000 {
		return lr, api.Errorf(api.CodeBadRequest, "reason has %d bytes: at most 1000", len(req.Reason))
	}
	holder := by
	if req.Agent != "" {
		if _, err := b.Policy(req.Agent); err != nil {
			return lr, err
		}
		holder = req.Agent
	}
	lr = lockd.LockRequest{Workspace: ws.Name, Holder: holder, Reason: req.Reason, Mode: lockd.Write, Op: "lock",
		For: time.Duration(req.ForSeconds) * time.Second, Wait: time.Duration(req.WaitMillis) * time.Millisecond}
	if req.Read {
		lr.Mode = lockd.Read
	}
	if req.Tree {
		lr.Trees = []string{lockd.FileKey(p)}
	} else {
		lr.Paths = []string{lockd.FileKey(p)}
	}
	return lr, nil
}

// Lock takes an explicit lock for the caller, or in an agent's name.
func (b *backend) Lock(ctx context.Context, by string, req api.LockRequest) (api.Lock, error) {
	lr, err := b.lockRequest(by, req)
	if err != nil {
		return api.Lock{}, err
	}
	ls, err := b.locks.Lock(ctx, lr)
	if err != nil {
		return api.Lock{}, leases.Error(err)
	}
	if len(ls) == 0 {
		return api.Lock{}, api.Errorf(api.CodeInternal, "lock %s: no lease was given", req.Path)
	}
	return apiLock(ls[0]), nil
}

// Unlock releases a lock, or breaks another holder's.
func (b *backend) Unlock(_ context.Context, by string, req api.LockRequest) error {
	lr, err := b.lockRequest(by, req)
	if err != nil {
		return err
	}
	p := append(lr.Paths, lr.Trees...)[0]
	if req.Break {
		ls, err := b.locks.Break(lr.Workspace, p, by, req.Reason)
		if err == nil && len(ls) == 0 {
			err = lockd.ErrNotHeld
		}
		if err != nil {
			return leases.Error(fmt.Errorf("%s: %w", req.Path, err))
		}
		return nil
	}
	if _, err := b.locks.Unlock(lr.Workspace, lr.Holder, p); err != nil {
		return leases.Error(fmt.Errorf("%s: %w", req.Path, err))
	}
	return nil
}

// lockEvent publishes the events of the lock table.
func (d *Daemon) lockEvent(e lockd.Event) {
	if strings.HasPrefix(e.Holder, leases.DaemonHolder) {
		return // the daemon's own git operations hold a lease for a moment
	}
	ev := api.Event{Type: api.EventLock, Agent: e.Holder, Data: map[string]any{"workspace": e.Workspace, "path": lockd.FilePath(e.Path), "holder": e.Holder, "waiter": e.Waiter, "acquired_at": e.Since}}
	switch e.Kind {
	case lockd.EventConflict:
		return // the loser's shim reports it, with the process and the operation
	case lockd.EventWaiting:
		ev.Type, ev.Data["op"] = api.EventLockWaiting, e.Op
		ev.Message = fmt.Sprintf("%s waits for %s, which %s has locked", e.Waiter, lockd.FilePath(e.Path), e.Holder)
	case lockd.EventBroken:
		ev.Type, ev.Code, ev.Data["by"], ev.Data["reason"] = api.EventLockBroken, api.CodeLockBroken, e.By, e.Note
		ev.Message = fmt.Sprintf("%s took the lock on %s from %s", e.By, lockd.FilePath(e.Path), e.Holder)
		if e.Note != "" {
			ev.Message += ": " + e.Note
		}
	default:
		ev.Message = strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", e.Kind, e.Holder, lockd.FilePath(e.Path), e.Why))
	}
	d.hub.Publish(ev)
}
