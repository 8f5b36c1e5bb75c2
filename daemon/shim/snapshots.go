package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/cas"
	"polis/daemon/shim/wire"
	"polis/daemon/snapshot"
	"polis/fusefs/fusectl"
	"polis/fusefs/storedtree"
)

// maxMounted bounds the snapshots of one agent that are mounted at once.
const maxMounted = 16

// snapshots are the snapshots that the shim has mounted, for people on the host. They end with the
// shim.
type snapshots struct {
	turn sync.Mutex // one mount or unmount at a time
	mu   sync.Mutex
	all  map[string]*mountedTree
}

type mountedTree struct {
	at   string
	made bool     // its directory is the shim's own
	conn []uint32 // the number of its FUSE connection
	fs   *storedtree.FS
	// cleared is closed when it is served no more, its directory is gone, and it is in no list.
	cleared chan struct{}
}

var snapshotID = regexp.MustCompile(`^[a-z0-9]{1,64}$`)

// snapshotsDir has the mounts without a directory of their own.
func snapshotsDir(spec wire.Spec) string { return filepath.Join(spec.RunDir, "snapshots") }

// list returns what is mounted.
func (m *snapshots) list() []wire.Mounted {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []wire.Mounted
	for id, t := range m.all {
		out = append(out, wire.Mounted{ID: id, At: t.at})
	}
	slices.SortFunc(out, func(a, b wire.Mounted) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (m *snapshots) get(id string) *mountedTree {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[id]
}

func (s *Shim) handleMount(w http.ResponseWriter, r *http.Request) error {
	var req wire.MountRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	at, err := s.mountSnapshot(req)
	if err != nil {
		return err
	}
	return writeJSON(w, wire.Mounted{ID: req.ID, At: at})
}

func (s *Shim) handleUnmount(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	t := s.snapshots.get(id)
	if t == nil {
		return api.Errorf(api.CodeNotFound, "snapshot %s is not mounted", api.Shorten(id, 64))
	}
	if err := s.unmountSnapshot(r.Context(), id, t); err != nil {
		return err
	}
	return writeJSON(w, wire.Mounted{ID: id, At: t.at})
}

// mountSnapshot mounts a snapshot and serves it until it is unmounted, by any process.
func (s *Shim) mountSnapshot(req wire.MountRequest) (string, error) {
	if !snapshotID.MatchString(req.ID) || req.At != "" && (!filepath.IsAbs(req.At) || filepath.Clean(req.At) != req.At) {
		return "", api.Errorf(api.CodeBadRequest, "snapshot %q cannot be mounted at %q", api.Shorten(req.ID, 64), api.Shorten(req.At, 200))
	}
	m := &s.snapshots
	m.turn.Lock()
	defer m.turn.Unlock()
	switch n := len(m.list()); {
	case m.get(req.ID) != nil:
		return "", api.Errorf(api.CodeBadState, "snapshot %s is mounted at %s already", req.ID, m.get(req.ID).at).WithHint("polisctl snapshot umount %s", req.ID)
	case n >= maxMounted:
		return "", api.Errorf(api.CodeQuota, "%d snapshots of agent %s are mounted, which is the limit", n, s.Spec.Agent).WithHint("polisctl snapshot umount ID unmounts one")
	}
	store, err := cas.OpenObjects(req.Store)
	if err != nil {
		return "", err
	}
	entries, err := snapshotEntries(store, req)
	if err != nil {
		return "", errors.Join(err, store.Close())
	}
	t := &mountedTree{at: req.At, cleared: make(chan struct{})}
	if t.at == "" {
		t.at, t.made = filepath.Join(snapshotsDir(s.Spec), req.ID), true
		if err := os.MkdirAll(t.at, 0o755); err != nil {
			return "", errors.Join(err, store.Close())
		}
	}
	if err := s.attachSnapshot(t, req, store, entries); err != nil {
		// One that failed halfway is still there.
		err = errors.Join(err, unmountSnapshots(s.Spec, req.ID), store.Close())
		if t.made {
			err = errors.Join(err, removeIfThere(t.at))
		}
		return "", err
	}
	m.mu.Lock()
	if m.all == nil {
		m.all = map[string]*mountedTree{}
	}
	m.all[req.ID] = t
	m.mu.Unlock()
	s.group.Go(func() error {
		defer close(t.cleared)
		<-t.fs.Done()
		err := store.Close()
		if t.made {
			err = errors.Join(err, removeIfThere(t.at))
		}
		if err != nil {
			s.Log.Warn("mount of a snapshot not cleared", "path", t.at, "err", err)
		}
		m.mu.Lock() // the last step: only then it may be mounted again
		delete(m.all, req.ID)
		m.mu.Unlock()
		return nil
	})
	return t.at, nil
}

// snapshotEntries reads the list of files of a snapshot.
func snapshotEntries(store *cas.Objects, req wire.MountRequest) ([]storedtree.Entry, error) {
	m, err := snapshot.Load(store, req.Manifest, req.Delta)
	if err != nil {
		return nil, api.Errorf(api.CodeSnapshotCorrupt, "snapshot %s: %w", req.ID, err)
	}
	if n := len(m.Entries); n > storedtree.MaxEntries {
		return nil, api.Errorf(api.CodeTooLarge, "snapshot %s has %d files and directories, and at most %d can be mounted", req.ID, n, storedtree.MaxEntries)
	}
	out := make([]storedtree.Entry, len(m.Entries))
	for i, e := range m.Entries {
		out[i] = storedtree.Entry{Path: e.Path, Mode: e.Mode, Hash: e.Hash, Size: e.Size, Type: map[snapshot.Kind]uint32{snapshot.File: unix.S_IFREG, snapshot.Dir: unix.S_IFDIR, snapshot.Link: unix.S_IFLNK}[e.Kind]}
	}
	// A directory comes before what is in it, which the order of the bytes does not promise for a manifest
	// whose directories are named like the beginnings of files.
	slices.SortStableFunc(out, func(a, b storedtree.Entry) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	return out, nil
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
	t.fs, err = storedtree.Mount(storedtree.Config{Entries: entries, Open: func(h storedtree.Hash) (*os.File, error) { return store.File(h) },
		UID: uint32(s.Spec.UID), GID: uint32(s.Spec.GID), RootGID: uint32(s.Spec.SocketGID), RootMode: 0o750, Time: req.Time,
		Mountpoint: fmt.Sprintf("/proc/self/fd/%d", fd), FsName: wire.SnapshotSource(s.Spec.RunDir, req.ID), Log: s.Log.With("snapshot", req.ID)})
	if err != nil {
		return err
	}
	mounts, err := snapshotsMounted(s.Spec, req.ID)
	for _, m := range mounts {
		t.conn = append(t.conn, uint32(m.Minor))
	}
	return err
}

// busyTime is how long a snapshot that was unmounted may still be in use before its connection is ended.
const busyTime = time.Second

// unmountSnapshot unmounts a snapshot and waits until it is not served any more. A program that still uses it
// gets ENOTCONN.
func (s *Shim) unmountSnapshot(ctx context.Context, id string, t *mountedTree) error {
	s.snapshots.turn.Lock()
	defer s.snapshots.turn.Unlock()
	if err := unmountSnapshots(s.Spec, id); err != nil {
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
	for _, id := range t.conn {
		if err := fusectl.Abort(id); err != nil {
			return err
		}
	}
	return wait(undoTime)
}

// openSnapshots undoes all mounts of snapshots when the shim ends.
func (s *Shim) openSnapshots() {
	s.onClose("mounts of snapshots", func(ctx context.Context) error {
		var errs []error
		for _, m := range s.snapshots.list() {
			if t := s.snapshots.get(m.ID); t != nil {
				errs = append(errs, s.unmountSnapshot(ctx, m.ID, t))
			}
		}
		return errors.Join(errs...)
	})
}
