package idmap

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUnsupported reports that the kernel (before 5.12) or the file system of the
// tree cannot do it.
var ErrUnsupported = errors.New("the file system cannot be shown as another user's")

// maxID is the largest id there is; the one above it means none.
const maxID = 1<<32 - 2

// Open returns a descriptor of the open directory dir and everything mounted below
// it, in which root and uid, and group 0 and gid, have changed places. Needs
// CAP_SYS_ADMIN. The caller closes both.
func Open(dir *os.File, uid, gid uint32) (*os.File, error) {
	path := dir.Name()
	if uid == 0 || gid == 0 {
		return nil, fmt.Errorf("show %s as uid %d, gid %d: must not be root's", path, uid, gid)
	}
	fd, err := unix.OpenTree(int(dir.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, unsupported(&os.PathError{Op: "open_tree", Path: path, Err: err})
	}
	tree := os.NewFile(uintptr(fd), path)
	ns, err := namespace(swap(uid), swap(gid))
	if err != nil {
		return nil, errors.Join(unsupported(err), tree.Close())
	}
	defer ns.Close()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID, Userns_fd: uint64(ns.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return nil, errors.Join(unsupported(&os.PathError{Op: "mount_setattr", Path: path, Err: err}), tree.Close())
	}
	return tree, nil
}

func unsupported(err error) error { return fmt.Errorf("%w: %w", ErrUnsupported, err) }

// swap maps every id to itself, but for 0 and id, which change places.
func swap(id uint32) []syscall.SysProcIDMap {
	n := int(id)
	m := []syscall.SysProcIDMap{{ContainerID: 0, HostID: n, Size: 1}, {ContainerID: n, HostID: 0, Size: 1}}
	if n > 1 {
		m = append(m, syscall.SysProcIDMap{ContainerID: 1, HostID: 1, Size: n - 1})
	}
	if n < maxID {
		m = append(m, syscall.SysProcIDMap{ContainerID: n + 1, HostID: n + 1, Size: maxID - n})
	}
	return m
}

// namespace makes a user namespace with these maps. A namespace needs a process. This one lives until
// the namespace is open, and only waits for the end of its input.
func namespace(uids, gids []syscall.SysProcIDMap) (ns *os.File, err error) {
	cmd := exec.Command("cat") //nolint:forbidigo // a namespace exists only with a process in it; this one reads a pipe and ends
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid)) //nolint:forbidigo // the kernel's name of our own child's namespace
	err = errors.Join(err, in.Close(), cmd.Wait())
	if err != nil {
		if ns != nil {
			_ = ns.Close() //nolint:errcheck // opened for reading
		}
		return nil, fmt.Errorf("make a user namespace: %w", err)
	}
	return ns, nil
}
