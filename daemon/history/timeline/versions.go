package timeline

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
)

// Version is a content that the checkpoints of an agent have at a path.
type Version struct {
	// Snapshot is the first of them that has it.
	api.Snapshot
	// Last is when the last snapshot with it was made, before one with another content.
	Last time.Time
	// After is when the one before was made, which has another content there; zero if there is none.
	After time.Time
	// Rewound: the one before was made for a restore or a rewind.
	Rewound bool
	// Hash is that of the content; "" if there is no file.
	Hash string
	Size int64
}

// Agents returns the agents that have snapshots, also those that are gone.
func (t *Timeline) Agents(ctx context.Context) ([]string, error) {
	all, err := t.List(ctx, "")
	seen := map[string]bool{}
	var out []string
	for _, s := range all {
		if !seen[s.Agent] {
			seen[s.Agent] = true
			out = append(out, s.Agent)
		}
	}
	return out, err
}

// Versions returns the contents that an agent's snapshots have at a path, oldest first. They are the snapshots that
// cover what the newest one does: others have files that these have not. It reads no list of files whole.
func (t *Timeline) Versions(ctx context.Context, agent, path string) ([]Version, error) {
	all, err := t.List(ctx, agent)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	covers := all[len(all)-1].Covers
	base := map[string]*snapshot.Manifest{} // by list: many checkpoints have the same
	var out []Version
	var before api.Snapshot
	for _, s := range all {
		if s.Covers != covers {
			continue
		}
		if ctx.Err() != nil {
			return nil, api.Errorf(api.CodeTimeout, "search the checkpoints of agent %s: %w", agent, context.Cause(ctx))
		}
		e, there, err := t.entryAt(s.ID, path, base)
		if err != nil {
			return nil, err
		}
		if !there {
			continue // it was removed meanwhile
		}
		v := Version{Snapshot: s, Last: s.Time, After: before.Time, Rewound: before.Why == api.SnapshotByRestore}
		if e != nil && e.Kind == snapshot.File {
			v.Hash, v.Size = e.Hash.String(), e.Size
		}
		before = s
		if n := len(out); n == 0 || out[n-1].Hash != v.Hash {
			out = append(out, v)
		} else {
			out[n-1].Last = s.Time
		}
	}
	return out, nil
}

// entryAt returns what a snapshot has at a path, nil if nothing; false if there is no such snapshot any more.
func (t *Timeline) entryAt(id, path string, base map[string]*snapshot.Manifest) (*snapshot.Entry, bool, error) {
	t.mu.Lock()
	r, ok := t.records[id]
	t.mu.Unlock()
	if !ok {
		return nil, false, nil
	}
	m := base[r.Manifest]
	if m == nil {
		l, err := snapshot.LoadListing(t.objects, r.Manifest)
		if err == nil {
			m, err = l.Around([]string{path})
		}
		if err != nil {
			return nil, true, corrupt(id, err)
		}
		base[r.Manifest] = m
	}
	d, err := t.deltaOf(r)
	if err != nil {
		return nil, true, err
	}
	return d.Apply(m).Find(path), true, nil
}

// Text returns a stored content of at most limit bytes, compared with its hash.
func (t *Timeline) Text(ctx context.Context, hash string, limit int64) ([]byte, error) {
	s, err := t.open(ctx, false)
	if err != nil {
		return nil, err
	}
	h, err := cas.Parse(hash)
	if err != nil || s == nil {
		return nil, api.Errorf(api.CodeNotFound, "there is no content %q", api.Shorten(hash, 70))
	}
	return s.Bytes(h, limit)
}
