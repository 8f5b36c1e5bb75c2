package overlayfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Layers are the directories of one mount. Upper and Work must be on one file system, and neither
// may contain the other.
type Layers struct {
	// Lower are the directories that never change. A name in an earlier one hides the same name in a
	// later one, except that directories are merged.
	Lower       []string
	Upper, Work string
	// Target is where the merged tree appears.
	Target string
	// Source is the first column of /proc/mounts; "polis" if empty.
	Source string
}

// Mount mounts the layers at Target, nosuid and nodev. It resolves no symbolic link in the last
// component of a path. The error wraps the errno of the failing call (mount(2), ERRORS).
func Mount(l Layers) error {
	ctx, err := newMount(cmp.Or(l.Source, "polis"))
	if err != nil {
		return err
	}
	defer unix.Close(ctx)
	for _, layer := range []struct {
		option string
		paths  []string
	}{{"lowerdir", l.Lower}, {"upperdir", []string{l.Upper}}, {"workdir", []string{l.Work}}} {
		fds := make([]string, 0, len(layer.paths))
		for _, path := range layer.paths {
			dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("configure the overlay: %w", &fs.PathError{Op: "open", Path: path, Err: err})
			}
			defer unix.Close(dir)
			fds = append(fds, fmt.Sprintf("/proc/thread-self/fd/%d", dir)) // the caller can be a thread with descriptors of its own
		}
		if err := unix.FsconfigSetString(ctx, layer.option, strings.Join(fds, ":")); err != nil {
			return fmt.Errorf("configure the overlay: %s %q: %w", layer.option, layer.paths, reason(ctx, err))
		}
	}
	return attach(ctx, "on", l.Target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// MountReadOnly mounts directories at target, of which each covers those after it: what an overlay
// shows whose upper directory is the first, as it is now. That overlay may be mounted elsewhere; what
// it changes later need not show here.
func MountReadOnly(target string, layers ...*os.File) error {
	ctx, err := newMount("polis")
	if err != nil {
		return err
	}
	defer unix.Close(ctx)
	lower := ""
	for _, dir := range layers {
		lower += fmt.Sprintf(":/proc/self/fd/%d", dir.Fd())
	}
	if err := unix.FsconfigSetString(ctx, "lowerdir", lower[min(1, len(lower)):]); err != nil {
		return fmt.Errorf("configure the overlay: lowerdir: %w", reason(ctx, err))
	}
	return attach(ctx, "follow", target, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY)
}

// newMount begins the configuration of an overlay.
func newMount(source string) (int, error) {
	ctx, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open the overlay file system: fsopen: %w", err)
	}
	if err := unix.FsconfigSetString(ctx, "source", source); err != nil {
		unix.Close(ctx)
		return -1, fmt.Errorf("configure the overlay: source: %w", err)
	}
	return ctx, nil
}

// attach makes the configured overlay and mounts it at target.
func attach(ctx int, redirect, target string, attr int) error {
	for _, o := range []struct{ key, value string }{{"redirect_dir", redirect}, {"index", "off"}, {"metacopy", "off"}, {"nfs_export", "off"}, {"xino", "off"}} {
		if err := unix.FsconfigSetString(ctx, o.key, o.value); err != nil {
			return fmt.Errorf("configure the overlay: %s: %w", o.key, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return fmt.Errorf("make the overlay for %s: %w", target, reason(ctx, err))
	}
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return fmt.Errorf("make the overlay for %s: fsmount: %w", target, err)
	}
	defer unix.Close(mnt)
	if attr&unix.MOUNT_ATTR_RDONLY == 0 {
		if err := writable(mnt); err != nil {
			return fmt.Errorf("make the overlay for %s: %w", target, err)
		}
	}
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the overlay at %s: %w", target, err)
	}
	return nil
}

// writable checks that an overlay can be written. The kernel makes one that cannot, without an error,
// if it cannot empty the work directory.
func writable(mnt int) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(mnt, &st); err != nil {
		return fmt.Errorf("fstatfs: %w", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("the kernel cannot use its work directory, which may have to be emptied: %w", unix.EROFS)
	}
	return nil
}

// reason adds the kernel's message about a failed configuration (fsconfig(2)), if there is one.
func reason(ctx int, err error) error {
	var text [512]byte
	if n, rerr := unix.Read(ctx, text[:]); rerr == nil && n > 0 {
		return fmt.Errorf("%w (%s)", err, text[:n])
	}
	return err
}

// Mounted reports whether an overlay is mounted at target. A missing target has none.
func Mounted(target string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "statx", Path: target, Err: err}
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return false, nil
	}
	return IsOverlay(target)
}

// IsOverlay reports whether path is in an overlay.
func IsOverlay(path string) (bool, error) {
	var sfs unix.Statfs_t
	if err := unix.Statfs(path, &sfs); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return sfs.Type == unix.OVERLAYFS_SUPER_MAGIC, nil
}

// Unmount unmounts what is mounted at target. A target without an overlay is unmounted already. If
// the mount is in use it is detached: it disappears at once, and ends with its last user.
func Unmount(target string) error {
	there, err := Mounted(target)
	if err != nil || !there {
		return err
	}
	err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: another caller was first
		return &fs.PathError{Op: "umount", Path: target, Err: err}
	}
	return nil
}

// Forget makes the kernel forget the names and inodes of the overlay at target that nothing uses.
// They hold those of its upper directory. The kernel does so for every reconfiguration of a mount;
// this one changes nothing. A target without an overlay has none.
func Forget(target string) error {
	there, err := Mounted(target)
	if err != nil || !there {
		return err
	}
	ctx, err := unix.Fspick(unix.AT_FDCWD, target, unix.FSPICK_CLOEXEC|unix.FSPICK_SYMLINK_NOFOLLOW|unix.FSPICK_NO_AUTOMOUNT)
	if err != nil {
		return &fs.PathError{Op: "fspick", Path: target, Err: err}
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigReconfigure(ctx); err != nil {
		return fmt.Errorf("reconfigure the overlay at %s: %w", target, reason(ctx, err))
	}
	return nil
}
