package agent

import (
	"slices"

	"polis/daemon/api"
	"polis/daemon/config"
)

// changedHostPorts returns the agent's host ports with those of the request added and removed. The result is the
// agent's own: it no longer follows its role.
func changedHostPorts(c config.Config, role string, own config.Own, req api.SetRequest) ([]uint16, error) {
	now := c.OwnHostPorts(role, own)
	out := append([]uint16{}, now...)
	for _, p := range req.AddHostPorts {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, p := range req.RemoveHostPorts {
		at := slices.Index(out, p)
		if at < 0 {
			return nil, api.Errorf(api.CodeBadRequest, "remove_host_ports: %d is not a host port of the agent, which are %s", p, hostPortsText(append([]uint16{}, now...)))
		}
		out = slices.Delete(out, at, at+1)
	}
	return out, nil
}

// checkHostPortChange refuses a list and a change of it in one request.
func checkHostPortChange(req api.SetRequest) error {
	if len(req.AddHostPorts)+len(req.RemoveHostPorts) == 0 {
		return nil
	}
	if req.HostPorts != nil || slices.Contains(req.Reset, api.ResetHostPorts) {
		return api.Errorf(api.CodeBadRequest, "host_ports is both set or reset, and changed").WithHint("give one of them")
	}
	return nil
}

// newReach returns what a new agent may reach by its own settings. It refuses what this machine cannot enforce.
func (m *Manager) newReach(c config.Config, typ config.BaseType, req api.AddRequest) (own config.Own, err error) {
	own.HostPorts = req.HostPorts
	if own.Egress, err = c.EgressWords(req.Role, config.Own{}, req.Egress); err == nil {
		err = m.reachable(c, req.Role, typ, own)
	}
	return own, err
}
