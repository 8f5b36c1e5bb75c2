package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Under names the directory that a command sees without the views mounted in it. A view covers the
// worktree that it shows. Git resolves every path, including /proc/self/fd/N, to the name at which
// the view is mounted, so that name itself must lead to the files. The command gets a mount
// namespace in which it does; no other process sees the change. In that namespace Parent contains
// no other directory. The command's user need not be able to search Parent on the host.
//
// It needs CAP_SYS_ADMIN. Without that capability no view can be mounted, and the caller passes no
// Under.
type Under struct {
	// Parent is an absolute path without symbolic links, and Name is a directory in it. The
	// command does not see mounts on that directory or below it.
	Parent, Name string
	// Root, if not nil, is the open directory to show there: a descriptor of what the view covers.
	Root *os.File
	// Open, if not nil, opens the directory to show if Root is nil. It may return nil: then it is
	// the one called Name.
	Open func(context.Context) (*os.File, error)
}

// prepare opens the directory to show. enter moves the calling thread to a mount namespace in
// which the directory is shown. done closes the directory.
func (u *Under) prepare(ctx context.Context) (enter func() error, done func(), err error) {
	if u.Parent == "" || u.Name == "" {
		return nil, nil, errors.New("open the files below a view: no directory given")
	}
	path := filepath.Join(u.Parent, u.Name)
	fail := func(what string, err error) error {
		return fmt.Errorf("open the files below the view at %s: %s: %w", path, what, err)
	}
	from, name, flags := unix.AT_FDCWD, u.Parent, cloneTree
	root := u.Root
	if root == nil && u.Open != nil {
		if root, err = u.Open(ctx); err != nil {
			return nil, nil, err
		}
		if root != nil {
			defer root.Close()
		}
	}
	if root != nil {
		from, name, flags = int(root.Fd()), "", cloneTree|unix.AT_EMPTY_PATH
	}
	// A clone without AT_RECURSIVE excludes the mounts below it. It is made in the old namespace:
	// the new one cannot clone its mounts.
	tree, err := unix.OpenTree(from, name, flags)
	if err != nil {
		return nil, nil, fail("open_tree", err)
	}
	// The clone of a shared mount is shared with it: what is mounted in it would appear on the host.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(tree)
		return nil, nil, fail("mount_setattr", err)
	}
	enter = func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fail("unshare", err)
		}
		// MS_SLAVE: an unmount on the host propagates to the copy, and nothing propagates back.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fail("make mounts slaves", err)
		}
		shown := tree
		if root == nil {
			if err := unix.MoveMount(tree, "", unix.AT_FDCWD, u.Parent, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fail("move_mount", err)
			}
			if shown, err = unix.OpenTree(unix.AT_FDCWD, path, cloneTree); err != nil {
				return fail("open_tree", err)
			}
			defer unix.Close(shown)
		}
		// Replace Parent by a directory that every user can search, and that contains only Name.
		if err := unix.Mount("polis", u.Parent, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0755,size=64k,nr_inodes=8"); err != nil {
			return fail("mount a tmpfs", err)
		}
		if err := unix.Mkdir(path, 0o755); err != nil {
			return fail("mkdir", err)
		}
		if err := unix.MoveMount(shown, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fail("move_mount", err)
		}
		return nil
	}
	return enter, func() { unix.Close(tree) }, nil
}

// cloneTree makes open_tree(2) copy only the mount that contains the path.
const cloneTree = uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW)
