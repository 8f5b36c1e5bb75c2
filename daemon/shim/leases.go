package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/fusefs"
	"polis/fusefs/view"
	"polis/lockd"
)

// openLocks starts the agent's session with the lock table. The view is not mounted yet, so the
// descriptor of the tree is that of the real directory.
func (s *Shim) openLocks(v *views) error {
	sp := s.Spec
	rules, err := compileLockRules(sp)
	if err != nil {
		return err
	}
	backing, err := s.openWritten()
	if err != nil {
		return err
	}
	s.onEnd("directory of the leases", func(context.Context) error { return backing.Close() })
	c := lockd.NewClient(sp.LockSocket, sp.Workspace, sp.Agent)
	c.Log = s.Log
	c.HoldFor, c.WaitFor = gitHold(rules.holdFor), gitWait(rules.waitFor)
	c.StaleTimeout = cmp.Or(time.Duration(sp.StaleTimeout), c.StaleTimeout)
	c.Bound = cmp.Or(time.Duration(sp.DaemonWait), c.Bound)
	c.Busy = func(key string) bool { return !gitKey(key) && stillWritten(backing, lockd.FilePath(key)) }
	c.Compare = compareFiles(v)
	c.OnLost, c.OnWaiter = s.leasesLost, s.leaseAwaited
	if err := c.Open(); err != nil {
		return fmt.Errorf("reach lockd: %w", err)
	}
	v.locks = c
	// Closed last: as long as this process lives, a starting polisd expects the session to reclaim
	// its leases, and makes all others wait for it.
	s.onEnd("leases", func(context.Context) error { return c.Close() })
	s.group.Go(func() error { s.keepLocks(); return nil })
	return nil
}

// stillWritten reports whether a file of the tree can still be written although no handle of the
// view is open: a shared mapping keeps the backing file open for writing after the last close. On
// a file system that cannot report this, leases end with the last close.
func stillWritten(root *os.File, path string) bool {
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return false // gone, or not a file
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	once, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Is(fusefs.NoWriters(once, fd), context.Canceled)
}

// releaseIdle releases the leases on files that nothing uses, after their changes were merged.
// Git's own locks end with their lock files.
func (s *Shim) releaseIdle() {
	s.views.locks.ReleaseIdle(func(key string) bool { return !gitKey(key) })
}

// leasesLost reports that leases were taken from this agent.
func (s *Shim) leasesLost(paths []string, why string) {
	ev := api.Event{Type: api.EventLockLost, Agent: s.Spec.Agent, Code: api.CodeStaleLock,
		Message: fmt.Sprintf("agent %s lost %d leases: %s", s.Spec.Agent, len(paths), why)}
	if strings.HasPrefix(why, "broken") {
		ev.Code = api.CodeLockBroken
	}
	if len(paths) == 1 {
		ev.Message = fmt.Sprintf("agent %s lost the lease on %s: %s", s.Spec.Agent, lockd.FilePath(paths[0]), why)
	}
	s.Log.Error("leases were lost", "leases", len(paths), "reason", why)
	s.events.Publish(ev)
	if open := s.views.stillOpen(); len(open) > 0 {
		s.Log.Warn("files are still open for writing without a lease; stop the programs that hold them", "count", len(open), "paths", open)
	}
	s.views.lost.add(time.Now(), paths, why)
	s.inside.touchLocks()
}

// leaseAwaited records that another agent waits for a path of this one; the files in its sandbox
// will show it. The daemon emits the event.
func (s *Shim) leaseAwaited(w lockd.Waiter) {
	s.Log.Debug("lease awaited", "path", lockd.FilePath(w.Path), "waiter", w.Holder, "op", w.Op)
	s.inside.touchLocks()
}

// leaseInfo is the value of user.polis.lease: the holder of the path, if there is one.
func (v *views) leaseInfo(path string) (string, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	leases, err := v.locks.Holders(ctx, lockd.FileKey(path))
	if err != nil || len(leases) == 0 {
		return "", false
	}
	l := leases[0]
	return fmt.Sprintf("%s %s since %s", l.Holder, l.Mode, l.Since.UTC().Format(time.RFC3339)), true
}

// locker implements view.Locker with lockd.
type locker struct {
	c *lockd.Client
	// waited is how long agents were kept waiting by leases of others, in nanoseconds.
	waited *atomic.Int64
	// times are those of all requests; may be nil.
	times *view.Histogram
	waits *leaseWaits // may be nil
	// waiting is called when a lease is awaited, and its result when that has ended; may be nil.
	waiting func(view.LockRequest) (stop func() bool)
	// late is called with a path that was acquired after a long wait; it does not block; may be nil.
	late func(path string)
}

// noWait is the longest that acquiring an uncontended lease takes.
const noWait = 10 * time.Millisecond

// Held implements view.Holder.
func (l locker) Held(op fusefs.Op, path string) fusefs.Ticket {
	if u := l.c.Use(lockd.FileKey(path), string(op)); u != nil {
		return u
	}
	return nil
}

// lockRequest converts a request of the view to one of lockd.
func lockRequest(r view.LockRequest) lockd.Request {
	req := lockd.Request{Op: r.Op, Pid: r.Pid, Mode: lockd.Write}
	for _, p := range r.Paths {
		req.Paths = append(req.Paths, lockd.FileKey(p))
	}
	for _, p := range r.Trees {
		req.Trees = append(req.Trees, lockd.FileKey(p))
	}
	return req
}

// AcquireLocal implements view.LocalLocker.
func (l locker) AcquireLocal(r view.LockRequest) (fusefs.Ticket, error) {
	t, err := l.c.AcquireLocal(lockRequest(r))
	if err != nil {
		return nil, view.ErrMustWait
	}
	return t, nil
}

// Acquire implements view.Locker.
func (l locker) Acquire(ctx context.Context, r view.LockRequest) (fusefs.Ticket, error) {
	req := lockRequest(r)
	if l.waiting != nil {
		defer l.waiting(r)()
	}
	if len(r.Paths)+len(r.Trees) > 0 {
		defer l.waits.begin(append(r.Paths[:len(r.Paths):len(r.Paths)], r.Trees...)[0])()
	}
	began := time.Now()
	t, err := l.c.Acquire(ctx, req)
	took := time.Since(began)
	if l.times != nil {
		l.times.Observe(took.Nanoseconds())
	}
	if took > noWait {
		l.waited.Add(int64(took))
		if l.late != nil && took > longWait && err == nil && len(r.Paths) > 0 {
			l.late(r.Paths[0])
		}
	}
	var ce *lockd.ConflictError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &ce):
		return nil, &view.LockedError{Path: lockd.FilePath(ce.Path), Holder: ce.Holder, Since: ce.Since, Reason: ce.Reason, Until: heldUntil(ce.Until)}
	case errors.Is(err, lockd.ErrLimit):
		return nil, &view.LimitError{Errno: unix.EDQUOT, Code: view.CodeQuota, Err: err}
	case errors.Is(err, lockd.ErrInvalid):
		return nil, &view.LimitError{Errno: unix.EINVAL, Code: view.CodeTooLarge, Err: err}
	}
	return nil, err
}
