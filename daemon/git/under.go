package git

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Under says which directory a command shall see without the views mounted in
// it. A view covers the worktree it shows, and git resolves every path it is
// given, also /proc/self/fd/N, to the name where the view is: so the name
// itself must lead to the files. The command gets a mount namespace of its own
// where it does; nobody else sees a change.
//
// It needs CAP_SYS_ADMIN. Without it no view can be mounted either, and the
// caller passes no Under.
type Under struct {
	// Path is the directory, absolute and without symlinks. Mounts on it and
	// below it are out of the command's sight.
	Path string
	// Root, if not nil, is an open directory to be shown at Path: a descriptor
	// of what is below the view. Otherwise Path's parent is shown without the
	// mounts in it.
	Root *os.File
	// Parent is the directory that holds Path, used when Root is nil.
	Parent string
}

// prepare opens the directory to be shown. enter then gives the thread it is
// called on a mount namespace of its own in which it is shown; done closes it.
func (u *Under) prepare() (enter func() error, done func(), err error) {
	target, from := u.Parent, unix.AT_FDCWD
	name, flags := u.Parent, uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if u.Root != nil {
		target, from, name = u.Path, int(u.Root.Fd()), ""
		flags |= unix.AT_EMPTY_PATH
	}
	if target == "" {
		return nil, nil, errors.New("look under a view: no directory given")
	}
	// A clone without AT_RECURSIVE leaves the mounts inside behind. It must be
	// made here: the new namespace may not clone mounts of the old one.
	tree, err := unix.OpenTree(from, name, flags)
	if err != nil {
		return nil, nil, fmt.Errorf("look under the view at %s: open_tree: %w", target, err)
	}
	enter = func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("look under the view at %s: unshare: %w", target, err)
		}
		// Slave: an unmount on the host reaches the copy, nothing goes back.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("look under the view at %s: make mounts slaves: %w", target, err)
		}
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("look under the view at %s: move_mount: %w", target, err)
		}
		return nil
	}
	return enter, func() { unix.Close(tree) }, nil
}
