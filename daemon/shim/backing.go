package shim

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/shim/wire"
	"polis/fusefs/idmap"
	"polis/fusefs/overlayfs"
)

// openDir returns a descriptor of a directory, never of a link to one.
func openDir(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// openBacking opens the tree that the view shows.
func openBacking(sp wire.Spec) (*os.File, error) {
	if sp.AsUser {
		return idmap.Open(sp.Tree, uint32(sp.UID), uint32(sp.GID))
	}
	root, err := openDir(sp.Tree)
	if err != nil || sp.Upper == "" || sp.Lower != "" {
		return root, err
	}
	// Without the mount there is an empty directory, and every file would seem to be deleted.
	if is, err := overlayfs.IsOverlay(fmt.Sprintf("/proc/self/fd/%d", root.Fd())); err != nil || !is {
		return nil, errors.Join(err, root.Close(), fmt.Errorf("no overlay is mounted at %s", sp.Tree))
	}
	return root, nil
}

// openOwn opens the directory of what the agent itself takes of the disk: what it changed, if it
// shares a base tree, else its whole worktree.
func openOwn(sp wire.Spec, root *os.File) (*os.File, error) {
	if sp.Upper != "" {
		return openDir(sp.Upper)
	}
	fd, err := unix.FcntlInt(root.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("hold the directory below the view: %w", err)
	}
	return os.NewFile(uintptr(fd), sp.Tree), nil
}
