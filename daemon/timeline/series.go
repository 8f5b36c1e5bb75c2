package timeline

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/daemon/cas"
	"polis/daemon/snapshot"
	"polis/daemon/store"
)

// last returns the newest record of an agent that the next one can continue.
func (t *Timeline) last(agent string) (record, bool) {
	return t.newest(func(r *record) bool { return r.Agent == agent && r.Cut != "" })
}

// newest returns the newest record that matches.
func (t *Timeline) newest(match func(*record) bool) (record, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out record
	found := false
	for _, r := range t.records {
		if match(&r) && (!found || r.Time.After(out.Time)) {
			out, found = r, true
		}
	}
	return out, found
}

// unchanged returns the last checkpoint if it has what was read.
func (t *Timeline) unchanged(w *writer, c *captured) (record, bool) {
	last, ok := t.last(w.rec.Agent)
	if c.state != nil && !c.nothing { // the whole tree was read
		last, ok = t.newest(func(r *record) bool { return r.Agent == w.rec.Agent && IsCheckpoint(r.Snapshot) })
	}
	ok = ok && !last.Loose && last.Commit == w.rec.Commit && last.IndexStamp == c.recorded.IndexStamp
	return last, ok && t.same(last, c)
}

// same reports whether a record has the state that was read.
func (t *Timeline) same(last record, c *captured) bool {
	if c.nothing || c.state == nil {
		return c.nothing
	}
	d, err := t.deltaOf(last)
	if err != nil {
		return false
	}
	m, err := t.stateOf(last.Manifest, d)
	return err == nil && slices.Equal(m.Entries, c.state.Entries)
}

// refresh lets the last checkpoint continue from what was read: the whole tree, which has not changed.
func (t *Timeline) refresh(last record, c *captured) error {
	if c.from != "" || c.recorded.Cut == "" {
		return nil // a cut before is still known, or none is
	}
	delta := last.Delta
	last.series = c.recorded
	last.Delta = delta
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.records[last.ID]; !ok {
		return nil
	}
	if err := store.WriteJSON(t.recordFile(last.ID), last); err != nil {
		return t.unsaved(last.Agent, err)
	}
	t.records[last.ID] = last
	return nil
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
