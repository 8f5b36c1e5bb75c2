package shim

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/cas"
	"polis/fusefs/fusectl"
	"polis/fusefs/storedtree"
)

// maxMounted bounds the snapshots of one agent that are mounted on the host at once.
const maxMounted = 16

// snapshots are the snapshots that the shim has mounted: for people on the host, and for the agent in its
// sandbox. They end with the shim.
type snapshots struct {
	turn sync.Mutex // one mount or unmount at a time
	mu   sync.Mutex
	all  map[mountKey]*mountedTree
}

type mountKey struct {
	id     string
	inside bool
}

type mountedTree struct {
	mountKey
	at   string                // its directory, on the host
	made bool                  // that is the shim's own
	n    int                   // entries
	conn []*fusectl.Connection // guarded by snapshots.mu once it is in the list
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
	for _, t := range m.all {
		out = append(out, t.mounted())
	}
	slices.SortFunc(out, func(a, b wire.Mounted) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.At, b.At)) })
	return out
}

// mounted returns where the tree is, for those who see it.
func (t *mountedTree) mounted() wire.Mounted {
	if t.inside {
		return wire.Mounted{ID: t.id, At: wire.InsideSnapshot(t.id), Inside: true}
	}
	return wire.Mounted{ID: t.id, At: t.at}
}

func (m *snapshots) get(k mountKey) *mountedTree {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[k]
}

// trees returns those on the host, or those in the sandbox.
func (m *snapshots) trees(inside bool) (out []*mountedTree) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, t := range m.all {
		if k.inside == inside {
			out = append(out, t)
		}
	}
	return out
}

func (s *Shim) handleMount(w http.ResponseWriter, r *http.Request) error {
	var req wire.MountRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	m, err := s.mountSnapshot(req)
	if err != nil {
		return err
	}
	return writeJSON(w, m)
}

func (s *Shim) handleUnmount(w http.ResponseWriter, r *http.Request) error {
	k := mountKey{r.PathValue("id"), r.URL.Query().Get("inside") == "true"}
	t := s.snapshots.get(k)
	if t == nil {
		return api.Errorf(api.CodeNotFound, "snapshot %s is not mounted", api.Shorten(k.id, 64))
	}
	if err := s.unmountSnapshot(r.Context(), t); err != nil {
		return err
	}
	return writeJSON(w, t.mounted())
}

// mountSnapshot mounts a snapshot and serves it until it is unmounted, by any process.
func (s *Shim) mountSnapshot(req wire.MountRequest) (wire.Mounted, error) {
	var none wire.Mounted
	if !snapshotID.MatchString(req.ID) || req.At != "" && (req.Inside || !filepath.IsAbs(req.At) || filepath.Clean(req.At) != req.At) {
		return none, api.Errorf(api.CodeBadRequest, "snapshot %q cannot be mounted at %q", api.Shorten(req.ID, 64), api.Shorten(req.At, 200))
	}
	m := &s.snapshots
	m.turn.Lock()
	defer m.turn.Unlock()
	t := &mountedTree{mountKey: mountKey{req.ID, req.Inside}, at: req.At, cleared: make(chan struct{})}
	if err := s.mayMount(t); err != nil {
		return none, err
	}
	store, err := cas.OpenObjects(s.at(req.Store))
	if err != nil {
		return none, err
	}
	entries, err := s.snapshotEntries(store, req)
	if err != nil {
		return none, errors.Join(err, store.Close())
	}
	t.n = len(entries)
	if t.at == "" {
		t.at, t.made = s.snapshotDir(t.mountKey), true
		if err := os.MkdirAll(t.at, 0o755); err != nil {
			return none, errors.Join(err, store.Close())
		}
	}
	attach := s.attachSnapshot
	if t.inside {
		attach = s.attachInside
	}
	if err := attach(t, req, store, entries); err != nil {
		// One that failed halfway is still there.
		err = errors.Join(err, s.detachSnapshot(t), t.closeConnections(), store.Close())
		if t.made {
			err = errors.Join(err, removeIfThere(t.at))
		}
		return none, err
	}
	m.mu.Lock()
	if m.all == nil {
		m.all = map[mountKey]*mountedTree{}
	}
	m.all[t.mountKey] = t
	m.mu.Unlock()
	if err := t.fs.RulesChanged(); err != nil { // since it was mounted, and before it was in the list
		s.Log.Warn("mounted snapshot not notified of new rules", "snapshot", t.id, "err", err)
	}
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
		delete(m.all, t.mountKey)
		if err := t.closeConnections(); err != nil {
			s.Log.Warn("connection of a snapshot not closed", "snapshot", t.id, "err", err)
		}
		m.mu.Unlock()
		return nil
	})
	return t.mounted(), nil
}

// mayMount returns an error if a snapshot is mounted already, or too many are.
func (s *Shim) mayMount(t *mountedTree) error {
	limit := maxMounted
	if t.inside {
		limit = maxInsideMounts
	}
	if now := s.snapshots.get(t.mountKey); now != nil {
		err := api.Errorf(api.CodeBadState, "snapshot %s is mounted at %s already", t.id, now.mounted().At)
		if t.inside {
			return err.WithHint("polisctl snapshot umount %s --inside", t.id)
		}
		return err.WithHint("polisctl snapshot umount %s", t.id)
	}
	if n := len(s.snapshots.trees(t.inside)); n >= limit {
		err := api.Errorf(api.CodeQuota, "%d snapshots of agent %s are mounted, which is the limit", n, s.Spec.Agent)
		if t.inside {
			return err.WithHint("polisctl snapshot umount ID --inside unmounts one")
		}
		return err.WithHint("polisctl snapshot umount ID unmounts one")
	}
	return nil
}

// snapshotDir is the directory, on the host, of a mount that has none of its own.
func (s *Shim) snapshotDir(k mountKey) string {
	if k.inside {
		return filepath.Join(s.insideDir(), filepath.Base(wire.SnapshotsPath), k.id)
	}
	return filepath.Join(snapshotsDir(s.Spec), k.id)
}
