package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/fusefs/fdtree"
)

// maxSettle bounds the wait of Settle: times are compared in seconds.
const maxSettle = 2 * time.Second

// Settle writes an agent's index again if it is as old as one of its files for which asked returns true. Git
// compares the content of such a file in every command (racy-git in git's technical documentation), which an
// agent may not read before a person approves it. Git of the agent may run meanwhile: it has its lock for what it writes
// (index.lock), and while it has, or if it has written, Settle leaves the index as it is.
func (w *Workspace) Settle(ctx context.Context, agent string, v View, asked func(path string) bool) error {
	if err := w.settle(ctx, agent, v, asked); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "settle the index of agent %s: %w", agent, err)
	}
	return nil
}

func (w *Workspace) settle(ctx context.Context, agent string, v View, asked func(path string) bool) (err error) {
	newest, err := w.asOld(ctx, agent, asked)
	if err != nil || newest == 0 {
		return err
	}
	if locked, err := w.locked(agent); err != nil || locked {
		return err
	}
	// Git that is killed leaves its lock behind, so it works on a copy.
	tmp, err := w.scratch("save-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	dir, err := openScratch(tmp)
	if err != nil {
		return err
	}
	defer dir.Close()
	at, err := past(ctx, dir, newest)
	if err != nil || at.IsZero() {
		return err
	}
	was, err := w.indexCopy(agent, dir)
	if err != nil {
		return err
	}
	// With --stdin, which names nothing, git enters the worktree: without it, it finds no file there that it should compare.
	if _, err := w.Bare().Do(ctx, w.cmd(agent, v, filepath.Join(tmp, "index"), "update-index", "-q", "--force-write-index", "-z", "--stdin")); err != nil {
		return err
	}
	return w.publishIndex(agent, dir, was, at)
}

// locked reports whether a git of the agent writes its index, or has died while it did.
func (w *Workspace) locked(agent string) (bool, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return false, err
	}
	defer root.Close()
	if err := unlockIndex(root); err != nil { // of a settle that a kill of polisd ended
		return false, err
	}
	_, err = root.Lstat(indexLock)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// past waits until the clock that gives the files in dir their times has passed a second, and returns its time then. It
// runs behind the one of time.Now by up to a tick of the kernel (CLOCK_REALTIME_COARSE in clock_gettime(2)), or is that of
// another machine. The time is zero if that takes too long: git then asks about files that it need not read.
func past(ctx context.Context, dir *os.Root, second int64) (time.Time, error) {
	f, err := dir.OpenFile("clock", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return time.Time{}, err
	}
	defer f.Close()
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	end := time.Now().Add(2 * maxSettle)
	for wait := time.Until(time.Unix(second+1, 0)); ; wait = time.Millisecond {
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return time.Time{}, context.Cause(ctx)
		}
		if err := unix.UtimesNanoAt(int(f.Fd()), "", now, unix.AT_EMPTY_PATH); err != nil {
			return time.Time{}, err
		}
		fi, err := f.Stat()
		switch {
		case err != nil:
			return time.Time{}, err
		case fi.ModTime().Unix() > second:
			return fi.ModTime(), nil
		case time.Now().After(end):
			return time.Time{}, nil
		}
	}
}

// indexCopy copies an agent's index to a scratch directory, with its time: git compares the files that changed since.
func (w *Workspace) indexCopy(agent string, dir *os.Root) (indexID, error) {
	from, fi, err := w.Index(agent)
	if err != nil {
		return indexID{}, err
	}
	defer from.Close()
	err = w.writeAdmin(dir, "index", func(to io.Writer) error { _, err := io.Copy(to, io.LimitReader(from, maxIndex)); return err })
	if err != nil {
		return indexID{}, err
	}
	to, err := dir.OpenFile("index", os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return indexID{}, err
	}
	return idOfIndex(fi), errors.Join(setTime(to, fi.ModTime()), to.Close())
}
