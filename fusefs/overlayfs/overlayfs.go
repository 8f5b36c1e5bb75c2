package overlayfs

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Layers are the directories of one mount. Upper and Work must be on one file system, and neither
// may contain the other.
type Layers struct {
	Lower, Upper, Work string
	// Target is where the merged tree appears.
	Target string
}

// Mount mounts the layers at Target, nosuid and nodev. It resolves no symbolic link in the last
// component of a path. The error wraps the errno of the failing call (mount(2), ERRORS).
func Mount(l Layers) (err error) {
	ctx, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open the overlay file system: fsopen: %w", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigSetString(ctx, "source", "polis"); err != nil {
		return fmt.Errorf("configure the overlay: source: %w", err)
	}
	for _, layer := range []struct{ option, path string }{{"lowerdir", l.Lower}, {"upperdir", l.Upper}, {"workdir", l.Work}} {
		dir, err := unix.Open(layer.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("configure the overlay: %w", &fs.PathError{Op: "open", Path: layer.path, Err: err})
		}
		defer unix.Close(dir)
		if err := unix.FsconfigSetString(ctx, layer.option, fmt.Sprintf("/proc/self/fd/%d", dir)); err != nil {
			return fmt.Errorf("configure the overlay: %s %s: %w", layer.option, layer.path, reason(ctx, err))
		}
	}
	for _, o := range []struct{ key, value string }{{"redirect_dir", "on"}, {"index", "off"}, {"metacopy", "off"}, {"nfs_export", "off"}} {
		if err := unix.FsconfigSetString(ctx, o.key, o.value); err != nil {
			return fmt.Errorf("configure the overlay: %s: %w", o.key, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return fmt.Errorf("make the overlay of %s: %w", l.Upper, reason(ctx, err))
	}
	mnt, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return fmt.Errorf("make the overlay of %s: fsmount: %w", l.Upper, err)
	}
	defer unix.Close(mnt)
	if err := unix.MoveMount(mnt, "", unix.AT_FDCWD, l.Target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount the overlay at %s: %w", l.Target, err)
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
	return Is(target)
}

// Is reports whether path is in an overlay.
func Is(path string) (bool, error) {
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
