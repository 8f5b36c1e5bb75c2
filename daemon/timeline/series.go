package timeline

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/cas"
	"polis/daemon/snapshot"
)

// last returns the newest record of an agent that continues a series.
func (t *Timeline) last(agent string) (record, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out record
	found := false
	for _, r := range t.records {
		if r.Agent == agent && r.Cut != "" && (!found || r.Time.After(out.Time)) {
			out, found = r, true
		}
	}
	return out, found
}

// deltaOf returns the delta of a record; empty if it has none.
func (t *Timeline) deltaOf(r record) (*snapshot.Delta, error) {
	if r.Delta == "" {
		return &snapshot.Delta{}, nil
	}
	h, err := cas.Parse(r.Delta)
	if err != nil {
		return nil, corrupt(r.ID, err)
	}
	b, err := t.objects.Bytes(h, snapshot.MaxManifest)
	if err != nil {
		return nil, corrupt(r.ID, err)
	}
	d, err := snapshot.ParseDelta(b)
	if err != nil {
		return nil, corrupt(r.ID, err)
	}
	return d, nil
}

// stateOf returns the state that a delta makes of a stored manifest.
func (t *Timeline) stateOf(manifest string, d *snapshot.Delta) (*snapshot.Manifest, error) {
	h, err := cas.Parse(manifest)
	if err != nil {
		return nil, err
	}
	b, err := t.objects.Bytes(h, snapshot.MaxManifest)
	if err != nil {
		return nil, err
	}
	m, err := snapshot.Parse(b)
	if err != nil || d == nil || len(d.Cleared)+len(d.Entries) == 0 {
		return m, err
	}
	return d.Apply(m), nil
}

// present reads the state of a tree before a restore of want: as a checkpoint, if that covers the
// same.
func (w *writer) present(ctx context.Context, tree Tree, want *snapshot.Manifest) error {
	if w.rec.Covers != api.SnapshotFiles {
		return w.scan(ctx, tree, want)
	}
	c, err := w.take(ctx, tree)
	if err != nil {
		return err
	}
	if c.state == nil {
		if c.state, err = w.t.stateOf(c.from, c.delta); err != nil {
			w.t.Log.Warn("checkpoint not read; the whole tree is", "agent", w.rec.Agent, "err", err)
			w.got = nil
			return w.scan(ctx, tree, want)
		}
	}
	w.state = c.state
	return w.beyond(ctx, tree, c, want)
}

// beyond adds what want has and git ignores now: it would be replaced too.
func (w *writer) beyond(ctx context.Context, tree Tree, c *captured, want *snapshot.Manifest) error {
	var paths []string
	for i := range want.Entries {
		e := &want.Entries[i]
		if w.state.Find(e.Path) == nil && tree.Ignored(e.Path, e.Kind == snapshot.Dir) {
			paths = append(paths, e.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	s := w.scanner(tree)
	s.Skip = nil
	d, err := s.Paths(ctx, paths, nil)
	if err != nil {
		return w.t.scanFailed(w.rec.Agent, err)
	}
	c.state = d.Apply(c.state)
	if c.delta != nil {
		c.delta = c.delta.Then(d)
	}
	c.recorded.Stop = "the last one has files that git ignores"
	w.state = c.state
	return nil
}
