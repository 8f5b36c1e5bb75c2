package daemon

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/timeline"
	"polis/daemon/workspace/placement"
)

// MountSnapshot mounts a snapshot, which its agent's shim serves. One that is mounted on the host is kept until a
// person removes it.
func (b *backend) MountSnapshot(ctx context.Context, id string, req api.SnapshotMountRequest) (api.SnapshotMount, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	rec, _, err := t.Find(ctx, id)
	if err == nil {
		err = b.mayMountAt(req)
	}
	if err == nil {
		_, err = b.agents.Attach(rec.Agent) // before it is kept for nothing
	}
	if err != nil {
		return api.SnapshotMount{}, err
	}
	if req.Inside {
		var m api.SnapshotMount
		err := t.Use(ctx, id, func(s timeline.Stored) error {
			m, err = b.mountInside(ctx, s)
			return err
		})
		return m, err
	}
	s, err := t.Keep(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	m, err := b.agents.MountSnapshot(ctx, s.Agent, mountRequest(s, req.At, false))
	return api.SnapshotMount{ID: id, Agent: s.Agent, At: m.At}, err
}

func mountRequest(s timeline.Stored, at string, inside bool) wire.MountRequest {
	return wire.MountRequest{ID: s.ID, Store: s.Store, Manifest: s.Manifest, Delta: s.Delta, At: at, Inside: inside, Time: s.Time}
}

// mountInside mounts a snapshot in the sandbox of its agent, which sees of it what its rules let it read.
func (b *backend) mountInside(ctx context.Context, s timeline.Stored) (api.SnapshotMount, error) {
	m, err := b.agents.MountSnapshot(ctx, s.Agent, mountRequest(s, "", true))
	return api.SnapshotMount{ID: s.ID, Agent: s.Agent, At: m.At, Inside: true}, err
}

// Mounted implements timeline.Host.
func (h snapshotHost) Mounted(ctx context.Context, name, id string) bool {
	all, err := h.w.d.agents.MountsOf(ctx, name, id)
	return err != nil || slices.ContainsFunc(all, func(m wire.Mounted) bool { return m.Inside })
}

// mayMountAt refuses what polis has below a directory of its own: a mount there would be in the way of an
// agent, or of the shim that serves both.
func (b *backend) mayMountAt(req api.SnapshotMountRequest) error {
	if req.Inside && req.At != "" {
		return api.Errorf(api.CodeBadRequest, "at = %q: with inside, a snapshot is mounted below %s", api.Shorten(req.At, 200), wire.SnapshotsPath)
	}
	at, own := req.At, []string{b.Daemon.Config.WorkspacesDir, b.Daemon.Config.RunDir}
	for _, root := range b.roots() {
		own = append(own, string(root))
	}
	if at == "" || placement.Apart(at, own) {
		return nil
	}
	return api.Errorf(api.CodeBadRequest, "a snapshot cannot be mounted at %q: it must be an absolute path outside of the directories of polis", api.Shorten(at, 200)).WithHint("give an empty directory, by a path without symbolic links")
}

// UnmountSnapshot unmounts a snapshot, on the host or in the sandbox of its agent.
func (b *backend) UnmountSnapshot(ctx context.Context, id string, inside bool) (api.SnapshotMount, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	rec, _, err := t.Find(ctx, id)
	if err != nil {
		return api.SnapshotMount{}, err
	}
	m, err := b.agents.UnmountSnapshot(ctx, rec.Agent, id, inside)
	return api.SnapshotMount{ID: id, Agent: rec.Agent, At: m.At, Inside: inside}, err
}

// addMounts adds where a snapshot is mounted.
func (b *backend) addMounts(ctx context.Context, s *api.Snapshot) {
	all, err := b.agents.MountsOf(ctx, s.Agent, s.ID)
	if err != nil {
		b.Daemon.Log.Warn("mounts of snapshots not read", "agent", s.Agent, "err", err)
	}
	for _, m := range all {
		if m.Inside {
			s.MountedInside = m.At
		} else {
			s.MountedAt = m.At
		}
	}
}

// unmountAll unmounts a snapshot wherever its agent's shim has mounted it.
func (b *backend) unmountAll(ctx context.Context, agent, id string) error {
	for _, inside := range []bool{false, true} {
		if _, err := b.agents.UnmountSnapshot(ctx, agent, id, inside); err != nil && api.CodeOf(err) != api.CodeNotFound {
			return err
		}
	}
	return nil
}
