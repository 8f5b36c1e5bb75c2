package overlayfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrManyChanges: the upper layer has more changes than the caller wants to know.
var ErrManyChanges = errors.New("too many changes in the upper layer")

// Changes returns the paths at which the merged tree of upper above lower can differ from lower: at
// each of them, or anywhere below it. It reads no file and enters only directories that both layers
// have, so its cost depends on the changes alone. A whiteout, a file, and a directory that is opaque,
// redirected or missing in lower, or that gives its owner other permissions than lower does, are one path each. The tree may be mounted, and may change
// meanwhile. A directory that exists only because something in it changed is no path.
//
// skip is a name that is left out in every directory, with everything below it. Changes returns
// ErrManyChanges if there are more than most.
func Changes(ctx context.Context, lower, upper *os.File, skip string, most int) ([]string, error) {
	w := changes{ctx: ctx, skip: skip, most: most}
	same, err := sameAccess(lower, upper)
	switch {
	case err != nil:
		return nil, err
	case !same:
		return nil, fmt.Errorf("the owner's permissions of the top directory differ: %w", ErrManyChanges)
	}
	err = w.dir(lower, upper, "")
	return w.paths, err
}

type changes struct {
	ctx   context.Context
	skip  string
	most  int
	paths []string
}

func (w *changes) add(path string) error {
	if len(w.paths) == w.most {
		return ErrManyChanges
	}
	w.paths = append(w.paths, path)
	return nil
}

// dir reads a directory that both layers have. Both descriptors stay open: a tree as deep as the
// lower one, which no agent writes.
func (w *changes) dir(lower, upper *os.File, path string) error {
	for {
		if err := w.ctx.Err(); err != nil {
			return context.Cause(w.ctx)
		}
		entries, err := upper.ReadDir(512)
		for _, e := range entries {
			if e.Name() == w.skip {
				continue
			}
			if err := w.entry(lower, upper, e.Name(), path); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the upper layer: %w", err)
		}
	}
}

// entry reads one name of the upper layer. What is removed meanwhile is a change too.
func (w *changes) entry(lower, upper *os.File, name, path string) error {
	above, err := openDir(upper, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return w.add(path + name)
	}
	if err != nil {
		return fmt.Errorf("read the upper layer: %w", &os.PathError{Op: "openat2", Path: path + name, Err: err})
	}
	defer above.Close()
	replaced, err := replaces(above)
	if err != nil {
		return fmt.Errorf("read the upper layer: %w", &os.PathError{Op: "fgetxattr", Path: path + name, Err: err})
	}
	if replaced {
		return w.add(path + name)
	}
	below, err := openDir(lower, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return w.add(path + name)
	}
	if err != nil {
		return fmt.Errorf("read the lower layer: %w", &os.PathError{Op: "openat2", Path: path + name, Err: err})
	}
	defer below.Close()
	same, err := sameAccess(below, above)
	if err != nil {
		return err
	}
	if !same {
		return w.add(path + name)
	}
	return w.dir(below, above, path+name+"/")
}

// sameAccess reports whether the owner may do the same in two directories. What is below a directory
// that the owner cannot search does not exist for the owner's programs.
func sameAccess(a, b *os.File) (bool, error) {
	var sa, sb unix.Stat_t
	if err := errors.Join(unix.Fstat(int(a.Fd()), &sa), unix.Fstat(int(b.Fd()), &sb)); err != nil {
		return false, fmt.Errorf("stat the layers: %w", err)
	}
	return sa.Mode&unix.S_IRWXU == sb.Mode&unix.S_IRWXU, nil
}

// openDir opens a directory in another one.
func openDir(at *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat2(int(at.Fd()), name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// attributes are those with which a directory of the upper layer hides the one of the same name in
// the lower layer. The second form is that of mounts with the option userxattr; any user may set it,
// which only makes the directory one path.
var attributes = []string{"trusted.overlay.opaque", "trusted.overlay.redirect", "user.overlay.opaque", "user.overlay.redirect"}

// replaces reports whether a directory of the upper layer shows nothing, or something else, of the
// lower layer's directory of that name.
func replaces(dir *os.File) (bool, error) {
	var names [4096]byte
	n, err := unix.Flistxattr(int(dir.Fd()), names[:])
	switch {
	case errors.Is(err, unix.ERANGE):
		return true, nil // more than polis or the kernel sets
	case errors.Is(err, unix.ENOTSUP):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, name := range splitNames(names[:n]) {
		if slices.Contains(attributes, name) {
			return true, nil
		}
	}
	return false, nil
}

// splitNames splits the result of listxattr(2).
func splitNames(b []byte) (names []string) {
	for from, i := 0, 0; i < len(b); i++ {
		if b[i] == 0 {
			names = append(names, string(b[from:i]))
			from = i + 1
		}
	}
	return names
}
