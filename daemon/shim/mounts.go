package shim

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/fusectl"
)

// unmountView unmounts the view of a dead shim. If another directory is at the path of the workspace, nothing there
// is the agent's.
func unmountView(spec wire.Spec) error {
	state, err := openState(spec)
	switch {
	case errors.Is(err, os.ErrNotExist), api.CodeOf(err) == api.CodeWorkspaceInvalid, spec.Mountpoint == "":
		return nil
	case err != nil && stateOf(spec) != "":
		return err
	case err != nil: // a spec that was made to find what is left, by the path that the kernel gave
		return unmountEach(spec.Mountpoint, unix.RESOLVE_NO_SYMLINKS, fsName(spec))
	}
	defer state.Close()
	return unmountAll(at(state, spec, spec.Mountpoint), fsName(spec))
}

// unmountAll unmounts every mount with this source that is stacked on path, and no other one.
func unmountAll(path, source string) error { return unmountEach(path, 0, source) }

func unmountEach(path string, resolve uint64, source string) error {
	for range 16 {
		if none, err := unmountTop(path, resolve, source); none || err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount %s: views keep appearing there", path)
}

// unmountTop unmounts the topmost mount at path if it has this source, and reports whether there is none. It reads
// the kernel's table (proc_pid_mountinfo(5)): a stat of a dead FUSE mount fails. The table is that of this thread:
// another one of this process may be in a sandbox's mount namespace.
func unmountTop(path string, resolve uint64, source string) (none bool, err error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: resolve})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return true, nil
	case err != nil:
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	id, err := mountOf(fd)
	if err != nil {
		return false, err
	}
	is, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.ID != id, m.ID == id })
	if err != nil {
		return false, fmt.Errorf("read mounts: %w", err)
	}
	if len(is) == 0 || is[0].Source != source || !strings.HasPrefix(is[0].FSType, "fuse") && is[0].FSType != "overlay" {
		return true, nil
	}
	err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", fd), unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) { // path is below the mount, or another process was first
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("unmount %s: %w", path, err)
	}
	return false, nil
}

// abortViews ends the FUSE connections of a dead shim that are mounted still.
func abortViews(spec wire.Spec) error {
	at := []string{spec.Mountpoint, upperMount(spec), gitMount(spec)}
	all, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		view := strings.HasPrefix(m.FSType, "fuse") && m.Source == fsName(spec) && slices.Contains(at, m.Mountpoint)
		return !view && !wire.IsSnapshot(m.FSType, m.Source, spec.RunDir), false
	})
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	var errs []error
	for _, m := range all {
		c, err := fusectl.OpenMounted(m)
		if err == nil {
			err = errors.Join(c.Abort(), c.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unmountSnapshots unmounts a snapshot of this agent, "" for all, wherever they are.
func unmountSnapshots(spec wire.Spec, id string) error {
	all, err := snapshotsMounted(spec, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range all {
		errs = append(errs, unmountExactly(m))
	}
	return errors.Join(errs...)
}

// snapshotsMounted returns the mounts of a snapshot of this agent, "" for those of all.
func snapshotsMounted(spec wire.Spec, id string) ([]*mountinfo.Info, error) {
	all, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !wire.IsSnapshot(m.FSType, m.Source, spec.RunDir) || id != "" && m.Source != wire.SnapshotSource(spec.RunDir, id), false
	})
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return all, nil
}

// unmountExactly unmounts a mount of the table, and no other one: what its path leads to can have changed.
func unmountExactly(m *mountinfo.Info) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Mountpoint, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err == nil {
		defer unix.Close(fd)
		var is int
		if is, err = mountOf(fd); err == nil && is != m.ID {
			err = errors.New("another mount is there now")
		}
	}
	if err == nil {
		err = unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", fd), unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
	}
	return nil
}

// mountOf returns the number of the mount of an open file (proc_pid_fdinfo(5)); a stat would ask the
// server of a dead mount.
func mountOf(fd int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("no mnt_id in fdinfo")
}
