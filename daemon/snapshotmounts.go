package daemon

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/placement"
	"polis/daemon/shim/wire"
)

// MountSnapshot mounts a snapshot, which its agent's shim serves. It is kept until a person removes it.
func (b *backend) MountSnapshot(ctx context.Context, id string, req api.SnapshotMountRequest) (api.SnapshotMount, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	rec, _, err := t.Find(ctx, id)
	if err == nil {
		err = b.mayMountAt(req.At)
	}
	if err == nil {
		_, err = b.agents.Attach(rec.Agent) // before it is kept for nothing
	}
	if err != nil {
		return api.SnapshotMount{}, err
	}
	s, err := t.Keep(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	m, err := b.agents.MountSnapshot(ctx, s.Agent, wire.MountRequest{ID: id, Store: s.Store, Manifest: s.Manifest, Delta: s.Delta, At: req.At, Time: s.Time})
	return api.SnapshotMount{ID: id, Agent: s.Agent, At: m.At}, err
}

// mayMountAt refuses what polis has below a directory of its own: a mount there would be in the way of an
// agent, or of the shim that serves both.
func (b *backend) mayMountAt(at string) error {
	own := []string{b.Daemon.Config.WorkspacesDir, b.Daemon.Config.RunDir}
	for _, root := range b.roots() {
		own = append(own, string(root))
	}
	if at == "" || placement.Apart(at, own) {
		return nil
	}
	return api.Errorf(api.CodeBadRequest, "a snapshot cannot be mounted at %q: it must be an absolute path outside of the directories of polis", api.Shorten(at, 200)).WithHint("give an empty directory, by a path without symbolic links")
}

// UnmountSnapshot unmounts a snapshot.
func (b *backend) UnmountSnapshot(ctx context.Context, id string) (api.SnapshotMount, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	rec, _, err := t.Find(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	m, err := b.agents.UnmountSnapshot(ctx, rec.Agent, id)
	return api.SnapshotMount{ID: id, Agent: rec.Agent, At: m.At}, err
}
