package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/history/cas"
)

// Source returns stored contents, which it has verified when the reader ends without an error.
type Source interface {
	Copy(w io.Writer, h cas.Hash) (int64, error)
	Bytes(h cas.Hash, limit int64) ([]byte, error)
}

// Owner owns what Apply makes; negative ids leave it to the caller's process.
type Owner struct{ UID, GID int }

// Apply changes the tree below root by the steps of a plan. The content of a file is complete, and
// verified, before the file that it replaces is removed. It ends soon after ctx does. After an error
// some steps are done: the caller applies another plan. A directory that is not empty stays: it has
// files that no manifest covers.
func Apply(ctx context.Context, root *os.File, steps []Step, from Source, owner Owner) error {
	a := applier{root: root, from: from, owner: owner}
	var dirs []*Entry
	for i := range steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s := &steps[i]
		var err error
		switch {
		case s.Remove != nil:
			err = a.remove(s.Remove)
		case s.Make.Kind == Dir:
			if err = a.directory(s.Make); err == nil {
				dirs = append(dirs, s.Make)
			}
		case s.Keep:
			err = a.attributes(s.Make, unix.O_RDONLY|unix.O_NONBLOCK)
		case s.Make.Kind == Link:
			err = a.link(s.Make)
		default:
			err = a.file(s.Make)
		}
		if err != nil {
			return fmt.Errorf("restore %q: %w", s.Path(), err)
		}
	}
	// The modes of directories are last: one can forbid to write into it.
	for _, e := range dirs {
		if err := a.attributes(e, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
			return fmt.Errorf("restore %q: %w", e.Path, err)
		}
	}
	return nil
}

type applier struct {
	root  *os.File
	from  Source
	owner Owner
}

// parent opens the directory of a path.
func (a *applier) parent(path string) (dir *os.File, name string, err error) {
	at := "."
	name = path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		at, name = path[:i], path[i+1:]
	}
	dir, err = openBelow(a.root, at, unix.O_RDONLY|unix.O_DIRECTORY)
	return dir, name, err
}

func (a *applier) remove(e *Entry) error {
	dir, name, err := a.parent(e.Path)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	flags := 0
	if e.Kind == Dir {
		flags = unix.AT_REMOVEDIR
	}
	err = unix.Unlinkat(int(dir.Fd()), name, flags)
	if errors.Is(err, unix.ENOENT) || e.Kind == Dir && (errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)) {
		return nil
	}
	return err
}

func (a *applier) directory(e *Entry) error {
	dir, name, err := a.parent(e.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Mkdirat(int(dir.Fd()), name, 0o700)
	if errors.Is(err, unix.EEXIST) {
		fd, err := openBelow(dir, name, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return errors.Join(ErrInTheWay, err)
		}
		return fd.Close()
	}
	if err != nil {
		return err
	}
	fd, err := openBelow(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer fd.Close()
	return a.own(fd)
}

func (a *applier) link(e *Entry) error {
	to, err := a.from.Bytes(e.Hash, unix.PathMax)
	if err != nil {
		return err
	}
	dir, name, err := a.parent(e.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Symlinkat(string(to), int(dir.Fd()), name); err != nil {
		return inTheWay(err)
	}
	if a.owner.UID < 0 {
		return nil
	}
	return unix.Fchownat(int(dir.Fd()), name, a.owner.UID, a.owner.GID, unix.AT_SYMLINK_NOFOLLOW)
}

func inTheWay(err error) error {
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) {
		return errors.Join(ErrInTheWay, err)
	}
	return err
}

// file writes a file. If there is one, a file that has no name is complete before it replaces that. Without
// one it is written by its name: ext4 links files without a name into a list on the disk, which costs
// more than to write a small one.
func (a *applier) file(e *Entry) error {
	dir, name, err := a.parent(e.Path)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = a.fileByName(dir, name, e)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) {
		if err := unlinkFile(dir, name); err != nil {
			return err
		}
		return a.fileByName(dir, name, e)
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := a.fill(f, e); err != nil {
		return err
	}
	if err := unlinkFile(dir, name); err != nil {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// fileByName makes a file where there is none.
func (a *applier) fileByName(dir *os.File, name string, e *Entry) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return inTheWay(err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := a.fill(f, e); err != nil {
		return errors.Join(err, unlinkFile(dir, name)) // it is not complete
	}
	return nil
}

func unlinkFile(dir *os.File, name string) error {
	if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return inTheWay(err)
	}
	return nil
}

func (a *applier) fill(f *os.File, e *Entry) error {
	if _, err := a.from.Copy(f, e.Hash); err != nil {
		return err
	}
	if err := a.own(f); err != nil {
		return err
	}
	return a.set(f, e)
}

func (a *applier) own(f *os.File) error {
	if a.owner.UID < 0 {
		return nil
	}
	return f.Chown(a.owner.UID, a.owner.GID)
}

// attributes sets mode and extended attributes of what is there.
func (a *applier) attributes(e *Entry, flags uint64) error {
	f, err := openBelow(a.root, e.Path, flags)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.set(f, e)
}

func (a *applier) set(f *os.File, e *Entry) error {
	var want []Attr
	if !e.Attrs.IsZero() {
		b, err := a.from.Bytes(e.Attrs, MaxManifest)
		if err != nil {
			return err
		}
		if want, err = parseAttrs(b); err != nil {
			return err
		}
	}
	if err := setAttrs(int(f.Fd()), want); err != nil {
		return err
	}
	return unix.Fchmod(int(f.Fd()), e.Mode)
}
