package walk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrForeign reports that a path leads through a directory, or a symbolic link, of a user who must not decide where
// it leads.
var ErrForeign = errors.New("another user could exchange it")

const (
	maxDepth = 256 // components of a path, and of the links on it
	maxLinks = 40  // as the kernel's own (path_resolution(7))
)

// A rule decides about a component of a path. dir is the directory that contains it, st the component itself, which
// is the last one or not. A symbolic link that passes is followed.
type rule func(dir, st *unix.Stat_t, last bool) error

// walk opens path, absolute or relative to the directory from, with O_PATH. The descriptor is never one of a symbolic
// link.
func walk(from int, path string, allowed rule) (*os.File, error) {
	w := &walker{allowed: allowed, path: path, at: -1}
	defer func() { w.close(w.at) }()
	if !filepath.IsAbs(path) {
		if err := w.begin(from); err != nil {
			return nil, err
		}
	}
	if err := w.push(path); err != nil {
		return nil, err
	}
	for len(w.names) > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	f := os.NewFile(uintptr(w.at), path)
	w.at = -1
	return f, nil
}

type walker struct {
	allowed rule
	path    string
	names   []string // components to come
	at      int
	st      unix.Stat_t // of at
	links   int
	seen    int
}

func (w *walker) close(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) //nolint:errcheck // nothing was written
	}
}

// begin is at an open directory.
func (w *walker) begin(from int) (err error) {
	if w.at, err = unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	return os.NewSyscallError("fstat", unix.Fstat(w.at, &w.st))
}

// push puts a path before the components to come.
func (w *walker) push(path string) error {
	if filepath.IsAbs(path) {
		if err := w.root(); err != nil {
			return err
		}
	}
	var names []string
	for _, name := range strings.Split(path, "/") {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	if w.seen += len(names); w.seen > maxDepth {
		return &os.PathError{Op: "open", Path: w.path, Err: unix.ENAMETOOLONG}
	}
	w.names = append(names, w.names...)
	return nil
}

func (w *walker) root() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/", Err: err}
	}
	w.close(w.at)
	w.at = fd
	return os.NewSyscallError("fstat", unix.Fstat(fd, &w.st))
}

// step opens the next component.
func (w *walker) step() error {
	name := w.names[0]
	fail := func(err error) error {
		return fmt.Errorf("open %s: %s: %w", w.path, name, err)
	}
	fd, err := unix.Openat(w.at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		w.close(fd)
		return fail(err)
	}
	w.names = w.names[1:]
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	if err := w.allowed(&w.st, &st, len(w.names) == 0); err != nil {
		w.close(fd)
		return fail(err)
	}
	if link {
		err := w.follow(fd)
		w.close(fd)
		if err != nil {
			return fail(err)
		}
		return nil
	}
	w.close(w.at)
	w.at, w.st = fd, st
	return nil
}

// follow puts the target of a link before the components to come.
func (w *walker) follow(fd int) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return err
	}
	return w.push(string(target[:n]))
}

// roots reports whether a file is root's, or that of the daemon if it is not root.
func roots(st *unix.Stat_t) bool { return st.Uid == 0 || st.Uid == uint32(os.Geteuid()) }

// linkOf is the rule for symbolic links: root made it, in a directory of root's, where nobody else moved it to.
func linkOf(dir, st *unix.Stat_t) error {
	if roots(dir) && roots(st) {
		return nil
	}
	return fmt.Errorf("%w: a symbolic link of uid %d in a directory of uid %d", ErrForeign, st.Uid, dir.Uid)
}
