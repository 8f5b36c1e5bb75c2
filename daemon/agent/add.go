package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// Limits of a request's lists and strings.
const (
	maxRules   = 256
	maxWord    = 4096
	maxWords   = 512
	maxCommand = 128 << 10
)

// Add creates an agent completely, or not at all.
func (m *Manager) Add(ctx context.Context, req api.AddRequest) (api.Agent, error) {
	return m.add(ctx, req, nil)
}

// add is Add; of marks a worker. The policy of an agent's worker is the request's alone.
func (m *Manager) add(ctx context.Context, req api.AddRequest, of *store.Worker) (api.Agent, error) {
	a, err := m.reserve(ctx, req, of)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	// The state is saved before anything is made, so that the next start repairs a crash from here
	// on.
	if err := m.save(a.WS); err != nil {
		m.mu.Lock()
		delete(m.agents, a.Name())
		m.mu.Unlock()
		return api.Agent{}, err
	}
	m.crash("add:noted")
	err = m.lend(ctx, a)
	if err == nil {
		err = m.create(ctx, a, mapsOf(req), req.Force)
	}
	if err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		m.Log.Warn("agent could not be added", "agent", req.Name, "err", err)
		if derr := m.dismantle(uctx, a); derr != nil {
			// The remains need a name, so that remove --force can try again.
			m.setStatus(a, api.StatusError, "it could not be added, and its remains could not be removed: "+derr.Error())
			return api.Agent{}, errors.Join(err, derr)
		}
		m.dropOwnBranch(uctx, a, "")
		return api.Agent{}, errors.Join(err, m.forget(a))
	}
	m.setStatus(a, api.StatusIdle, "")
	m.Events.Publish(api.Event{Type: api.EventAgentCreated, Agent: a.Name(), Message: "agent " + a.Name() + " was added " + a.where(), Data: a.record()})
	v := m.live(ctx, a)
	v.Warnings = append(v.Warnings, a.Notices...)
	return v, nil
}

// reserve validates the request and takes the name. The returned agent's op is held.
func (m *Manager) reserve(ctx context.Context, req api.AddRequest, of *store.Worker) (*Agent, error) {
	if err := api.CheckName(req.Name); err != nil {
		return nil, err
	}
	ws, err := m.Workspace(req.Workspace)
	if err != nil {
		return nil, err
	}
	if err := m.Isolated(); err != nil {
		return nil, err
	}
	types, err := m.Types()
	if err != nil {
		return nil, err
	}
	if req.BaseType == "" {
		return nil, api.Errorf(api.CodeAgentTypeUnavailable, "base_type is empty").WithHint("--base custom runs any program; polisctl agents types lists the others")
	}
	typ, err := config.PickType(types, req.BaseType)
	if err != nil {
		return nil, err
	}
	c := m.config()
	pol, err := choosePolicy(c, req.Role, req.Policy)
	if of != nil && of.Parent != "" && req.Policy != nil {
		pol, err = *req.Policy, checkPolicy(*req.Policy)
	}
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkAdd(req), m.checkBrackets(ctx, ws, pol, req.Role, m.sight(of))); err != nil {
		return nil, err
	}
	own, err := m.newReach(c, typ, req)
	if err != nil {
		return nil, err
	}
	mem := req.MemoryMB
	if mem == 0 {
		mem = max(c.Limits.MemoryMB, typ.MemoryMB)
	}
	if err := checkMemory(mem); err != nil {
		return nil, err
	}
	if err := api.CheckLeftovers(req.Leftovers); err != nil {
		return nil, err
	}
	if err := checkReadOnly(ws, req); err != nil {
		return nil, err
	}
	sparse, notices, err := m.sparseOf(ctx, ws, typ, req)
	if err != nil {
		return nil, err
	}
	branch := req.Branch
	switch {
	case req.ReadOnly:
		pol.Exclusive = nil // of its role
	case !ws.Git && branch != "":
		return nil, api.Errorf(api.CodeBadRequest, "branch = %q: workspace %s is not a git repository", api.Shorten(branch, 200), ws.Name)
	case ws.Git && branch == "":
		branch = "agent/" + req.Name
	}
	sess, err1 := secret()
	sec, err2 := secret()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	a := &Agent{WS: ws, Type: typ, Notices: notices, Kept: store.Agent{Name: req.Name, BaseType: typ.Name, Branch: branch, Role: req.Role,
		MemoryLimitMB: mem, Limits: req.Limits, Command: req.Command, Policy: pol, AutoMerge: req.AutoMerge, RemoveAfter: req.RemoveAfter, Ephemeral: req.Ephemeral, Leftovers: req.Leftovers, Egress: own.Egress, HostPorts: own.HostPorts, Env: req.Env, Race: req.Race, Base: cmp.Or(req.At, req.Base), ReadOnly: req.ReadOnly, Sparse: sparse, PortMappings: []store.PortMap{}, CreatedAt: m.Now().UTC().Truncate(time.Millisecond),
		Status: api.StatusCreating, Session: sess, Secret: sec, Worker: of}}
	if req.ReplayOf != "" {
		a.Kept.Replay = &store.Replay{Task: req.ReplayOf, ByOrder: req.ReplayByOrder}
	}
	return a, m.enter(a, c)
}

// enter registers a new agent if its name is free and the limits allow it. Its op is then held.
func (m *Manager) enter(a *Agent, c config.Config) error {
	name, ws := a.Name(), a.WS
	if strings.HasPrefix(name, layout.CheckPrefix) {
		return api.Errorf(api.CodeInvalidName, "agent name %q: names that begin with %s are polis' own", name, layout.CheckPrefix).WithHint("choose another name")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.agents[name]; ok {
		return api.Errorf(api.CodeAgentExists, "agent %s already exists: %s %s in workspace %s", name, old.Kept.Status, old.where(), old.WS.Name).
			With("agent", old.view(c.Network.Bind)).WithHint("choose another name, or polisctl agents remove %s", name)
	}
	for other, old := range m.agents {
		if ws.Git && old.WS.Name == ws.Name && slices.Contains(old.Kept.OwnedRefs, "refs/heads/"+a.Kept.Branch) {
			return api.Errorf(api.CodeRefConflict, "branch %s belongs to agent %s, which made it and can change it", a.Kept.Branch, other).With("agent", other).
				WithHint("name another branch, or polisctl agents remove %s first", other)
		}
	}
	if ws.leaving {
		return api.Errorf(api.CodeBadState, "workspace %s is being removed from polis", ws.Name).WithHint("polisctl up adds it again")
	}
	if n := m.count(ws.Name); n >= c.MaxAgents {
		return api.Errorf(api.CodeMaxAgents, "workspace %s has %d of at most %d agents", ws.Name, n, c.MaxAgents).With("count", n).
			WithHint("remove an agent, or raise max_agents in polisd.toml and run systemctl reload polisd")
	}
	if err := m.contested(a, a.Kept.Policy); err != nil {
		return err
	}
	if err := m.workerRoom(a, c); err != nil {
		return err
	}
	a.op.Lock() // no other goroutine knows it yet
	m.agents[name] = a
	return nil
}

func checkAdd(req api.AddRequest) error {
	if err := CheckCommand("command", req.Command); err != nil {
		return err
	}
	if err := errors.Join(req.Limits.Check(), api.CheckEnv(req.Env)); err != nil {
		return err
	}
	if len(req.Branch) > 200 || strings.ContainsRune(req.Branch, 0) {
		return api.Errorf(api.CodeBadRequest, "branch = %q: must have at most 200 bytes and no NUL", api.Shorten(req.Branch, 64))
	}
	if n := len(req.Ports) + len(req.UDPPorts); n > maxMaps {
		return api.Errorf(api.CodeBadRequest, "ports and udp_ports have %d entries: at most %d", n, maxMaps)
	}
	for field, ports := range map[string][]int{"ports": req.Ports, "udp_ports": req.UDPPorts} {
		for i, p := range ports {
			if p < 1 || p > 65535 {
				return api.Errorf(api.CodeBadRequest, "%s: %d is not a port: from 1 to 65535", field, p)
			}
			if slices.Contains(ports[:i], p) {
				return api.Errorf(api.CodeBadRequest, "%s: %d is there twice", field, p)
			}
		}
	}
	return nil
}

// create ensures every resource in order, then the shim. maps keep their external ports, if they
// have any and those are free.
func (m *Manager) create(ctx context.Context, a *Agent, maps []store.PortMap, force bool) error {
	leave, err := m.admit(a, force)
	if err != nil {
		return err
	}
	defer leave()
	c := m.config()
	if m.SharesNetwork() {
		maps = m.hostMaps(maps)
	}
	for _, p := range maps {
		ext, err := m.Ports.Take(ctx, a.key(p), cmp.Or(p.Bind, c.Network.Bind), 1, p.External)
		if err != nil {
			return m.noPorts(err)
		}
		p.External = ext
		m.mu.Lock()
		a.setMap(p, "")
		m.mu.Unlock()
	}
	return m.bringUp(ctx, a)
}

// bringUp ensures the resources and the shim, and follows the shim's events. a.op is held.
func (m *Manager) bringUp(ctx context.Context, a *Agent) error {
	if err := m.Isolated(); err != nil {
		return err
	}
	if err := m.settlePorts(ctx, a); err != nil {
		return err
	}
	a.LastTask = m.lastBegun(a).ID
	m.mu.Lock()
	a.Kept.Recording = m.recordsPolicy(a.Kept)
	m.mu.Unlock()
	if err := m.ensureResources(ctx, a); err != nil {
		return err
	}
	m.mu.Lock()
	a.Kept.Generation++
	a.leaving = false
	m.mu.Unlock()
	if err := m.ensureShim(ctx, a); err != nil {
		return err
	}
	m.crash("up:shim")
	if err := m.Shims.SaveCursor(a.Name(), 0); err != nil {
		m.Log.Warn("last event not recorded", "agent", a.Name(), "err", err)
	}
	group := m.group(a)
	m.mu.Lock()
	a.up, a.foreign, a.last, a.Kept.CgroupPath = true, false, 0, group
	a.bound(m.cfgLive.Network.Bind)
	m.mu.Unlock()
	m.startFollow(a)
	return nil
}

// group returns the control group of the agent's sandbox, relative to the mount points of the
// hierarchies, from the spec of its shim.
func (m *Manager) group(a *Agent) string {
	sp, _ := m.Shims.Spec(a.Name())
	return sp.CgroupPath
}

// ensureShim starts the shim. If another program has taken a static port, the next free port
// replaces it.
func (m *Manager) ensureShim(ctx context.Context, a *Agent) error {
	for try := 0; ; try++ {
		err := m.Shims.Ensure(ctx, a)
		if err == nil || api.CodeOf(err) != api.CodePortInUse || try == 8 {
			return err
		}
		if err := m.settlePorts(ctx, a); err != nil {
			return err
		}
	}
}
