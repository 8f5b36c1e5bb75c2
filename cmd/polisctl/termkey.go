package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// escapeTime is how long after an escape what comes belongs to its sequence.
const escapeTime = 50 * time.Millisecond

// readKey reads one byte; 0 if none comes in time, or ctx ends. Escape sequences are dropped: Alt with a letter, or an arrow
// key, is no letter. The Escape key alone is 27.
func readKey(ctx context.Context, f *os.File, limit time.Duration) (byte, error) {
	for end := time.Now().Add(limit); ctx.Err() == nil; {
		left := time.Until(end)
		if left <= 0 {
			return 0, nil
		}
		// In short steps: a signal that ends ctx may come to another thread.
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(min(left, 200*time.Millisecond)/time.Millisecond)+1)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && n == 0:
			continue
		case err != nil:
			return 0, api.Errorf(api.CodeInternal, "read the terminal: %w", err)
		}
		var b [1]byte
		if n, err := unix.Read(int(f.Fd()), b[:]); err != nil || n == 0 {
			return 0, api.Errorf(api.CodeInternal, "the terminal is gone")
		}
		if b[0] == 27 && dropSequence(ctx, f) {
			continue
		}
		return b[0], nil
	}
	return 0, nil
}

// dropSequence drops what follows an escape, and reports whether anything did.
func dropSequence(ctx context.Context, f *os.File) (more bool) {
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(escapeTime/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		var b [64]byte
		if err != nil || n == 0 {
			return more
		}
		if n, err := unix.Read(int(f.Fd()), b[:]); err != nil || n <= 0 {
			return more // the next read reports it
		}
		more = true
	}
	return more
}
