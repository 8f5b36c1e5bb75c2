package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
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
	// Parent is an absolute path of a directory of root's, and Name is a directory in it. Each
	// directory above it belongs to root or to the command's user. The command does not see mounts
	// on that directory or below it.
	Parent, Name string
	// Root, if not nil, is the open directory to show there: a descriptor of what the view covers.
	Root *os.File
	// Open, if not nil, opens the directory to show if Root is nil. It may return nil: then it is
	// the one called Name.
	Open func(context.Context) (*os.File, error)
}

// prepare opens the directory to show. enter moves the calling thread to a mount namespace in
// which the directory is shown to uid, who owns directories above Parent at most. done closes the
// directory. No path is resolved twice: the owner of a directory above Parent can exchange that one.
func (u *Under) prepare(ctx context.Context, uid uint32) (enter func() error, done func(), err error) {
	if u.Parent == "" || u.Name == "" || !filepath.IsLocal(u.Name) || strings.Contains(u.Name, "/") {
		return nil, nil, errors.New("open the files below a view: no directory given")
	}
	fail := func(what string, err error) error {
		return fmt.Errorf("open the files below the view at %s: %s: %w", filepath.Join(u.Parent, u.Name), what, err)
	}
	root := u.Root
	if root == nil && u.Open != nil {
		if root, err = u.Open(ctx); err != nil {
			return nil, nil, err
		}
		if root != nil {
			defer root.Close()
		}
	}
	from := root
	if from == nil {
		if from, err = walk.Own(u.Parent, uid); err != nil {
			return nil, nil, fail("open", err)
		}
		defer from.Close()
	}
	// A clone without AT_RECURSIVE excludes the mounts below it. It is made in the old namespace:
	// the new one cannot clone its mounts.
	tree, err := unix.OpenTree(int(from.Fd()), "", cloneTree)
	if err != nil {
		return nil, nil, fail("open_tree", err)
	}
	// The clone of a shared mount is shared with it: what is mounted in it would appear on the host.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(tree)
		return nil, nil, fail("mount_setattr", err)
	}
	enter = func() error {
		if err := u.enter(tree, root != nil, uid); err != nil {
			return fail("show them", err)
		}
		return nil
	}
	return enter, func() { unix.Close(tree) }, nil
}

// enter gives the calling thread a mount namespace in which Parent contains nothing but Name. whole: tree is what to
// show there; else it is Parent without what is mounted in it.
func (u *Under) enter(tree int, whole bool, uid uint32) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	// MS_SLAVE: an unmount on the host propagates to the copy, and nothing propagates back.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts slaves: %w", err)
	}
	parent, err := walk.Own(u.Parent, uid) // in this namespace
	if err != nil {
		return err
	}
	defer parent.Close()
	at, shown := int(parent.Fd()), tree
	if !whole {
		if err := attach(tree, at); err != nil {
			return err
		}
		at = tree
		if shown, err = cloneOf(tree, u.Name); err != nil {
			return err
		}
		defer unix.Close(shown)
	}
	// Replace Parent by a directory that every user can search, and that contains only Name.
	only, err := emptyDir()
	if err != nil {
		return err
	}
	defer unix.Close(only)
	if err := attach(only, at); err != nil {
		return err
	}
	if err := unix.Mkdirat(only, u.Name, 0o755); err != nil {
		return fmt.Errorf("mkdir: %w", err)
	}
	point, err := unix.Openat(only, u.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer unix.Close(point)
	return attach(shown, point)
}

// attach mounts a tree on an open directory.
func attach(tree, at int) error {
	if err := unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// cloneOf clones the directory name of an attached tree.
func cloneOf(tree int, name string) (int, error) {
	dir, err := unix.Openat(tree, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	defer unix.Close(dir)
	fd, err := unix.OpenTree(dir, "", cloneTree)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	return fd, nil
}

// emptyDir makes a tree with an empty directory.
func emptyDir() (int, error) {
	ctx, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	for _, o := range [][2]string{{"source", "polis"}, {"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "8"}} {
		if err := unix.FsconfigSetString(ctx, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("fsconfig: %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("fsconfig: %w", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return fd, nil
}

// cloneTree makes open_tree(2) copy only the mount that contains the open directory.
const cloneTree = uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
