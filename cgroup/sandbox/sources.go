package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// libcontainer mounts sources by their paths, which it resolves as root. A source whose path another user can change
// is therefore given as an open file. It is cloned, and the clones are mounted in a mount namespace of the thread
// that starts process 1, at names that only root can change. Process 1 begins with a copy of that namespace, which
// ends with the thread: the host never has these mounts.

// stageDir is the directory of the clones; on the host it is empty.
func stageDir(stateDir, id string) string { return filepath.Join(stateDir, "mounts:"+id) }

// source is the path at which libcontainer finds the source of a mount.
func (c *Config) source(path string, open *os.File) string {
	if open == nil {
		return path
	}
	return filepath.Join(stageDir(c.StateDir, c.ID), strconv.Itoa(int(open.Fd())))
}

// opened returns the sources that are given as open files, by their paths in the stage.
func (c *Config) opened() map[string]*os.File {
	out := map[string]*os.File{}
	add := func(f *os.File) {
		if f != nil {
			out[c.source("", f)] = f
		}
	}
	add(c.HomeOpen)
	add(c.ScratchOpen)
	for _, m := range c.Mounts {
		add(m.Open)
	}
	return out
}

// inStage calls run on a thread whose mount namespace has the open sources at their paths.
func (c *Config) inStage(run func() error) (err error) {
	opened := c.opened()
	if len(opened) == 0 {
		return run()
	}
	dir := stageDir(c.StateDir, c.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// No other namespace than those of the thread and of process 1 has had a mount there.
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	trees := map[string]*clone{}
	defer func() {
		for _, t := range trees {
			_ = unix.Close(t.fd) //nolint:errcheck // a mount
		}
	}()
	for at, f := range opened {
		t, err := cloneOf(f)
		if err != nil {
			return fmt.Errorf("mount %s: %w", f.Name(), err)
		}
		trees[at] = t
	}
	res := make(chan error, 1)
	go onOwnThread(func() {
		res <- func() error {
			if err := stage(dir, trees); err != nil {
				return fmt.Errorf("mount sources: %w", err)
			}
			return run()
		}()
	})
	return <-res
}

// clone is a tree of mounts that is mounted nowhere.
type clone struct {
	fd  int
	dir bool
}

func cloneOf(f *os.File) (*clone, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	fd, err := unix.OpenTree(int(f.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, os.NewSyscallError("open_tree", err)
	}
	// The clone of a shared mount is shared with it: what is mounted in it would appear on the host.
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return nil, errors.Join(os.NewSyscallError("mount_setattr", err), unix.Close(fd))
	}
	return &clone{fd: fd, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// stage gives the calling thread a mount namespace of its own, in which the trees are at their paths in dir.
func stage(dir string, trees map[string]*clone) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// MS_SLAVE: an unmount on the host propagates to the copy, and nothing propagates back.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts slaves: %w", err)
	}
	if err := unix.Mount("polis", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=64k"); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	for at, t := range trees {
		if err := t.attach(at); err != nil {
			return err
		}
	}
	return nil
}

// attach mounts the tree at a path that it makes.
func (t *clone) attach(at string) error {
	if t.dir {
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
	} else if err := os.WriteFile(at, nil, 0o600); err != nil {
		return err
	}
	if err := unix.MoveMount(t.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	return nil
}

// removeStage removes the directory that a killed creator left.
func removeStage(stateDir, id string) error {
	if err := os.Remove(stageDir(stateDir, id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
