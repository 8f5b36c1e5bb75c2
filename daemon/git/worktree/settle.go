package worktree

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// maxSettle bounds the wait of Settle: times are compared in seconds.
const maxSettle = 2 * time.Second

// settleTries bounds how often Settle writes an index whose file system has times of another clock.
const settleTries = 3

// Settle writes an agent's index again if it is as old as one of its files for which asked returns true. Git
// compares the content of such a file in every command (racy-git in git's technical documentation), which an
// agent may not read before a person approves it. Git of the agent may run meanwhile: it has its lock for what it writes
// (index.lock), and while it has, Settle leaves the index as it is.
func (w *Workspace) Settle(ctx context.Context, agent string, v View, asked func(path string) bool) error {
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return api.Errorf(api.CodeWorktreeFailed, "settle the index of agent %s: %w", agent, err)
	}
	for range settleTries {
		newest, err := w.asOld(agent, asked)
		if err != nil {
			return fail(err)
		}
		if newest == 0 {
			return nil
		}
		if err := past(ctx, newest); err != nil {
			return fail(err)
		}
		if locked, err := w.locked(agent); err != nil || locked {
			return fail(err)
		}
		// With --stdin, which names nothing, git enters the worktree: without it, it finds no file there that it should compare.
		if _, err := w.Bare().Do(ctx, w.cmd(agent, v, "", "update-index", "-q", "--force-write-index", "-z", "--stdin")); err != nil {
			return fail(err)
		}
	}
	return nil
}

// locked reports whether a git of the agent writes its index, or has died while it did.
func (w *Workspace) locked(agent string) (bool, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return false, err
	}
	defer root.Close()
	_, err = root.Lstat("index.lock")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// asOld returns the newest time, in seconds, of an agent's files for which asked returns true and that are not older
// than its index; 0 if there is none. Files with a time to come stay so.
func (w *Workspace) asOld(agent string, asked func(path string) bool) (int64, error) {
	f, fi, err := w.Index(agent)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if fi.Size() > maxIndex {
		return 0, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return 0, err
	}
	x, err := parseIndex(text)
	if err != nil {
		return 0, nil //nolint:nilerr // git asks about files that it need not read
	}
	var newest int64
	soon := time.Now().Add(maxSettle).Unix() - 1
	for i := range x.Entries {
		if at := x.Modified(i); at >= fi.ModTime().Unix() && at <= soon && asked(x.Entries[i].Name) {
			newest = max(newest, at)
		}
	}
	return newest, nil
}

// past waits until the clock that gives files their times has passed a second. It runs behind the one of time.Now by
// up to a tick of the kernel (CLOCK_REALTIME_COARSE in clock_gettime(2)).
func past(ctx context.Context, second int64) error {
	end := time.Now().Add(2 * maxSettle) // the clock can be set back: git then asks about files that it need not read
	for wait := time.Until(time.Unix(second+1, 0)); ; wait = time.Millisecond {
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now); err != nil || now.Sec > second || time.Now().After(end) {
			return err
		}
	}
}
