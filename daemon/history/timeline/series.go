package timeline

import (
	"slices"

	"polis/daemon/history/snapshot"
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
	ok = ok && !last.Loose && last.Commit == w.rec.Commit && last.IndexStamp == c.recorded.IndexStamp && sameRefs(last.Snapshot, w.rec)
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
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.records[last.ID] // as it is now: it can have been mounted since
	if !ok {
		return nil
	}
	delta := last.Delta
	last.series = c.recorded
	last.Delta = delta
	if err := store.WriteJSON(t.recordFile(last.ID), last); err != nil {
		return t.unsaved(last.Agent, err)
	}
	t.records[last.ID] = last
	return nil
}

// deltaOf returns the delta of a record; empty if it has none.
func (t *Timeline) deltaOf(r record) (*snapshot.Delta, error) {
	d, err := snapshot.LoadDelta(t.objects, r.Delta)
	if err != nil {
		return nil, corrupt(r.ID, err)
	}
	return d, nil
}

// stateOf returns the state that a delta makes of a stored manifest.
func (t *Timeline) stateOf(manifest string, d *snapshot.Delta) (*snapshot.Manifest, error) {
	m, err := snapshot.Load(t.objects, manifest, "")
	if err != nil || d == nil || len(d.Cleared)+len(d.Entries) == 0 {
		return m, err
	}
	return d.Apply(m), nil
}
