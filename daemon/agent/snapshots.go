package agent

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// MountSnapshot has the agent's shim mount a snapshot of its files.
func (m *Manager) MountSnapshot(ctx context.Context, name string, req wire.MountRequest) (wire.Mounted, error) {
	a, err := m.upShim(name)
	if err != nil {
		return wire.Mounted{}, err
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return wire.Mounted{}, err
	}
	if v, err := wire.Agree(st); err != nil || v < wire.SnapshotsVersion {
		return wire.Mounted{}, api.Errorf(api.CodeBadState, "the shim of agent %s is of an older polis, which mounts no snapshots", name).
			WithHint("polisctl agents stop %s && polisctl agents start %s", name, name)
	}
	return sh.Mount(ctx, req)
}

// MountedAt returns where a snapshot of an agent is mounted; "" if it is not.
func (m *Manager) MountedAt(ctx context.Context, name, id string) (string, error) {
	a, err := m.upShim(name)
	if err != nil { // no shim, no mount
		return "", nil //nolint:nilerr // see above
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(st.Snapshots, func(s wire.Mounted) bool { return s.ID == id })
	if i < 0 {
		return "", nil
	}
	return st.Snapshots[i].At, nil
}

// UnmountSnapshot unmounts a snapshot of an agent. One that is not mounted is NOT_FOUND.
func (m *Manager) UnmountSnapshot(ctx context.Context, name, id string) (wire.Mounted, error) {
	at, err := m.MountedAt(ctx, name, id)
	if err != nil {
		return wire.Mounted{}, err
	}
	if at == "" {
		return wire.Mounted{}, api.Errorf(api.CodeNotFound, "snapshot %s is not mounted", id).WithHint("polisctl snapshot show %s", id)
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	return sh.Unmount(ctx, id)
}
