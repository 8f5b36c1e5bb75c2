package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// startFollow hears the shim's events until takeDown or Close. a.op is held.
func (m *Manager) startFollow(a *Agent) {
	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	m.mu.Lock()
	gen := a.Kept.Generation
	a.follow = func() { cancel(); <-done }
	m.mu.Unlock()
	m.wg.Go(func() {
		defer close(done)
		m.followShim(ctx, a, gen)
	})
}

// followShim reads events and reconnects; when the shim is gone it says so
// and clears up after it.
func (m *Manager) followShim(ctx context.Context, a *Agent, gen uint64) {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	for ctx.Err() == nil {
		m.mu.Lock()
		since := a.last
		m.mu.Unlock()
		err := sh.Events(ctx, since, func(e api.Event) { m.heard(ctx, sh, a, e) })
		if ctx.Err() != nil {
			return
		}
		m.Log.Debug("the shim's event stream ended", "agent", a.Name(), "err", err)
		alive, aerr := m.Shims.Alive(ctx, a)
		if aerr != nil {
			m.Log.Warn("ask for the shim", "agent", a.Name(), "err", aerr)
		}
		if aerr == nil && !alive {
			// Not from this goroutine: clearing up waits for it.
			m.wg.Go(func() { m.buryShim(m.ctx, a, gen) })
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// buryShim clears up after a shim that died: its agent is in Error, its
// mounts, processes and leases are gone, its files are all there.
func (m *Manager) buryShim(ctx context.Context, a *Agent, gen uint64) {
	if lockOp(ctx, &a.op) != nil {
		return
	}
	defer a.op.Unlock()
	m.mu.Lock()
	stale := a.Kept.Generation != gen || a.leaving || m.agents[a.Name()] != a
	m.mu.Unlock()
	if stale {
		return
	}
	m.Log.Error("the agent's shim died", "agent", a.Name())
	ctx, cancel := context.WithTimeout(ctx, undoTime)
	defer cancel()
	if err := m.takeDown(ctx, a); err != nil {
		m.Log.Error("clear up after a dead shim", "agent", a.Name(), "err", err)
	}
	m.setStatus(a, api.StatusError, "its shim died; polisctl agents start "+a.Name()+" brings it back with all its files")
}

// heard acts on one event of a shim and passes on what users want to know.
func (m *Manager) heard(ctx context.Context, sh Shim, a *Agent, e api.Event) {
	m.mu.Lock()
	a.last = max(a.last, e.ID)
	m.mu.Unlock()
	switch e.Type {
	case "shim:exit":
		if st, err := sh.Status(ctx); err == nil && !st.Running {
			m.ended(a, st)
		}
		return
	case "shim:listen", "shim:unlisten":
		m.autoMap(ctx, sh, a, e)
		return
	case "shim:own-ref":
		if ref, ok := e.Data["ref"].(string); ok {
			gone, _ := e.Data["gone"].(bool)
			m.ownRef(a, ref, gone)
		}
		return
	case api.EventOOM:
		m.Log.Warn(e.Message, "agent", a.Name(), "code", api.CodeOOMKilled)
		m.setStatus(a, api.StatusError, string(api.CodeOOMKilled)+": "+e.Message)
	}
	if !strings.HasPrefix(e.Type, "shim:") {
		m.Events.Publish(e)
	}
}

func (m *Manager) ownRef(a *Agent, ref string, gone bool) {
	m.mu.Lock()
	i := slices.Index(a.Kept.OwnedRefs, ref)
	changed := gone == (i >= 0)
	switch {
	case changed && gone:
		a.Kept.OwnedRefs = slices.Delete(slices.Clone(a.Kept.OwnedRefs), i, i+1)
	case changed:
		a.Kept.OwnedRefs = append(a.Kept.OwnedRefs, ref)
	}
	m.mu.Unlock()
	if changed {
		if err := m.save(a.WS); err != nil {
			m.Log.Error("save state", "agent", a.Name(), "err", err)
		}
	}
}

// autoMap maps a port the agent opened, and ends the map when it closes one
// that polis had mapped by itself.
func (m *Manager) autoMap(ctx context.Context, sh Shim, a *Agent, e api.Event) {
	n, ok := e.Data["port"].(float64)
	if !ok {
		return
	}
	internal := int(n)
	c := m.config()
	if e.Type == "shim:unlisten" {
		m.unmap(ctx, sh, a, internal)
		return
	}
	if !c.Network.AutoMap {
		return
	}
	m.mu.Lock()
	mapped := slices.ContainsFunc(a.Kept.PortMappings, func(p [2]int) bool { return p[0] == internal })
	m.mu.Unlock()
	if mapped {
		return
	}
	if p, err := m.mapPort(ctx, sh, a, internal, 0, true); err != nil {
		m.Log.Warn("map port", "agent", a.Name(), "port", internal, "err", err)
		m.Events.Publish(api.Event{Type: api.EventPort, Agent: a.Name(), Code: api.CodeOf(err), Message: err.Error()})
	} else {
		m.publishPort(p, "is reachable at")
	}
}

func (m *Manager) unmap(ctx context.Context, sh Shim, a *Agent, internal int) {
	st, err := sh.Status(ctx)
	if err != nil {
		return
	}
	i := slices.IndexFunc(st.Ports, func(p api.PortMapping) bool { return p.Internal == internal && p.Auto })
	if i < 0 {
		return
	}
	if err := sh.RemovePort(ctx, internal); err != nil && api.CodeOf(err) != api.CodePortNotFound {
		m.Log.Warn("unmap port", "agent", a.Name(), "port", internal, "err", err)
		return
	}
	m.dropPort(a, internal)
	m.publishPort(st.Ports[i], "is no longer reachable at")
}

func (m *Manager) publishPort(p api.PortMapping, verb string) {
	m.Events.Publish(api.Event{Type: api.EventPort, Agent: p.Agent,
		Message: "port " + itoa(p.Internal) + " of agent " + p.Agent + " " + verb + " " + p.Bind + ":" + itoa(p.External),
		Data:    map[string]any{"internal": p.Internal, "external": p.External}})
}

func (m *Manager) mapPort(ctx context.Context, sh Shim, a *Agent, internal, want int, auto bool) (api.PortMapping, error) {
	c := m.config()
	for try := 0; ; try++ {
		ext, err := m.Ports.Take(a.Name(), internal, want)
		if err != nil {
			return api.PortMapping{}, err
		}
		err = sh.AddPort(ctx, wire.PortRequest{Internal: internal, External: ext, Bind: c.Network.Bind, Auto: auto})
		if api.CodeOf(err) == api.CodePortInUse && (want == 0 || try > 0) && try < 16 {
			// Somebody else on the host has it: the next one.
			m.Ports.Release(a.Name(), internal)
			want = ext + 1
			continue
		}
		if err != nil {
			m.Ports.Release(a.Name(), internal)
			return api.PortMapping{}, err
		}
		m.mu.Lock()
		a.Kept.PortMappings = append(a.Kept.PortMappings, [2]int{internal, ext})
		m.mu.Unlock()
		if err := m.save(a.WS); err != nil {
			m.Log.Error("save state", "agent", a.Name(), "err", err)
		}
		return api.PortMapping{Agent: a.Name(), Internal: internal, External: ext, Protocol: "tcp", Bind: c.Network.Bind, Auto: auto}, nil
	}
}

func (m *Manager) dropPort(a *Agent, internal int) {
	m.mu.Lock()
	a.Kept.PortMappings = slices.DeleteFunc(slices.Clone(a.Kept.PortMappings), func(p [2]int) bool { return p[0] == internal })
	m.mu.Unlock()
	m.Ports.Release(a.Name(), internal)
	if err := m.save(a.WS); err != nil {
		m.Log.Error("save state", "agent", a.Name(), "err", err)
	}
}
