package ownedpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLinks bounds the symbolic links of a path, as the kernel does.
	maxLinks = 40
	// maxDepth bounds the directories that are open at a time.
	maxDepth = 256
)

// Read opens a regular file for reading. The last component of the path must not be a symbolic link. The caller
// checks who else may read the file.
func Read(path string, owner uint32) (*os.File, error) {
	w := walk{owner: owner}
	defer w.close()
	name, err := w.to(path, false)
	if err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a pipe would block.
	fd, err := unix.Openat(w.dir(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &st), w.file(path, &st)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Program returns the path of a program without symbolic links. All of it belongs to root or to owner, so that the
// path leads to the same file when it is executed.
func Program(path string, owner uint32) (string, error) {
	w := walk{owner: owner}
	defer w.close()
	name, err := w.to(path, true)
	if err != nil {
		return "", err
	}
	var st unix.Stat_t
	real := filepath.Join(w.path(), name)
	if err := unix.Fstatat(w.dir(), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", &os.PathError{Op: "stat", Path: real, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 == 0 {
		return "", fmt.Errorf("%s is no program", real)
	}
	return real, w.file(real, &st)
}

// walk is a way from the root directory, of which every directory is open.
type walk struct {
	owner uint32
	dirs  []int // the root directory first
	names []string
	links int
}

func (w *walk) dir() int     { return w.dirs[len(w.dirs)-1] }
func (w *walk) path() string { return "/" + strings.Join(w.names, "/") }

func (w *walk) close() {
	for _, fd := range w.dirs {
		_ = unix.Close(fd) //nolint:errcheck // nothing was written
	}
}

// to opens the directories on the way to a path, and returns its last component, which is no symbolic link if follow.
func (w *walk) to(path string, follow bool) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s: must be an absolute path", path)
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: "/", Err: err}
	}
	w.dirs = append(w.dirs, root)
	if err := w.directory(root, "/"); err != nil {
		return "", err
	}
	rest := parts(path)
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			w.up()
			continue
		}
		last := len(rest) == 0
		if last && !follow {
			return name, nil
		}
		target, err := w.enter(name)
		switch {
		case errors.Is(err, errFile) && last:
			return name, nil
		case err != nil:
			return "", err
		case target != "":
			if w.links++; w.links > maxLinks {
				return "", &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			if filepath.IsAbs(target) {
				for len(w.names) > 0 {
					w.up()
				}
			}
			rest = append(parts(target), rest...)
		}
	}
	return "", fmt.Errorf("%s is a directory", path)
}

// errFile is returned for what is no directory and no symbolic link.
var errFile = errors.New("not a directory")

// enter opens a directory below the present one. It returns the target of a symbolic link instead.
func (w *walk) enter(name string) (target string, err error) {
	path := filepath.Join(w.path(), name)
	fd, err := unix.Openat(w.dir(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	keep := false
	defer func() {
		if !keep {
			_ = unix.Close(fd) //nolint:errcheck // nothing was written
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if len(w.dirs) >= maxDepth {
			return "", fmt.Errorf("%s is in more than %d directories", path, maxDepth)
		}
		keep = true
		w.dirs, w.names = append(w.dirs, fd), append(w.names, name)
		return "", w.directory(fd, path)
	case unix.S_IFLNK:
		// It has no mode: its directory was checked, and in one with the sticky bit its owner counts.
		if err := w.belongs(path, &st); err != nil {
			return "", err
		}
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil || n == 0 || n == len(buf) {
			return "", &os.PathError{Op: "readlink", Path: path, Err: errors.Join(err, fs.ErrInvalid)}
		}
		return string(buf[:n]), nil
	}
	return "", fmt.Errorf("%s: %w", path, errFile)
}

func (w *walk) up() {
	if n := len(w.names); n > 0 {
		_ = unix.Close(w.dirs[n]) //nolint:errcheck // nothing was written
		w.dirs, w.names = w.dirs[:n], w.names[:n-1]
	}
}

// directory checks a directory of the path. In one with the sticky bit nobody replaces what is root's.
func (w *walk) directory(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_ISVTX != 0 {
		st.Mode &^= 0o022
	}
	return errors.Join(w.belongs(path, &st), unwritable(path, &st))
}

// file checks the file itself, for which the sticky bit means nothing.
func (w *walk) file(path string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is no regular file", path)
	}
	return errors.Join(w.belongs(path, st), unwritable(path, st))
}

func (w *walk) belongs(path string, st *unix.Stat_t) error {
	if st.Uid != 0 && st.Uid != w.owner {
		return fmt.Errorf("%s belongs to uid %d: it must belong to root", path, st.Uid)
	}
	return nil
}

// unwritable checks the mode. With an access control list, the bits of the group are the most that it grants.
func unwritable(path string, st *unix.Stat_t) error {
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s can be changed by others: chmod go-w it", path)
	}
	return nil
}

// parts returns the components of a path. ".." stays: what it means depends on the links before it.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." })
}
