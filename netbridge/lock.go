package netbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait bounds how long a change waits for another daemon's change. One
// takes some ten milliseconds.
const lockWait = 30 * time.Second

// DefaultLockFile is locked (flock(2)) by every process that changes bridges, addresses or
// ip_forward on this machine. It is in a directory only root may write.
const DefaultLockFile = "/run/polis-net.lock"

// lockFile takes the machine-wide lock; unlock(true) also removes the file.
func lockFile(ctx context.Context, path string) (unlock func(remove bool) error, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("%w: %s", ErrBusy, path))
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock the network: %w", err)
	}
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock the network: %w", err)
		}
		if err := flock(ctx, f); err != nil {
			return nil, errors.Join(fmt.Errorf("lock the network: %w", err), f.Close())
		}
		// The last daemon to leave removes the file: the one we locked may have been removed
		// since.
		same, err := stillAt(f, path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the network: %w", err), f.Close())
		}
		if !same {
			if err := f.Close(); err != nil {
				return nil, fmt.Errorf("lock the network: %w", err)
			}
			continue
		}
		return func(remove bool) error {
			var rm error
			if remove {
				rm = os.Remove(path)
			}
			return errors.Join(rm, f.Close()) // closing releases the lock
		}, nil
	}
}

// flock polls, because a blocking flock(2) cannot be cancelled.
func flock(ctx context.Context, f *os.File) error {
	const first, most = time.Millisecond, 20 * time.Millisecond
	for wait := first; ; wait = min(2*wait, most) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func stillAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, there), nil
}
