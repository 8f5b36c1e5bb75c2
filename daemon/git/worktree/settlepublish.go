package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	if same, err := isIndex(admin, was); err != nil || !same {
		return err // without a lock, which would be in the way of git
	}
	to, err := newFile(admin, indexLock)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer to.Close()
	published := false
	defer func() {
		if !published {
			err = errors.Join(err, admin.Remove(indexLock))
		}
	}()
	if same, err := isIndex(admin, was); err != nil || !same {
		return err
	}
	if err := errors.Join(copyFile(to, from), w.giveFile(to), setTime(to, at)); err != nil {
		return err
	}
	if fi, err = to.Stat(); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	if err := admin.Rename(indexLock, "index"); err != nil {
		return err
	}
	published = true
	w.racy.renew(agent, was, idOfIndex(fi), at)
	return nil
}
