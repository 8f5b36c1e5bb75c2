package agent

import (
	"cmp"
	"slices"
	"strconv"

	"polis/daemon/api"
	"polis/daemon/store"
)

const (
	// maxMaps is the most port maps of one agent.
	maxMaps = 256
	// maxKnown is the most ports that are remembered of an agent.
	maxKnown = 64
)

func itoa(n int) string { return strconv.Itoa(n) }

// A port as messages name it: 3000, or 5000/udp.
func (k PortKey) String() string {
	if k.Protocol == api.ProtoUDP {
		return itoa(k.Internal) + "/udp"
	}
	return itoa(k.Internal)
}

func (k PortKey) plus(i int) PortKey {
	k.Internal += i
	return k
}

func (a *Agent) key(p store.PortMap) PortKey {
	return PortKey{Agent: a.Name(), Protocol: p.Protocol, Internal: p.Internal}
}

// The methods below change an agent's maps in memory. The manager's mutex is held.

// mapView returns a map for the API. bind is the configured address.
func (a *Agent) mapView(p store.PortMap, bind string) api.PortMapping {
	at, ok := a.binds[a.key(p)]
	if !ok {
		at = cmp.Or(p.Bind, bind)
	}
	return api.PortMapping{Agent: a.Name(), Internal: p.Internal, External: p.External, Protocol: p.Protocol, Bind: at, Auto: p.Auto, Served: a.up}
}

func find(maps []store.PortMap, k PortKey) (store.PortMap, bool) {
	i := slices.IndexFunc(maps, func(p store.PortMap) bool { return p.Internal == k.Internal && p.Protocol == k.Protocol })
	if i < 0 {
		return store.PortMap{}, false
	}
	return maps[i], true
}

// without returns a copy without k: a slice that was saved must not change.
func without(maps []store.PortMap, k PortKey) []store.PortMap {
	return slices.DeleteFunc(slices.Clone(maps), func(p store.PortMap) bool { return p.Internal == k.Internal && p.Protocol == k.Protocol })
}

// setMap enters a map that is served at bind. bind is "" for an agent that is not up.
func (a *Agent) setMap(p store.PortMap, bind string) {
	k := a.key(p)
	a.Kept.PortMappings = append(without(a.Kept.PortMappings, k), p)
	a.Kept.KnownPorts = without(a.Kept.KnownPorts, k)
	if bind == "" {
		return
	}
	if a.binds == nil {
		a.binds = map[PortKey]string{}
	}
	a.binds[k] = bind
}

// bound records the maps that the shim was started with.
func (a *Agent) bound(bind string) {
	a.binds = map[PortKey]string{}
	for _, p := range a.Kept.PortMappings {
		a.binds[a.key(p)] = cmp.Or(p.Bind, bind)
	}
}

// dropMap removes a map and returns it.
func (a *Agent) dropMap(k PortKey) (store.PortMap, bool) {
	p, ok := find(a.Kept.PortMappings, k)
	if ok {
		a.Kept.PortMappings = without(a.Kept.PortMappings, k)
		delete(a.binds, k)
	}
	return p, ok
}

// remember records the port of a map. It returns the ports that it dropped to make room.
func (a *Agent) remember(p store.PortMap) (dropped []PortKey) {
	p.Auto = false
	known := append(without(a.Kept.KnownPorts, a.key(p)), p)
	for len(known) > maxKnown {
		dropped = append(dropped, a.key(known[0]))
		known = known[1:]
	}
	a.Kept.KnownPorts = known
	return dropped
}

// retire releases the port of a removed map and remembers it.
func (m *Manager) retire(a *Agent, p store.PortMap) {
	m.mu.Lock()
	dropped := a.remember(p)
	m.mu.Unlock()
	m.Ports.Release(a.key(p))
	for _, k := range dropped {
		m.Ports.Forget(k)
	}
}

// dropAuto removes automatic maps: their listeners have ended with the agent's processes, and get
// the same ports when they return.
func (m *Manager) dropAuto(a *Agent) {
	a.mapping.Lock()
	defer a.mapping.Unlock()
	m.mu.Lock()
	a.binds = nil
	var gone []store.PortMap
	for _, p := range a.Kept.PortMappings {
		if p.Auto {
			gone = append(gone, p)
			a.dropMap(a.key(p))
		}
	}
	m.mu.Unlock()
	for _, p := range gone {
		m.retire(a, p)
		m.publishGone(a, p)
	}
}

// nameMaps adds the names at the proxy.
func (m *Manager) nameMaps(maps []api.PortMapping) {
	if m.PortURL == nil {
		return
	}
	for i, p := range maps {
		if p.Protocol == api.ProtoTCP {
			maps[i].URL = m.PortURL(p.Agent, p.Internal)
		}
	}
}

// PortMappings returns all port maps, sorted by external port.
func (m *Manager) PortMappings() []api.PortMapping {
	m.mu.Lock()
	out := []api.PortMapping{}
	for _, a := range m.agents {
		out = append(out, a.view(m.cfgLive.Network.Bind).PortMappings...)
	}
	m.mu.Unlock()
	m.nameMaps(out)
	slices.SortFunc(out, func(x, y api.PortMapping) int {
		return cmp.Or(cmp.Compare(x.External, y.External), cmp.Compare(x.Protocol, y.Protocol))
	})
	return out
}

func (m *Manager) publishMapped(p api.PortMapping) {
	k := PortKey{p.Agent, p.Protocol, p.Internal}
	e := api.Event{Type: api.EventPort, Agent: p.Agent, Data: mapData(p),
		Message: "port " + k.String() + " of agent " + p.Agent + " is reachable at " + p.Bind + ":" + itoa(p.External)}
	if p.Wanted != 0 {
		e.Code = api.CodePortInUse
		e.Message += ", because port " + itoa(p.Wanted) + " is in use"
	}
	m.Events.Publish(e)
}

func (m *Manager) publishGone(a *Agent, p store.PortMap) {
	m.mu.Lock()
	v := a.mapView(p, m.cfgLive.Network.Bind)
	m.mu.Unlock()
	data := mapData(v)
	data["gone"] = true
	m.Events.Publish(api.Event{Type: api.EventPort, Agent: a.Name(), Data: data,
		Message: "port " + a.key(p).String() + " of agent " + a.Name() + " is no longer reachable at " + v.Bind + ":" + itoa(p.External)})
}

func mapData(p api.PortMapping) map[string]any {
	data := map[string]any{"internal": p.Internal, "external": p.External, "protocol": p.Protocol, "bind": p.Bind}
	if p.Auto {
		data["auto"] = true
	}
	if p.Wanted != 0 {
		data["wanted"] = p.Wanted
	}
	return data
}

// mapsOf returns the port maps that a request contains.
func mapsOf(req api.AddRequest) []store.PortMap {
	var maps []store.PortMap
	for _, p := range req.Ports {
		maps = append(maps, store.PortMap{Internal: p, Protocol: api.ProtoTCP})
	}
	for _, p := range req.UDPPorts {
		maps = append(maps, store.PortMap{Internal: p, Protocol: api.ProtoUDP})
	}
	return maps
}
