package shim

import (
	"cmp"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/fusefs/storedtree"
)

// snapshotEntries reads the list of files of a snapshot.
func (s *Shim) snapshotEntries(store *cas.Objects, req wire.MountRequest) ([]storedtree.Entry, error) {
	m, err := snapshot.Load(store, req.Manifest, req.Delta)
	if err != nil {
		return nil, api.Errorf(api.CodeSnapshotCorrupt, "snapshot %s: %w", req.ID, err)
	}
	if n := len(m.Entries); n > storedtree.MaxEntries {
		return nil, api.Errorf(api.CodeTooLarge, "snapshot %s has %d files and directories, and at most %d can be mounted", req.ID, n, storedtree.MaxEntries)
	}
	if err := s.insideRoom(req, len(m.Entries)); err != nil {
		return nil, err
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

// treeConfig is what every mount of a snapshot has.
func (s *Shim) treeConfig(req wire.MountRequest, store *cas.Objects, entries []storedtree.Entry) storedtree.Config {
	return storedtree.Config{Entries: entries, Open: func(h storedtree.Hash) (*os.File, error) { return store.File(h) },
		UID: uint32(s.Spec.UID), GID: uint32(s.Spec.GID), Time: req.Time, Log: s.Log.With("snapshot", req.ID)}
}
