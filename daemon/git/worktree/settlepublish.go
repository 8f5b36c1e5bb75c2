package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// indexLock is the file that git makes while it writes an index.
const indexLock = "index.lock"

// indexID distinguishes an index from every other that git writes in its place.
type indexID struct {
	dev, ino uint64
	size, at int64 // in bytes, and in nanoseconds
}

func idOfIndex(fi fs.FileInfo) indexID {
	id := indexID{size: fi.Size(), at: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id.dev, id.ino = st.Dev, st.Ino
	}
	return id
}

// isIndex reports whether an agent's index is still a certain one.
func isIndex(admin *os.Root, id indexID) (bool, error) {
	fi, err := admin.Lstat("index")
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && idOfIndex(fi) == id, err
}

// settledIndex is the settled index until it is published: a second name of index.lock then, so that the lock of a polisd
// that was killed is known from one of git's.
const settledIndex = "index.polis"

// publishIndex gives an agent that may run the index in a scratch directory, in the way of git, as if it were written at a
// time. It leaves an index that is not the one that was copied, or that another process writes.
func (w *Workspace) publishIndex(agent string, dir *os.Root, was indexID, at time.Time) (err error) {
	from, fi, err := openIndex(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	if fi.Size() > maxCopiedIndex {
		return fmt.Errorf("the index has more than %d bytes", maxCopiedIndex)
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	to, err := newFile(admin, settledIndex)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlockIndex(admin)) }()
	defer to.Close()
	if err := errors.Join(copyFile(to, from), w.giveFile(to), setTime(to, at)); err != nil {
		return err
	}
	if fi, err = to.Stat(); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if same, err := isIndex(admin, was); err != nil || !same {
		return err // without a lock, which would be in the way of git
	}
	switch err := admin.Link(settledIndex, indexLock); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	if same, err := isIndex(admin, was); err != nil || !same {
		return err
	}
	if err := admin.Rename(indexLock, "index"); err != nil {
		return err
	}
	w.racy.renew(agent, was, idOfIndex(fi), at)
	return nil
}

// unlockIndex removes what publishIndex has made in an agent's part of the git directory and not published, also that of a
// polisd that was killed. A lock of git stays.
func unlockIndex(admin *os.Root) error {
	made, err := admin.Lstat(settledIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := admin.Lstat(indexLock)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case os.SameFile(made, lock):
		if err := admin.Remove(indexLock); err != nil {
			return err
		}
	}
	return admin.Remove(settledIndex)
}

// unlockIndexes is unlockIndex for all agents, at the start of polisd. What an agent has in the way is its own loss.
func (w *Workspace) unlockIndexes() error {
	entries, err := os.ReadDir(filepath.Join(w.bareDir(), "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		admin, err := w.openAdmin(e.Name())
		if err != nil {
			continue // no worktree of an agent, or a broken one: its start reports it
		}
		if err := errors.Join(unlockIndex(admin), admin.Close()); err != nil {
			w.cfg.Log.Warn("lock of an index not removed", "agent", e.Name(), "err", err)
		}
	}
	return nil
}
