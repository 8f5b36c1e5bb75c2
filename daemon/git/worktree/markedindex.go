package worktree

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git/base"
)

// A base tree keeps, beside its prepared index, the same index with the files marked that some rules
// withhold, so that an agent with the same rules needs no git to make it from 100,000 names.

const (
	// markedPrefix begins the names of these files in the directory of a base. After it are the key of
	// the rules, the end of the checksum of the prepared index, and the time since the machine started:
	// the files are not synced.
	markedPrefix = "marked-"
	// mostMarked bounds them for one base. The one used least recently is removed.
	mostMarked = 4
	// checksumBytes are read of the checksum at the end of an index.
	checksumBytes = 16
)

// marked is where a base keeps the index for one set of rules.
type marked struct{ path string }

// takeMarked replaces the index of an agent by the kept one with the same files marked. done is false if
// there is none. It returns where to keep one if the agent's index is still the one that the base
// prepared, else nil. The agent must be stopped.
func (w *Workspace) takeMarked(ctx context.Context, agent, key string) (m *marked, done bool, err error) {
	id, err := w.baseOf(agent)
	boot := base.BootID()
	if err != nil || id == "" || boot == "" {
		return nil, false, err
	}
	err = w.bases.Use(ctx, id, func(b base.Base) error {
		end, same, err := w.hasPrepared(agent, b.Index)
		if err != nil || !same {
			return err
		}
		m = &marked{filepath.Join(filepath.Dir(b.Index), markedPrefix+key+"-"+end+"-"+boot)}
		switch err = w.replaceIndex(agent, m.path); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err == nil:
			done = true
			now := unix.NsecToTimespec(w.cfg.Now().UnixNano())
			err = unix.UtimesNanoAt(unix.AT_FDCWD, m.path, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW)
		}
		return err
	})
	return m, done, err
}

// hasPrepared reports whether the index of an agent is the prepared one, byte for byte. It returns the
// end of its checksum.
func (w *Workspace) hasPrepared(agent, prepared string) (end string, same bool, err error) {
	f, fi, err := w.Index(agent)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	p, err := os.Open(prepared)
	if err != nil {
		return "", false, err
	}
	defer p.Close()
	pi, err := p.Stat()
	if err != nil || pi.Size() != fi.Size() || pi.Size() < checksumBytes {
		return "", false, err
	}
	own, of := make([]byte, 256<<10), make([]byte, 256<<10)
	for rest := pi.Size(); rest > 0; {
		n := min(rest, int64(len(own)))
		if _, err := io.ReadFull(f, own[:n]); err != nil {
			return "", false, err
		}
		if _, err := io.ReadFull(p, of[:n]); err != nil {
			return "", false, err
		}
		if !bytes.Equal(own[:n], of[:n]) {
			return "", false, nil
		}
		rest -= n
	}
	var sum [checksumBytes]byte
	if _, err := p.ReadAt(sum[:], pi.Size()-checksumBytes); err != nil {
		return "", false, err
	}
	return hex.EncodeToString(sum[:]), true, nil
}

// replaceIndex gives a worktree a copy of an index, in the way of git: a file that another process
// is writing (index.lock) is an error.
func (w *Workspace) replaceIndex(agent, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	const lock = "index.lock"
	if err := w.copyIndex(admin, lock, src); err != nil {
		return err
	}
	return admin.Rename(lock, "index")
}

// copyIndex makes a file of an agent's part of the git directory that is a copy of src.
func (w *Workspace) copyIndex(admin *os.Root, name string, src *os.File) error {
	dst, err := admin.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err = errors.Join(copyFile(dst, src), w.giveFile(dst), dst.Close()); err != nil {
		return errors.Join(err, admin.Remove(name))
	}
	return nil
}

// copyFile makes dst, which is empty, a copy of an index, by reference where the file system can (FICLONE in
// ioctl_ficlone(2)).
func copyFile(dst, src *os.File) error {
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	_, err := io.Copy(dst, io.LimitReader(src, maxCopiedIndex)) // an agent's can grow
	return err
}

// keep stores the marked index of an agent, which was the prepared one before.
func (m *marked) keep(w *Workspace, agent string) error {
	f, fi, err := w.Index(agent)
	if err != nil {
		return err
	}
	defer f.Close()
	dir := filepath.Dir(m.path)
	tmp, err := os.CreateTemp(dir, markedPrefix+"*.new")
	if err != nil {
		return err
	}
	if fi.Size() > maxIndex {
		err = fmt.Errorf("it has more than %d bytes", maxIndex)
	} else {
		err = copyFile(tmp, f)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), m.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return pruneMarked(dir)
}

// pruneMarked removes the kept indexes of a base that are too many. What a crash left counts as one.
func pruneMarked(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var have []fs.FileInfo
	var errs []error
	for _, e := range entries {
		switch fi, err := e.Info(); {
		case err != nil:
			errs = append(errs, err)
		case strings.HasPrefix(e.Name(), markedPrefix):
			have = append(have, fi)
		}
	}
	slices.SortFunc(have, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, fi := range have[min(mostMarked, len(have)):] {
		errs = append(errs, os.Remove(filepath.Join(dir, fi.Name())))
	}
	return errors.Join(errs...)
}
