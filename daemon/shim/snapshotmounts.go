package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/cas"
	"polis/fusefs/fusectl"
	"polis/fusefs/storedtree"
)

// detachSnapshot unmounts a snapshot, also while it is in use.
func (s *Shim) detachSnapshot(t *mountedTree) error {
	if t.inside {
		return detachInside(t)
	}
	return unmountSnapshots(s.Spec, t.id)
}

// attachSnapshot mounts a tree. The directory is opened without following a link, and the mount is made on what
// was opened: its path can lead elsewhere a moment later.
func (s *Shim) attachSnapshot(t *mountedTree, req wire.MountRequest, store *cas.Objects, entries []storedtree.Entry) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, t.at, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return api.Errorf(api.CodeBadRequest, "open %s: %w", t.at, err).WithHint("give an empty directory, by a path without symbolic links")
	}
	dir := os.NewFile(uintptr(fd), t.at)
	defer dir.Close()
	switch names, err := dir.Readdirnames(1); {
	case len(names) > 0:
		return api.Errorf(api.CodeBadState, "%s is not empty", t.at).WithHint("give an empty directory, by a path without symbolic links")
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	c := s.treeConfig(req, store, entries)
	c.RootGID, c.RootMode = uint32(s.Spec.SocketGID), 0o750
	c.Mountpoint, c.FsName = fmt.Sprintf("/proc/self/fd/%d", fd), wire.SnapshotSource(s.Spec.RunDir, req.ID)
	if t.fs, err = storedtree.Mount(c); err != nil {
		return err
	}
	mounts, err := snapshotsMounted(s.Spec, req.ID)
	for _, m := range mounts {
		c, cerr := fusectl.OpenMounted(m)
		if cerr != nil {
			return cerr
		}
		t.conn = append(t.conn, c)
	}
	return err
}

// abort ends the connections of a tree.
func (m *snapshots) abort(t *mountedTree) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range t.conn {
		err = errors.Join(err, c.Abort())
	}
	return err
}

// closeConnections forgets the connections of a tree that is not mounted any more.
func (t *mountedTree) closeConnections() (err error) {
	for _, c := range t.conn {
		err = errors.Join(err, c.Close())
	}
	t.conn = nil
	return err
}

// busyTime is how long a snapshot that was unmounted may still be in use before its connection is ended.
const busyTime = time.Second

// unmountSnapshot unmounts a snapshot and waits until it is not served any more. A program that still uses it
// gets ENOTCONN.
func (s *Shim) unmountSnapshot(ctx context.Context, t *mountedTree) error {
	s.snapshots.turn.Lock()
	defer s.snapshots.turn.Unlock()
	if err := s.detachSnapshot(t); err != nil {
		return err
	}
	wait := func(limit time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := t.fs.Wait(ctx); err != nil {
			return err
		}
		select {
		case <-t.cleared:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if wait(busyTime) == nil {
		return nil
	}
	if err := s.snapshots.abort(t); err != nil {
		return err
	}
	return wait(undoTime)
}

// openSnapshots undoes all mounts of snapshots when the shim ends.
func (s *Shim) openSnapshots() {
	s.onClose("mounts of snapshots", func(ctx context.Context) error {
		var errs []error
		for _, t := range append(s.snapshots.trees(false), s.snapshots.trees(true)...) {
			errs = append(errs, s.unmountSnapshot(ctx, t))
		}
		return errors.Join(errs...)
	})
}
