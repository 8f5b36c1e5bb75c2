package timeline

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
	"polis/daemon/store"
)

// Stored is where the files of a snapshot are, for a process that reads them.
type Stored struct {
	api.Snapshot
	// Store is the directory of the contents; Manifest and Delta are as for snapshot.Load.
	Store, Manifest, Delta string
}

// Lists returns the hashes of what the state of a snapshot is stored by, as for snapshot.Load; false if there is no
// such snapshot.
func (t *Timeline) Lists(ctx context.Context, id string) (list, delta string, ok bool, err error) {
	if _, ok, err := t.Find(ctx, id); err != nil || !ok {
		return "", "", false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.records[id]
	return r.Manifest, r.Delta, ok, nil
}

// Keep excludes a snapshot from removal because of its age or number, until a person removes it: its
// contents are about to be used where this package does not see it.
func (t *Timeline) Keep(ctx context.Context, id string) (Stored, error) {
	return t.hold(ctx, id, func(r *record) { r.Kept = true })
}

// Use excludes a snapshot from removal because of its age or number while mount runs, and then as long as it is
// mounted in the sandbox of its agent (Host.Mounted), which can have few: the agent decides what is kept so.
func (t *Timeline) Use(ctx context.Context, id string, mount func(Stored) error) error {
	defer t.pin(id)()
	s, err := t.hold(ctx, id, func(r *record) { r.InUse = true })
	if err != nil {
		return err
	}
	return mount(s)
}

// pin excludes a snapshot from removal because of its age or number, or for room, until the function that it returns is called.
func (t *Timeline) pin(id string) (unpin func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pins == nil {
		t.pins = map[string]int{}
	}
	t.pins[id]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.pins[id]--; t.pins[id] == 0 {
			delete(t.pins, id)
		}
	}
}

func checkPaths(paths []string) error {
	for _, p := range paths {
		if err := snapshot.CheckPath(p); err != nil {
			return api.Errorf(api.CodeBadRequest, "paths: %w", err)
		}
	}
	return nil
}

func (t *Timeline) hold(ctx context.Context, id string, how func(*record)) (Stored, error) {
	if _, ok, err := t.Find(ctx, id); err != nil || !ok {
		return Stored{}, errors.Join(err, notFoundUnless(ok || err != nil, id))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.records[id]
	if !ok {
		return Stored{}, NotFound(id)
	}
	before := r
	if how(&r); r.Kept != before.Kept || r.InUse != before.InUse {
		if err := store.WriteJSON(t.recordFile(id), r); err != nil {
			return Stored{}, api.Errorf(api.CodeStateNotSaved, "keep snapshot %s: %w", id, err)
		}
		t.records[id] = r
	}
	return Stored{Snapshot: r.Snapshot, Store: t.Dir, Manifest: r.Manifest, Delta: r.Delta}, nil
}

// unused clears the use of an agent's snapshots, of all agents' for "", that are not mounted any more. It is called
// before any is removed. What cannot be saved stays in use.
func (t *Timeline) unused(ctx context.Context, agent string) {
	t.mu.Lock()
	var all []record
	for _, r := range t.records {
		if r.InUse && t.pins[r.ID] == 0 && (agent == "" || r.Agent == agent) {
			all = append(all, r)
		}
	}
	t.mu.Unlock()
	for _, r := range all {
		if t.Host.Mounted(ctx, r.Agent, r.ID) {
			continue
		}
		if _, err := t.hold(ctx, r.ID, func(r *record) { r.InUse = t.pins[r.ID] > 0 }); err != nil && api.CodeOf(err) != api.CodeNotFound {
			t.Log.Warn("snapshot that is not mounted any more stays in use", "agent", r.Agent, "snapshot", r.ID, "err", err)
		}
	}
}
