package walk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/internal/asuser"
)

// Source opens, with O_PATH, the file or directory at a path that an administrator gave, for a process of uid and gid.
//
// Root opens it if nobody but one owner decides where the path leads: each directory on the way belongs to root, up
// to one from which on all belong to the same user, and no symbolic link is another one's than root's. What is at its
// end can belong to any user. Otherwise it is opened with the rights of uid, so that what a user puts there leads to
// nothing that a process of uid could not reach itself.
func Source(path string, uid, gid uint32) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EINVAL}
	}
	f, err := walk(-1, path, oneOwner())
	if !errors.Is(err, ErrForeign) {
		return f, err
	}
	var fd int
	uerr := asuser.Do(uid, gid, func() (err error) {
		fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		return err
	})
	if uerr != nil {
		return nil, fmt.Errorf("open %s as uid %d (%w): %w", path, uid, err, uerr)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// oneOwner is the rule of Source.
func oneOwner() rule {
	var owner *uint32 // who owns the directories since the first one that is not root's
	return func(dir, st *unix.Stat_t, last bool) error {
		switch {
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			return linkOf(dir, st)
		case last:
			return nil
		case owner == nil && roots(st):
			return nil
		case owner == nil:
			uid := st.Uid
			owner = &uid
			return nil
		case st.Uid != *owner:
			return fmt.Errorf("%w: it belongs to uid %d, in a directory of uid %d", ErrForeign, st.Uid, *owner)
		}
		return nil
	}
}
