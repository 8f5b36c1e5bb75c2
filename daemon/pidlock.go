package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// lingerTime bounds the wait for what a killed daemon was just starting.
const lingerTime = 10 * time.Second

// holdLock makes sure that one run directory has one daemon. A program that a
// killed daemon was about to start keeps its lock until it executes, for a moment or,
// on a machine under load, longer; a lock whose owner is dead is waited for.
func holdLock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take the run directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lingerTime)
	defer cancel()
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			if err = writePID(f); err != nil {
				return nil, errors.Join(fmt.Errorf("take the run directory: %w", err), f.Close())
			}
			return f, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) && !alive(f) {
			select {
			case <-time.After(10 * time.Millisecond):
				continue
			case <-ctx.Done():
			}
		}
		return nil, errors.Join(api.Errorf(api.CodeUnavailable, "another polisd uses %s: %w", filepath.Dir(path), err).
			WithHint("stop it, or give this one another run_dir"), f.Close())
	}
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// alive says whether the process that took the lock is there. Nothing written
// yet is somebody who has just taken it.
func alive(f *os.File) bool {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0) //nolint:errcheck // a short read is the end of the file
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	return err != nil || pid <= 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
