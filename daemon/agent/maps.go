package agent

import (
	"context"
	"slices"
	"strconv"

	"polis/daemon/api"
)

func itoa(n int) string { return strconv.Itoa(n) }

// MapPort adds a static port map to an agent that is up.
func (m *Manager) MapPort(ctx context.Context, req api.PortRequest) (api.PortMapping, error) {
	if req.Internal < 1 || req.Internal > 65535 {
		return api.PortMapping{}, api.Errorf(api.CodeBadRequest, "internal = %d: a port is from 1 to 65535", req.Internal)
	}
	c := m.config()
	if lo, hi := c.PortRange(); req.External != 0 && (req.External < lo || req.External > hi) {
		return api.PortMapping{}, api.Errorf(api.CodeBadRequest, "external = %d: must be from %d to %d", req.External, lo, hi)
	}
	a, err := m.find(ctx, req.Agent)
	if err != nil {
		return api.PortMapping{}, err
	}
	defer a.op.Unlock()
	if _, err := m.upShim(req.Agent); err != nil {
		return api.PortMapping{}, err
	}
	if err := m.writable(a); err != nil {
		return api.PortMapping{}, err
	}
	m.mu.Lock()
	i := slices.IndexFunc(a.Kept.PortMappings, func(p [2]int) bool { return p[0] == req.Internal })
	var ext int
	if i >= 0 {
		ext = a.Kept.PortMappings[i][1]
	}
	m.mu.Unlock()
	if i >= 0 {
		return api.PortMapping{}, api.Errorf(api.CodePortInUse, "port %d of agent %s is already mapped to %d", req.Internal, req.Agent, ext).
			WithHint("polisctl ports remove %s %d", req.Agent, req.Internal)
	}
	sh := m.Shims.Dial(req.Agent)
	defer sh.Close()
	p, err := m.mapPort(ctx, sh, a, req.Internal, req.External, false)
	if err == nil {
		m.publishPort(p, "is reachable at")
	}
	return p, err
}

// UnmapPort ends a port map.
func (m *Manager) UnmapPort(ctx context.Context, name string, internal int) error {
	a, err := m.find(ctx, name)
	if err != nil {
		return err
	}
	defer a.op.Unlock()
	m.mu.Lock()
	has := slices.ContainsFunc(a.Kept.PortMappings, func(p [2]int) bool { return p[0] == internal })
	up := a.up
	m.mu.Unlock()
	if !has {
		return api.Errorf(api.CodePortNotFound, "port %d of agent %s is not mapped", internal, name).WithHint("polisctl ports list")
	}
	if err := m.writable(a); err != nil {
		return err
	}
	if up {
		sh := m.Shims.Dial(name)
		defer sh.Close()
		if err := sh.RemovePort(ctx, internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
			return err
		}
	}
	m.dropPort(a, internal)
	return nil
}

// PortMappings returns all port maps, sorted by external port.
func (m *Manager) PortMappings(ctx context.Context) []api.PortMapping {
	out := []api.PortMapping{}
	for _, a := range m.List(ctx, "") {
		out = append(out, a.PortMappings...)
	}
	slices.SortFunc(out, func(x, y api.PortMapping) int { return x.External - y.External })
	return out
}
