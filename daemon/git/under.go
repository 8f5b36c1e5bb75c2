package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Under is the directory that a command sees without the views mounted in it. A view covers the
// worktree it shows, and git resolves every path it is given, also /proc/self/fd/N, to the name
// where the view is: so the name itself must lead to the files. The command gets a mount
// namespace of its own where it does; no other process sees a change. It sees no other directory
// of Parent there, and Parent may be one that the command's user cannot enter.
//
// It needs CAP_SYS_ADMIN. Without it no view can be mounted either, and the caller passes no
// Under.
type Under struct {
	// Parent is a directory, absolute and without symlinks, Name one in it.
	// Mounts on that and below it are out of the command's sight.
	Parent, Name string
	// Root, if not nil, is the open directory to be shown there: a descriptor
	// of what is below the view.
	Root *os.File
}

// prepare opens the directory to be shown. enter then gives the thread it is
// called on a mount namespace of its own in which it is shown; done closes it.
func (u *Under) prepare() (enter func() error, done func(), err error) {
	if u.Parent == "" || u.Name == "" {
		return nil, nil, errors.New("look under a view: no directory given")
	}
	path := filepath.Join(u.Parent, u.Name)
	fail := func(what string, err error) error {
		return fmt.Errorf("look under the view at %s: %s: %w", path, what, err)
	}
	from, name, flags := unix.AT_FDCWD, u.Parent, cloneTree
	if u.Root != nil {
		from, name, flags = int(u.Root.Fd()), "", cloneTree|unix.AT_EMPTY_PATH
	}
	// A clone without AT_RECURSIVE leaves the mounts inside behind. It must be
	// made here: the new namespace may not clone mounts of the old one.
	tree, err := unix.OpenTree(from, name, flags)
	if err != nil {
		return nil, nil, fail("open_tree", err)
	}
	enter = func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fail("unshare", err)
		}
		// Slave: an unmount on the host reaches the copy, nothing goes back.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fail("make mounts slaves", err)
		}
		shown := tree
		if u.Root == nil {
			if err := unix.MoveMount(tree, "", unix.AT_FDCWD, u.Parent, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return fail("move_mount", err)
			}
			if shown, err = unix.OpenTree(unix.AT_FDCWD, path, cloneTree); err != nil {
				return fail("open_tree", err)
			}
			defer unix.Close(shown)
		}
		// In place of Parent a directory that anybody may enter, with the one in it.
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

// cloneTree makes open_tree(2) copy the one mount that a path is on.
const cloneTree = uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW)
