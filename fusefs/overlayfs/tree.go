package overlayfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree reads what an overlay of two directories shows, without a mount: each call reads both
// directories as they are now. It understands whiteouts, opaque directories and redirects. It
// follows no symbolic link, and leaves neither directory.
type Tree struct{ upper, lower int }

// NewTree returns the tree of two directories. It duplicates the descriptors; Close closes the
// duplicates.
func NewTree(upper, lower int) (*Tree, error) {
	up, err := unix.FcntlInt(uintptr(upper), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("hold the upper directory: %w", err)
	}
	low, err := unix.FcntlInt(uintptr(lower), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold the lower directory: %w", err), unix.Close(up))
	}
	return &Tree{upper: up, lower: low}, nil
}

// Close closes the descriptors. The tree must not be used afterwards.
func (t *Tree) Close() error { return errors.Join(unix.Close(t.upper), unix.Close(t.lower)) }

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// open opens a path below dir.
func open(dir int, path string, flags int) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: beneath})
}

// at is a directory of the tree: its descriptors in both layers, -1 where a layer has none.
type at struct{ up, low int }

func (a at) close() {
	for _, fd := range []int{a.up, a.low} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Open opens a path, slash separated and relative to the root, with the flags of open(2). The error
// is an errno.
func (t *Tree) Open(path string, flags int) (int, error) {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	if name == "" {
		return -1, unix.EINVAL
	}
	d, err := t.dir(dir)
	if err != nil {
		return -1, err
	}
	defer d.close()
	in, _, err := d.layer(name)
	if err != nil {
		return -1, err
	}
	return open(in, name, flags)
}

// IsDir reports whether a path is a directory. A missing path is none.
func (t *Tree) IsDir(path string) (bool, error) {
	fd, err := t.Open(path, unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case err == nil:
		return true, unix.Close(fd)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return false, nil
	}
	return false, err
}

// List returns the names in a directory; "" is the root.
func (t *Tree) List(path string) ([]fs.DirEntry, error) {
	d, err := t.dir(path)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var out []fs.DirEntry
	have := map[string]bool{}
	for _, fd := range []int{d.up, d.low} {
		entries, err := list(fd)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if have[e.Name()] {
				continue
			}
			have[e.Name()] = true
			white := fd == d.up && e.Type()&fs.ModeCharDevice != 0
			if white {
				if _, white, err = d.layer(e.Name()); err != nil && !white {
					return nil, err
				}
			}
			if !white {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

func list(fd int) ([]fs.DirEntry, error) {
	if fd < 0 {
		return nil, nil
	}
	again, err := open(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(again), "directory of a layer")
	defer f.Close()
	return f.ReadDir(-1)
}

// layer returns the descriptor of the layer that has what the tree shows under a name. For a
// whiteout it returns ENOENT.
func (a at) layer(name string) (fd int, white bool, err error) {
	if a.up >= 0 {
		var st unix.Stat_t
		err := unix.Fstatat(a.up, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0:
			return -1, true, unix.ENOENT
		case err == nil:
			return a.up, false, nil
		case !errors.Is(err, unix.ENOENT):
			return -1, false, err
		}
	}
	if a.low < 0 {
		return -1, false, unix.ENOENT
	}
	return a.low, false, nil
}

// dir opens a directory in both layers.
func (t *Tree) dir(path string) (at, error) {
	var d at
	var err error
	if d.up, err = open(t.upper, ".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return at{}, err
	}
	if d.low, err = open(t.lower, ".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		unix.Close(d.up)
		return at{}, err
	}
	for rest, more := path, path != ""; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		next, err := t.step(d, name)
		d.close()
		if err != nil {
			return at{}, err
		}
		d = next
	}
	return d, nil
}

// step opens the directory called name of d.
func (t *Tree) step(d at, name string) (at, error) {
	in, _, err := d.layer(name)
	if err != nil {
		return at{}, err
	}
	if in == d.low {
		low, err := open(d.low, name, unix.O_PATH|unix.O_DIRECTORY)
		return at{up: -1, low: low}, err
	}
	next := at{low: -1}
	if next.up, err = open(d.up, name, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return at{}, err
	}
	from, below, err := t.below(next.up, d.low, name)
	if err == nil && from >= 0 {
		if next.low, err = open(from, below, unix.O_PATH|unix.O_DIRECTORY); errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			next.low, err = -1, nil // the directory is the upper layer's alone
		}
	}
	if err != nil {
		unix.Close(next.up)
		return at{}, err
	}
	return next, nil
}

// below returns where in the lower layer a directory of the upper layer continues; -1 if nowhere. The
// directory was called name in low.
func (t *Tree) below(up, low int, name string) (int, string, error) {
	opaque, err := xattr(up, "trusted.overlay.opaque")
	if err != nil || opaque == "y" {
		return -1, "", err
	}
	redirect, err := xattr(up, "trusted.overlay.redirect")
	switch {
	case err != nil:
		return -1, "", err
	case strings.HasPrefix(redirect, "/"):
		return t.lower, strings.TrimPrefix(redirect, "/"), nil
	case redirect != "":
		return low, redirect, nil
	}
	return low, name, nil
}

// xattr returns an attribute of a directory, "" if it has none.
func xattr(fd int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), name, buf)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP):
		return "", nil
	case err != nil:
		return "", err
	}
	return string(buf[:n]), nil
}
