package shim

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/fusefs/policy"
	"polis/lockd"
)

// Bounds of an agent's requests about locks.
const (
	maxInsideFor  = 7 * 24 * time.Hour
	maxInsideWait = 24 * time.Hour
	maxInsideKeep = 10 * time.Minute
	maxReason     = 1000
)

// insideLock takes a lock in the agent's name until the agent releases it, its time is over or
// the agent ends.
func (s *Shim) insideLock(w http.ResponseWriter, r *http.Request) error {
	var req api.LockRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	p, err := s.lockable(req.Path, req.Tree, req.Read)
	if err != nil {
		return err
	}
	length, wait := time.Duration(req.ForSeconds)*time.Second, time.Duration(req.WaitMillis)*time.Millisecond
	switch {
	case req.Agent != "" || req.Workspace != "" || req.Break:
		return api.Errorf(api.CodeForbidden, "agent, workspace and break cannot be set by an agent")
	case length < 0 || length > maxInsideFor || wait < 0 || wait > maxInsideWait:
		return api.Errorf(api.CodeBadRequest, "for_seconds = %d, wait_ms = %d: from 0 to 7 days and from 0 to 24 hours", req.ForSeconds, req.WaitMillis)
	case len(req.Reason) > maxReason:
		return api.Errorf(api.CodeBadRequest, "reason has %d bytes: at most %d", len(req.Reason), maxReason)
	}
	if req.Tree {
		if err := s.mayLockTree(r, p, req); err != nil {
			return err
		}
	}
	want := lockd.Want{Mode: lockd.Write, Reason: req.Reason, For: length, Wait: wait, Op: "lock"}
	if req.Read {
		want.Mode = lockd.Read
	}
	if req.Tree {
		want.Trees = []string{lockd.FileKey(p)}
	} else {
		want.Paths = []string{lockd.FileKey(p)}
	}
	if err := s.views.locks.Lock(r.Context(), want); err != nil {
		return insideLockError(p, err)
	}
	return writeJSON(w, api.Lock{Workspace: s.Spec.Workspace, Path: p, Holder: s.Spec.Agent, LockType: string(want.Mode), Tree: req.Tree, Reason: req.Reason, AcquiredAt: time.Now(), Changed: s.changeOf(r.Context(), p, req.Tree)})
}

// changeOf is targetChange of a path that the agent has locked; of a tree nothing is searched.
func (s *Shim) changeOf(ctx context.Context, p string, tree bool) *api.TargetChange {
	if tree {
		return nil
	}
	return s.targetChange(ctx, p)
}

func (s *Shim) insideUnlock(w http.ResponseWriter, r *http.Request) error {
	var req api.LockRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	p, err := insidePath(req.Path)
	if err != nil {
		return err
	}
	if err := s.views.locks.Unlock(r.Context(), lockd.FileKey(p)); err != nil {
		return insideLockError(p, err)
	}
	return writeJSON(w, struct{}{})
}

// insideWait returns when it is the agent's turn for a path. The path is then held for the agent
// for a short time, so that its next operation succeeds.
func (s *Shim) insideWait(w http.ResponseWriter, r *http.Request) error {
	var req api.WaitRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	p, err := s.lockable(req.Path, false, false)
	if err != nil {
		return err
	}
	wait, keep := time.Duration(req.WaitMillis)*time.Millisecond, time.Duration(req.KeepMillis)*time.Millisecond
	if wait < 0 || wait > maxInsideWait || keep < 0 || keep > maxInsideKeep {
		return api.Errorf(api.CodeBadRequest, "wait_ms = %d, keep_ms = %d: at most 24 hours and 10 minutes", req.WaitMillis, req.KeepMillis)
	}
	began := time.Now()
	if err := s.awaitPath(r.Context(), p, wait, max(keep, time.Millisecond)); err != nil {
		return err
	}
	waited := time.Since(began)
	return writeJSON(w, api.WaitResponse{Path: p, WaitedMillis: waited.Milliseconds(), KeptMillis: keep.Milliseconds(), Changed: s.targetChange(r.Context(), p)})
}

// unreachablePause is the time between attempts while polisd restarts.
const unreachablePause = 200 * time.Millisecond

// awaitPath queues for a path. A restart of polisd only loses the place in the queue.
func (s *Shim) awaitPath(ctx context.Context, p string, wait, keep time.Duration) error {
	defer s.leaseWaits.begin(p)()
	end := time.Now().Add(wait)
	for {
		left := max(time.Until(end), 0)
		err := s.views.locks.Lock(ctx, lockd.Want{Paths: []string{lockd.FileKey(p)}, Reason: "its turn after waiting", For: keep, Wait: left, Soft: true, Op: "wait"})
		var ce *lockd.ConflictError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &ce) && wait > 0:
			return api.Errorf(api.CodeTimeout, "%s is still locked by %s after %s", p, ce.Holder, wait).
				With("holder", ce.Holder).With("since", ce.Since).With("path", lockd.FilePath(ce.Lease))
		case !errors.Is(err, lockd.ErrUnavailable) || left < unreachablePause:
			return insideLockError(p, err)
		}
		select {
		case <-time.After(unreachablePause):
		case <-ctx.Done():
			return insideLockError(p, ctx.Err())
		}
	}
}

func (s *Shim) insideHeld(w http.ResponseWriter, r *http.Request) error {
	locks, err := s.ownLocks(r.Context())
	if err != nil {
		return insideLockError("the list", err)
	}
	return writeJSON(w, locks)
}

// insideStatus is an agent's status as the agent sees it.
func (s *Shim) insideStatus() map[string]any {
	return map[string]any{"agent": s.Spec.Agent, "workspace": s.Spec.Workspace, "branch": s.Spec.Branch, "project": s.Spec.ProjectPath,
		"worktree": s.Spec.Mountpoint, "policy": s.rules(s.settings()), "counters": s.counters(), "locks": s.views.locks.Held()}
}

// lockable checks a path that an agent wants to lock. The agent must be allowed to write it (or
// read it, for a read lock). A tree lock covers every name below, so the agent must be allowed to
// write all of them.
func (s *Shim) lockable(path string, tree, read bool) (string, error) {
	p, err := insidePath(path)
	if err != nil {
		return "", err
	}
	if s.Spec.ReadOnly {
		return "", api.Errorf(api.CodeReadOnly, "agent %s is read-only: it takes no locks", s.Spec.Agent)
	}
	set := s.views.guard.Policy()
	d := set.DecideThrough(p, tree)
	ok := d.Write == policy.Allow || d.Write == policy.Ask
	code := api.CodeUndeclaredWrite
	switch {
	case tree && !set.AllWritable(p):
		return "", api.Errorf(code, "the policy of agent %s does not allow it to write everything in %s, so it cannot lock the tree", s.Spec.Agent, p).
			WithHint("lock the files, or a directory below that is yours as a whole; /run/polis/policy has the rules")
	case read && !tree:
		ok, code = d.Read == policy.Allow || d.Read == policy.Ask || ok, api.CodeUndeclaredRead
	case tree:
		ok = true // the name of the directory itself is not written
	}
	if !ok {
		return "", api.Errorf(code, "the policy of agent %s does not allow it to lock %s", s.Spec.Agent, p).
			WithHint("/run/polis/policy has the rules")
	}
	return p, nil
}

func insideLockError(p string, err error) error {
	var ce *lockd.ConflictError
	switch {
	case errors.As(err, &ce):
		e := api.Errorf(api.CodeFileLocked, "%s is locked by %s since %s", p, ce.Holder, ce.Since.Format(time.RFC3339)).
			With("holder", ce.Holder).With("since", ce.Since).With("path", lockd.FilePath(ce.Lease)).
			WithHint("polisctl wait %s waits until it is free", p)
		if ce.Reason != "" {
			e = e.With("reason", ce.Reason)
		}
		return e
	case errors.Is(err, lockd.ErrNotHeld):
		return api.Errorf(api.CodeNotLocked, "there is no lock of this agent on %s", p).WithHint("/run/polis/locks lists what is locked")
	case errors.Is(err, lockd.ErrLimit):
		return api.Errorf(api.CodeQuota, "lock %s: %w", p, err)
	case errors.Is(err, lockd.ErrInvalid):
		return api.Errorf(api.CodeBadRequest, "lock %s: %w", p, err)
	case errors.Is(err, lockd.ErrUnavailable):
		return api.Errorf(api.CodeLockdUnavailable, "lock %s: %w", p, err).WithHint("polisd cannot be reached just now; try again in a few seconds")
	}
	return api.Errorf(api.CodeTimeout, "lock %s: %w", p, err)
}

// insidePath checks a path that an agent names.
func insidePath(path string) (string, error) {
	if path == "" || len(path) > 4096 || strings.ContainsRune(path, 0) || !filepath.IsLocal(path) || filepath.Clean(path) == "." {
		return "", api.Errorf(api.CodePathTraversal, "path = %q: must be a path inside the repository", api.Shorten(path, 200))
	}
	return filepath.Clean(path), nil
}
