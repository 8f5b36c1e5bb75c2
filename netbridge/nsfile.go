package netbridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ensureNetNS returns a thread in the namespace that path names, making the
// namespace and the file when there is none. A file that is no namespace (a
// crash between creating it and mounting on it) is replaced.
func ensureNetNS(path string) (n *NS, created bool, err error) {
	n, err = OpenNS(path)
	if err == nil {
		return n, false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNotNetNS) {
		return nil, false, err
	}
	if err := removeNetNS(path); err != nil {
		return nil, false, err
	}
	n, err = createNetNS(path)
	return n, err == nil, err
}

// createNetNS makes a namespace and keeps it alive by a bind mount on path.
func createNetNS(path string) (*NS, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create namespace file: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("create namespace file: %w", err)
	}
	n, err := startNS(path, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind network namespace to %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return n, nil
}

// maxStackedMounts bounds how many mounts removeNetNS takes off one file. More than one is the
// residue of two daemons in one directory; this many never occurs.
const maxStackedMounts = 32

// removeNetNS unmounts and unlinks path; a missing file is success. Processes in the namespace
// keep it alive until they exit.
func removeNetNS(path string) error {
	for range maxStackedMounts {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // no mount (any more), umount2(2)
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove namespace file: %w", err)
	}
	return nil
}
