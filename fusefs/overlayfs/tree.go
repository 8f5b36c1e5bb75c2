package overlayfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Tree reads what an overlay of directories shows, without a mount: each call reads all of them as they
// are now. It understands whiteouts, opaque directories and redirects. It follows no symbolic link,
// and leaves no directory.
type Tree struct{ layers []int } // the upper one first

// NewTree returns the tree of an upper directory and the lower ones, of which each covers those after
// it. It duplicates the descriptors; Close closes the duplicates.
func NewTree(upper int, lower ...int) (*Tree, error) {
	t := &Tree{}
	for _, dir := range append([]int{upper}, lower...) {
		fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hold a directory of an overlay: %w", err), t.Close())
		}
		t.layers = append(t.layers, fd)
	}
	return t, nil
}

// Close closes the descriptors. The tree must not be used afterwards.
func (t *Tree) Close() error {
	var errs []error
	for _, fd := range t.layers {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// dirFlags open a directory so that its attributes can be read.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY

// open opens a path below dir.
func open(dir int, path string, flags int) (int, error) {
	return unix.Openat2(dir, path, &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: beneath})
}

// at is a directory of the tree: its descriptors in the layers, -1 where a layer has none.
type at []int

func (a at) close() {
	for _, fd := range a {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Open opens a path, slash separated and relative to the root, with the flags of open(2). The error
// is an errno.
func (t *Tree) Open(path string, flags int) (int, error) {
	dir, name := split(path)
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
	return open(d[in], name, flags)
}

// IsDir reports whether a path is a directory. A missing path is none.
func (t *Tree) IsDir(path string) (bool, error) {
	dir, name := split(path)
	if name == "" {
		return false, unix.EINVAL
	}
	d, err := t.dir(dir)
	if err == nil {
		defer d.close()
		_, mode, err := d.layer(name)
		if err == nil {
			return mode == unix.S_IFDIR, nil
		}
		return false, missing(err)
	}
	return false, missing(err)
}

// missing is an error that says more than that a path is missing.
func missing(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
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
	for _, fd := range d {
		entries, err := list(fd)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if have[e.Name()] {
				continue
			}
			have[e.Name()] = true
			if e.Type()&fs.ModeCharDevice != 0 {
				if _, _, white, err := has(fd, e.Name()); err != nil {
					return nil, err
				} else if white {
					continue
				}
			}
			out = append(out, e)
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

// has reports whether a directory of a layer has a name, its type (S_IFMT), and whether that is a whiteout.
func has(dir int, name string) (is bool, kind uint32, white bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, 0, false, nil
	case err != nil:
		return false, 0, false, err
	}
	kind = st.Mode & unix.S_IFMT
	return true, kind, kind == unix.S_IFCHR && st.Rdev == 0, nil
}

// layer returns the layer that has what the tree shows under a name, and its type. For a name that no
// layer has, and for a whiteout, it returns ENOENT.
func (a at) layer(name string) (in int, kind uint32, err error) {
	for i, fd := range a {
		if fd < 0 {
			continue
		}
		// Every layer but the last can cover others.
		is, kind, white, err := has(fd, name)
		switch {
		case err != nil:
			return -1, 0, err
		case white:
			return -1, 0, unix.ENOENT
		case is:
			return i, kind, nil
		}
	}
	return -1, 0, unix.ENOENT
}

// dir opens a directory in all layers.
func (t *Tree) dir(path string) (at, error) {
	d := make(at, 0, len(t.layers))
	for _, root := range t.layers {
		fd, err := open(root, ".", dirFlags)
		if err != nil {
			d.close()
			return nil, err
		}
		d = append(d, fd)
	}
	for rest, more := path, path != ""; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		next, err := t.step(d, name)
		d.close()
		if err != nil {
			return nil, err
		}
		d = next
	}
	return d, nil
}

// step opens the directory called name of d. A directory of a layer continues in those below, until one
// has something else under the name, or the directory is opaque.
func (t *Tree) step(d at, name string) (next at, err error) {
	next = make(at, len(d))
	for i := range next {
		next[i] = -1
	}
	defer func() {
		if err != nil {
			next.close()
		}
	}()
	first := 0
	if d[0] >= 0 { // mostly it is there
		if next[0], err = open(d[0], name, dirFlags); err != nil {
			next[0] = -1
		}
	}
	if next[0] < 0 {
		if first, _, err = d.layer(name); err != nil {
			return next, err
		}
		if next[first], err = open(d[first], name, dirFlags); err != nil {
			next[first] = -1
			return next, err
		}
	}
	from, path := d, name
	for i := first + 1; i < len(d); i++ {
		if above := next[i-1]; above >= 0 { // what it notes is about the layers below
			if from, path, err = t.below(above, from, path); err != nil || from == nil {
				return next, err
			}
		}
		if from[i] < 0 {
			continue
		}
		next[i], err = open(from[i], path, dirFlags)
		switch {
		case errors.Is(err, unix.ENOENT):
			next[i], err = -1, nil
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP): // covered, as all below it
			next[i] = -1
			return next, nil
		case err != nil:
			return next, err
		}
	}
	return next, nil
}
