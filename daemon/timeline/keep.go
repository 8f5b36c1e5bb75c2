package timeline

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Stored is where the files of a snapshot are, for a process that reads them.
type Stored struct {
	api.Snapshot
	// Store is the directory of the contents; Manifest and Delta are as for snapshot.Load.
	Store, Manifest, Delta string
}

// Keep excludes a snapshot from removal because of its age or number, until a person removes it: its
// contents are about to be used where this package does not see it.
func (t *Timeline) Keep(ctx context.Context, id string) (Stored, error) {
	if _, ok, err := t.Find(ctx, id); err != nil || !ok {
		return Stored{}, errors.Join(err, notFoundUnless(ok || err != nil, id))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.records[id]
	if !ok {
		return Stored{}, NotFound(id)
	}
	if !r.Kept {
		r.Kept = true
		if err := store.WriteJSON(t.recordFile(id), r); err != nil {
			return Stored{}, api.Errorf(api.CodeStateNotSaved, "keep snapshot %s: %w", id, err)
		}
		t.records[id] = r
	}
	return Stored{Snapshot: r.Snapshot, Store: t.Dir, Manifest: r.Manifest, Delta: r.Delta}, nil
}
