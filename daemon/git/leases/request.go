package leases

import (
	"fmt"
	"path"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/lockd"
)

const (
	maxFor    = 7 * 24 * 3600 // seconds
	maxWait   = 600_000       // milliseconds
	maxReason = 1000          // bytes
)

// Request validates a request of the API, and returns it in the terms of the lock table. The lease
// is of workspace. Its holder is the agent that the request names, or by, which made the request.
// The caller has checked that both exist.
func Request(workspace, by string, req api.LockRequest) (lockd.LockRequest, error) {
	p, err := cleanPath(req.Path)
	if err != nil {
		return lockd.LockRequest{}, err
	}
	if req.ForSeconds < 0 || req.ForSeconds > maxFor || req.WaitMillis < 0 || req.WaitMillis > maxWait {
		return lockd.LockRequest{}, api.Errorf(api.CodeBadRequest, "for_seconds = %d, wait_ms = %d: from 0 to 7 days and from 0 to 10 minutes", req.ForSeconds, req.WaitMillis)
	}
	if len(req.Reason) > maxReason {
		return lockd.LockRequest{}, api.Errorf(api.CodeBadRequest, "reason has %d bytes: at most %d", len(req.Reason), maxReason)
	}
	holder := by
	if req.Agent != "" {
		holder = req.Agent
	}
	lr := lockd.LockRequest{Workspace: workspace, Holder: holder, Reason: req.Reason, Mode: lockd.Write, Op: "lock",
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

// cleanPath validates a path of the repository in a request.
func cleanPath(p string) (string, error) {
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

// Lock returns a lease as the API shows it.
func Lock(l lockd.Lease) api.Lock {
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
