package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ensure creates the agent's namespace, veth pair, address and routes, or repairs what is
// missing. It is idempotent; an address once assigned stays. If it fails it removes what this
// call created.
//
// A new [Gate] of the agent is closed; an existing one is left unchanged.
func (b *Bridge) Ensure(ctx context.Context, agent string) (Endpoint, error) {
	if err := checkAgent(agent); err != nil {
		return Endpoint{}, err
	}
	var ep Endpoint
	err := b.locked(ctx, func(c *change) (_ bool, err error) {
		ep, err = c.ensureAgent(ctx, agent)
		return false, err
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("network of agent %s: %w", agent, err)
	}
	return ep, nil
}

// netnsFile is the agent's network namespace.
func (c *change) netnsFile(agent string) string { return filepath.Join(c.cfg.NetnsDir, agent) }

func (c *change) ensureAgent(ctx context.Context, agent string) (_ Endpoint, err error) {
	s, err := c.scan()
	if err != nil {
		return Endpoint{}, err
	}
	if s.bridge == nil {
		return Endpoint{}, ErrNotReady
	}
	subnet, ok, err := c.subnet(s)
	if err != nil {
		return Endpoint{}, err
	}
	if !ok {
		return Endpoint{}, fmt.Errorf("%w: %s has no address", ErrNotReady, c.names.bridge)
	}
	if err := os.MkdirAll(c.cfg.NetnsDir, 0o700); err != nil {
		return Endpoint{}, fmt.Errorf("directory for network namespaces: %w", err)
	}
	path := c.netnsFile(agent)
	if err := c.rebind(ctx, agent, s); err != nil {
		return Endpoint{}, err
	}
	ns, created, err := ensureNetNS(path)
	if err != nil {
		return Endpoint{}, err
	}
	defer func() {
		err = errors.Join(err, ns.Close())
		if err != nil && created {
			err = errors.Join(err, removeNetNS(path))
		}
	}()
	if err := ctx.Err(); err != nil {
		return Endpoint{}, context.Cause(ctx)
	}
	p := pair{agent: agent, subnet: subnet, bridge: s.bridge, bridgeMAC: c.names.bridgeMAC(), ns: ns}
	made, err := c.ensurePair(ctx, &p, s)
	if err == nil {
		err = c.connect(ctx, &p, s)
	}
	if err != nil {
		if made {
			err = errors.Join(err, c.deleteLink(p.host))
		}
		return Endpoint{}, err
	}
	return Endpoint{NetNS: path, Addr: p.addr, Gateway: gatewayOf(subnet), Link: p.host.Attrs().Name, Table: c.names.table}, nil
}

// Remove removes the agent's network; a missing network is success. Processes that still live in
// the namespace keep only their loopback interface.
func (b *Bridge) Remove(ctx context.Context, agent string) error {
	if err := checkAgent(agent); err != nil {
		return err
	}
	err := b.locked(ctx, func(c *change) (bool, error) { return false, c.removeAgent(agent) })
	if err != nil {
		return fmt.Errorf("remove network of agent %s: %w", agent, err)
	}
	return nil
}

func (c *change) removeAgent(agent string) error {
	delete(c.opened, agent)
	delete(c.lost, agent)
	s, err := c.scan()
	if err != nil {
		return err
	}
	name := c.names.veth(agent)
	for _, l := range s.halfMade {
		if l.Attrs().Name == name {
			if err := c.deleteLink(l); err != nil {
				return err
			}
		}
	}
	var left []ownVeth
	for _, v := range s.veths {
		if v.alias.agent != agent {
			left = append(left, v)
			continue
		}
		if s.bridge != nil {
			if err := c.forgetNeighbour(s.bridge, v.alias.addr); err != nil {
				return err
			}
		}
		if err := c.deleteLink(v.link); err != nil {
			return err
		}
	}
	if s.bridge != nil && len(left) != len(s.veths) {
		subnet, ok, err := c.subnet(s)
		if err != nil {
			return err
		}
		if ok {
			if err := c.applyRules(subnet, left, name); err != nil {
				return err
			}
		}
	}
	return removeNetNS(c.netnsFile(agent))
}

func (c *change) forgetNeighbour(br netlink.Link, addr netip.Addr) error {
	err := c.nl.NeighDel(&netlink.Neigh{LinkIndex: br.Attrs().Index, Family: unix.AF_INET, IP: addr.AsSlice()})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget neighbour %v: %w", addr, err)
	}
	return nil
}
