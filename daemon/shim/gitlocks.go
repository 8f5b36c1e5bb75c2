package shim

import (
	"context"
	"errors"
	"strings"
	"time"

	"polis/fusefs/gitdir"
	"polis/fusefs/gitdir/level"
	"polis/lockd"
)

// gitKey reports whether a key of the table is one of git's.
func gitKey(key string) bool {
	return key == lockd.Exclusive || strings.HasPrefix(key, lockd.RefKey(""))
}

// gitHold returns how long leases are held: git's locks end with their lock files, regardless of
// the rules for files.
func gitHold(files func(string) lockd.Hold) func(string) lockd.Hold {
	return func(key string) lockd.Hold {
		if gitKey(key) {
			return lockd.HoldClose
		}
		return files(key)
	}
}

func gitWait(files func(string) time.Duration) func(string) time.Duration {
	return func(key string) time.Duration {
		switch {
		case key == lockd.Exclusive:
			return level.ExclusiveWait
		case gitKey(key):
			return level.RefWait
		}
		return files(key)
	}
}

// gitLocker adapts lockd to the guard of the git directory.
type gitLocker struct{ c *lockd.Client }

// Acquire implements gitdir.Locker.
func (l gitLocker) Acquire(ctx context.Context, k gitdir.Lock) (gitdir.Lease, error) {
	key, mode := lockd.RefKey(k.Ref), lockd.Write
	switch k.Level {
	case level.Exclusive:
		key = lockd.Exclusive
	case level.RefRead:
		mode = lockd.Read
	}
	t, err := l.c.Acquire(ctx, lockd.Request{Paths: []string{key}, Op: "git " + k.Op, Pid: k.Pid, Mode: mode})
	var ce *lockd.ConflictError
	if errors.As(err, &ce) {
		return nil, &gitdir.BusyError{Ref: k.Ref, Holder: ce.Holder, Since: ce.Since}
	}
	if err != nil {
		return nil, err
	}
	return gitLease{t}, nil
}

type gitLease struct{ *lockd.Ticket }

// Release implements gitdir.Lease.
func (l gitLease) Release() { l.Done() }
