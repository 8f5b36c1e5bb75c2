package fusefs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Again mounts the view at its mount point again if another program has unmounted it there (umount -l) while it is in use
// elsewhere, as in a sandbox. It reports whether it did. What another program has mounted there instead stays.
func (fs *FS) Again() (again bool, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server == nil || fs.dead.Load() {
		return false, nil
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, fs.cfg.Mountpoint, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st); err != nil {
		return false, fmt.Errorf("fusefs: look at %s: %w", fs.cfg.Mountpoint, err)
	}
	if st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return false, nil
	}
	if err := fs.server.Again(); err != nil {
		return false, fmt.Errorf("fusefs: mount %s again: %w", fs.cfg.Mountpoint, err)
	}
	return true, nil
}
