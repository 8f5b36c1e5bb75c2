package timeline

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
)

// goal is the state that a restore brings back: a stored list, and a delta to it.
type goal struct {
	manifest string
	list     *snapshot.Listing
	delta    *snapshot.Delta
	all      *snapshot.Manifest // nil until it is needed
}

// goal returns the state of a snapshot. It is parsed here, before the agent is held still, if it has not the
// list of the last checkpoint: then the whole of it is needed.
func (t *Timeline) goal(ctx context.Context, id string) (api.Snapshot, *goal, error) {
	s, ok, err := t.Find(ctx, id)
	if err == nil && !ok {
		err = NotFound(id)
	}
	if err != nil {
		return s, nil, err
	}
	t.mu.Lock()
	rec := t.records[id]
	t.mu.Unlock()
	g := &goal{manifest: rec.Manifest}
	if g.list, err = snapshot.LoadListing(t.objects, rec.Manifest); err != nil {
		return s, nil, corrupt(id, err)
	}
	if g.delta, err = t.deltaOf(rec); err != nil {
		return s, nil, err
	}
	if last, ok := t.last(rec.Agent); !ok || last.Manifest != rec.Manifest {
		_, err = g.whole(id)
	}
	return s, g, err
}

// whole returns all of the state.
func (g *goal) whole(id string) (*snapshot.Manifest, error) {
	if g.all == nil {
		m, err := g.list.Manifest()
		if err != nil {
			return nil, corrupt(id, err)
		}
		g.all = g.delta.Apply(m)
	}
	return g.all, nil
}

// compare reads the state of the tree before the restore, as a checkpoint if that covers the same. If it
// then is changes to the same list as the goal, only the changes are compared.
func (r *restorer) compare(ctx context.Context, tree Tree) (err error) {
	w := r.w
	whole := func() error {
		if r.want, err = r.goal.whole(r.id); err != nil {
			return err
		}
		err = w.scan(ctx, tree, r.want)
		r.now = w.state
		return err
	}
	if w.rec.Covers != api.SnapshotFiles {
		return whole()
	}
	c, err := w.take(ctx, tree)
	if err != nil {
		return err
	}
	switch {
	case c.state != nil:
		r.now = c.state
	case c.from == r.goal.manifest:
		part, err := r.goal.list.Around(r.req.Paths, c.delta, r.goal.delta)
		if err != nil {
			return corrupt(r.id, err)
		}
		r.now, r.want = c.delta.Apply(part), r.goal.delta.Apply(part)
	default:
		if r.now, err = w.t.stateOf(c.from, c.delta); err != nil {
			w.t.Log.Warn("checkpoint not read; the whole tree is", "agent", w.rec.Agent, "err", err)
			w.got = nil
			return whole()
		}
	}
	if r.want == nil {
		if r.want, err = r.goal.whole(r.id); err != nil {
			return err
		}
	}
	return r.beyond(ctx, tree, c)
}

// beyond adds what the goal has and git ignores now: it would be replaced too.
func (r *restorer) beyond(ctx context.Context, tree Tree, c *captured) error {
	var paths []string
	for i := range r.want.Entries {
		e := &r.want.Entries[i]
		if r.now.Find(e.Path) == nil && tree.leaves(e.Path, e.Kind == snapshot.Dir) {
			paths = append(paths, e.Path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	s := r.w.scanner(tree)
	s.Skip = nil
	d, err := s.Paths(ctx, paths, nil)
	if err != nil {
		return r.t.scanFailed(r.w.rec.Agent, err)
	}
	r.now = d.Apply(r.now)
	if c.state != nil {
		c.state = r.now
	}
	if c.delta != nil {
		c.delta = c.delta.Then(d)
	}
	c.recorded.Stop = "the last one has files that git ignores"
	return nil
}

// back returns the steps that bring the state before back.
func (r *restorer) back(ctx context.Context, tree Tree) ([]snapshot.Step, error) {
	want, err := r.goal.whole(r.id)
	if err != nil {
		return nil, err
	}
	before := r.w.state
	if c := r.w.got; c != nil && c.from != "" {
		if before, err = r.t.stateOf(c.from, c.delta); err != nil {
			return nil, err
		}
	}
	now, _, err := read(ctx, tree, r.w.rec.Covers, want, snapshot.Hashes{}, 0)
	if err != nil {
		return nil, err
	}
	return snapshot.Plan(now, before, nil)
}
