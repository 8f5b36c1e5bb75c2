package agent

import (
	"context"
	"slices"

	"polis/daemon/api"
	"polis/daemon/api/wire"
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
	least := wire.SnapshotsVersion
	if req.Inside {
		least = wire.InsideSnapshotsVersion
	}
	if v, err := wire.Agree(st); err != nil || v < least {
		return wire.Mounted{}, api.Errorf(api.CodeBadState, "the shim of agent %s is of an older polis, which does not mount snapshots so", name).
			WithHint("polisctl agents stop %s && polisctl agents start %s", name, name)
	}
	return sh.Mount(ctx, req)
}

// MountsOf returns where a snapshot of an agent is mounted.
func (m *Manager) MountsOf(ctx context.Context, name, id string) ([]wire.Mounted, error) {
	a, err := m.upShim(name)
	if err != nil { // no shim, no mount
		return nil, nil //nolint:nilerr // see above
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(st.Snapshots, func(s wire.Mounted) bool { return s.ID != id }), nil
}

// UnmountSnapshot unmounts a snapshot of an agent, on the host or in its sandbox. One that is not mounted there is
// NOT_FOUND.
func (m *Manager) UnmountSnapshot(ctx context.Context, name, id string, inside bool) (wire.Mounted, error) {
	all, err := m.MountsOf(ctx, name, id)
	if err != nil {
		return wire.Mounted{}, err
	}
	if !slices.ContainsFunc(all, func(s wire.Mounted) bool { return s.Inside == inside }) {
		return wire.Mounted{}, api.Errorf(api.CodeNotFound, "snapshot %s is not mounted", api.Shorten(id, 64)).WithHint("polisctl snapshot show %s", api.Shorten(id, 64))
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	return sh.Unmount(ctx, id, inside)
}
