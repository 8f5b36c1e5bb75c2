package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/cas"
	"polis/fusefs"
	"polis/fusefs/fusectl"
	"polis/fusefs/storedtree"
	"polis/fusefs/view"
)

const (
	// maxInsideMounts bounds the snapshots that an agent sees in its sandbox at once, maxInsideOpen the files of each
	// that its programs have open. Together they have no more entries than one mount may have.
	maxInsideMounts, maxInsideOpen = 8, 256
)

// snapshotRules are the agent's rules, as they are at each moment, for the earlier versions of its files.
type snapshotRules struct {
	view.Stored
	audit fusefs.Auditor // nil for none
}

// Read records what is opened as an open of the path in the worktree: the rules are about that.
func (r snapshotRules) Read(pid uint32, link bool, path string) unix.Errno {
	if r.audit == nil {
		return r.Stored.Read(pid, link, path)
	}
	if e := r.audit.Reserve(); e != 0 {
		return e
	}
	if e := r.Stored.Read(pid, link, path); e != 0 {
		r.audit.Release()
		return e
	}
	op := fusefs.OpOpenRead
	if link {
		op = fusefs.OpReadlink
	}
	r.audit.Record(fusefs.Caller{Pid: pid}, op, false, fusefs.Target{Path: path})
	return 0
}

// insideRoom returns an error if the trees in the sandbox would have too many entries together: they are in the
// memory of the shim.
func (s *Shim) insideRoom(req wire.MountRequest, n int) error {
	if !req.Inside {
		return nil
	}
	for _, t := range s.snapshots.trees(true) {
		n += t.n
	}
	if n > storedtree.MaxEntries {
		return api.Errorf(api.CodeQuota, "the snapshots that agent %s has mounted in its sandbox would have %d files and directories, and at most %d are possible", s.Spec.Agent, n, storedtree.MaxEntries).
			WithHint("polisctl snapshot umount ID --inside unmounts one")
	}
	return nil
}

// attachInside mounts a tree in the mount namespace of the sandbox only: it ends with the sandbox, and the host does
// not see it. The directory is the shim's own, which no process of the sandbox can change.
func (s *Shim) attachInside(t *mountedTree, req wire.MountRequest, store *cas.Objects, entries []storedtree.Entry) error {
	c := s.treeConfig(req, store, entries)
	c.RootGID, c.RootMode, c.MaxOpen = c.GID, 0o755, maxInsideOpen
	c.Mountpoint, c.FsName = wire.InsideSnapshot(t.id), "polis-snapshot:"+t.id
	c.Rules = snapshotRules{Stored: view.Stored{Guard: s.views.guard}, audit: s.auditor()}
	var st unix.Statx_t
	c.Enter = func(mount func() error) error {
		return s.sandbox.InMounts(func() error {
			err := mount()
			if err == nil { // what the kernel knows: it asks no server for it
				err = unix.Statx(unix.AT_FDCWD, c.Mountpoint, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, 0, &st)
			}
			return err
		})
	}
	var err error
	if t.fs, err = storedtree.Mount(c); err != nil {
		return fmt.Errorf("mount snapshot %s in the sandbox: %w", t.id, err)
	}
	conn, err := fusectl.Open(st.Dev_minor)
	if err != nil {
		return fmt.Errorf("mount snapshot %s in the sandbox: %w", t.id, err)
	}
	t.conn = append(t.conn, conn)
	return nil
}

// detachInside unmounts a tree in every mount namespace that has it: removing the directory of a mount does, if it
// is not mounted in the namespace of the caller (Linux 3.18, __detach_mounts).
func detachInside(t *mountedTree) error {
	if err := os.Remove(t.at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount snapshot %s in the sandbox: %w", t.id, err)
	}
	return nil
}

// snapshotRulesChanged makes new rules count for what the agent's programs have open in mounted snapshots.
func (s *Shim) snapshotRulesChanged() {
	for _, t := range s.snapshots.trees(true) {
		if err := t.fs.RulesChanged(); err != nil {
			s.Log.Warn("mounted snapshot not notified of new rules", "snapshot", t.id, "err", err)
		}
	}
}
