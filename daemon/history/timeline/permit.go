package timeline

import (
	"fmt"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
)

// permitted returns an error if the agent itself asks, and its rules do not let it write what would change.
func (r *restorer) permitted(tree Tree) error {
	if !r.own {
		return nil
	}
	n := 0
	for i := range r.steps {
		e := r.steps[i].Make
		if e == nil {
			e = r.steps[i].Remove
		}
		if !tree.Declared(e.Path, e.Kind == snapshot.Dir) {
			n++ // which ones is not said: it may not know that they exist
		}
	}
	if n == 0 {
		return nil
	}
	return api.Errorf(api.CodeUndeclaredWrite, "restore snapshot %s: the rules of agent %s do not let it write %s that would change", r.id, r.w.rec.Agent, api.Count(n, "path")).
		WithHint("nothing was changed; name the paths to go back: polisctl rewind --to %s PATH", r.id)
}

// available returns an error unless the store has every content that the steps need: before anything
// is changed. Their hashes are compared when they are written.
func (r *restorer) available() error {
	for i := range r.steps {
		e := r.steps[i].Make
		if e == nil {
			continue
		}
		for _, h := range []cas.Hash{e.Hash, e.Attrs} {
			if !h.IsZero() && !r.t.objects.Has(h) {
				return corrupt(r.id, fmt.Errorf("%q: %w", e.Path, cas.ErrMissing))
			}
		}
	}
	return nil
}
