package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/http/proxy"
	"polis/netbridge"
)

// webAgents gives the proxy access to the agents.
type webAgents struct {
	*agent.Manager
	netns string // directory of the network namespaces
}

func (w webAgents) Names() []string { return w.Up() }

// Dial connects within the agent's network namespace. A thread of its own enters the namespace and
// exits with the dial, so that it keeps no namespace alive.
func (w webAgents) Dial(ctx context.Context, name string, port int) (net.Conn, error) {
	place, err := w.Place(name)
	if err != nil {
		return nil, err
	}
	ns, err := netbridge.OpenNS(filepath.Join(w.netns, name))
	if err != nil {
		return nil, api.Errorf(api.CodeNetNSFailed, "enter the network of agent %s: %w", name, err)
	}
	addr, _ := netip.ParseAddr(place.Address) // an invalid address is not tried
	c, err := (&netbridge.Server{NS: ns, Port: uint16(port), AgentAddr: addr}).Dial(ctx)
	return c, errors.Join(err, ns.Close())
}

// closeProxy closes the proxy and its connections.
func (d *Daemon) closeProxy() error {
	if d.proxy == nil {
		return nil
	}
	return d.proxy.Close()
}

// openProxy starts the proxy that gives the agents' web servers names, if it is configured. Agents
// do not depend on it: polisd continues if it fails.
func (d *Daemon) openProxy(ctx context.Context) {
	if d.Config.Network.Proxy == "" {
		return
	}
	at, err := netip.ParseAddrPort(d.Config.Network.Proxy)
	if err == nil {
		p := &proxy.Proxy{Addr: at, Agents: webAgents{d.agents, d.run.NetNS()}, Log: d.Log}
		if err = p.Open(ctx); err == nil {
			d.proxy = p
			d.agents.PortURL = func(name string, internal int) string { return proxy.URL(name, internal, int(at.Port())) }
			d.Log.Info("agents' web servers have names", "op", "proxy", "path", d.Config.Network.Proxy)
			return
		}
	}
	d.mu.Lock()
	d.warnings = append(d.warnings, "network.proxy = "+d.Config.Network.Proxy+": "+err.Error()+"; agents' web servers have no names until polisd is restarted")
	d.mu.Unlock()
	d.Log.Error("agents' web servers have no names", "op", "proxy", "path", d.Config.Network.Proxy, "err", err)
}
