package netbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Fault is something in the kernel that is not as this package made it: another program or an administrator has
// changed it since.
type Fault struct {
	Agent string // "" if all agents share it
	What  string
	// Barrier: it is the filter of the bridge, which some kernels do not have ([ErrNoBarrier]).
	Barrier bool
}

func (f Fault) String() string {
	if f.Agent == "" {
		return f.What
	}
	return "agent " + f.Agent + ": " + f.What
}

// Check compares the kernel's state with the desired one and changes nothing. exists is false if the instance has
// no network: no daemon has made one.
func (b *Bridge) Check(ctx context.Context) (faults []Fault, exists bool, err error) {
	err = b.locked(ctx, func(c *change) (bool, error) {
		s, err := c.scan()
		if err != nil {
			return false, err
		}
		t, err := readTable(c.names.table)
		if err != nil {
			return false, err
		}
		if s.bridge == nil && len(s.veths) == 0 && !t.exists {
			return len(s.others) == 0, nil
		}
		exists = true
		st, err := c.state(s, t)
		if err == nil {
			faults = st.faults
		}
		return false, err
	})
	return faults, exists, err
}

// Exists reports whether a daemon has made the instance's bridge.
func (b *Bridge) Exists() (bool, error) {
	h, err := hostHandle()
	if err != nil {
		return false, err
	}
	defer h.Close()
	s, err := scanLinks(h, b.names.bridge)
	return s.bridge != nil, err
}

// state is the result of one comparison.
type state struct {
	faults []Fault
	// links are the agents whose links need a repair, shared is set if the bridge or the table does.
	links  map[string]bool
	shared bool
	// gates are agents whose gates are not whole, noLink those without a link: their gates go with it.
	gates, noLink []string
	// filled are agents whose gates have rules.
	filled map[string]bool
}

func (st *state) found(agent, what string) {
	st.faults = append(st.faults, Fault{Agent: agent, What: what})
	if agent == "" {
		st.shared = true
	} else {
		st.links[agent] = true
	}
}

// state compares links, addresses, neighbours, settings and rules.
func (c *change) state(s scan, t kernelTable) (*state, error) {
	st := &state{links: map[string]bool{}, filled: map[string]bool{}}
	if s.bridge == nil {
		st.found("", "the bridge "+c.names.bridge+" is gone")
		return st, nil
	}
	subnet, ok, err := c.subnet(s)
	if err != nil {
		return nil, err
	}
	if !ok {
		st.found("", "the bridge "+c.names.bridge+" has lost its address")
		if subnet, ok = c.formerSubnet(s); !ok {
			return st, nil
		}
	}
	if err := c.bridgeState(st, s.bridge); err != nil {
		return nil, err
	}
	// Some hosts ignore routes by a link that has no carrier yet.
	if !st.shared && s.bridge.Attrs().OperState == netlink.OperUp {
		if by, err := c.wayBack(subnet); err != nil {
			return nil, err
		} else if by != c.names.bridge {
			st.found("", fmt.Sprintf("packets to the agents leave by %q, not by the bridge", by))
		}
	}
	if err := c.linkStates(st, s); err != nil {
		return nil, err
	}
	if err := c.missingLinks(st, s); err != nil {
		return nil, err
	}
	var chains []string
	for name := range t.chains {
		chains = append(chains, name)
	}
	if what := plan(c.desired(subnet, s.veths, chains)).differs(t); what != "" {
		st.found("", fmt.Sprintf("the nft table inet %s: %s", c.names.table, what))
	}
	for _, v := range s.veths {
		link := v.link.Attrs().Name
		if !t.gateWhole(link) {
			st.gates = append(st.gates, v.alias.agent)
		}
		st.filled[v.alias.agent] = !t.gateEmpty(link)
	}
	return st, nil
}

func (c *change) bridgeState(st *state, br netlink.Link) error {
	a := br.Attrs()
	if a.Flags&net.FlagUp == 0 {
		st.found("", "the bridge "+a.Name+" is down")
	}
	if !bytes.Equal(a.HardwareAddr, c.names.bridgeMAC()) {
		st.found("", "the bridge "+a.Name+" has another hardware address")
	}
	for _, path := range []string{ipForward, "/proc/sys/net/ipv4/conf/" + a.Name + "/forwarding"} {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read sysctl: %w", err)
		}
		if strings.TrimSpace(string(b)) == "0" {
			st.found("", path+" is 0")
		}
	}
	ok, err := hasBarrier(a.Index)
	if err != nil {
		return err
	}
	if !ok && !c.noBarrier {
		st.found("", "the filter of the bridge "+a.Name+" is gone")
		st.faults[len(st.faults)-1].Barrier = true
	}
	return nil
}

// linkStates compares the host's ends of the agents' links.
func (c *change) linkStates(st *state, s scan) error {
	ports, err := bridgePorts()
	if err != nil {
		return err
	}
	var arp, fdb []netlink.Neigh
	err = retryInterrupted(func() (err error) {
		if arp, err = c.nl.NeighList(s.bridge.Attrs().Index, unix.AF_INET); err != nil {
			return err
		}
		fdb, err = c.nl.NeighList(0, unix.AF_BRIDGE)
		return err
	})
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	known := map[neighbour]bool{}
	for _, n := range arp {
		if a, ok := netip.AddrFromSlice(n.IP); ok && n.State&unix.NUD_PERMANENT != 0 {
			known[neighbour{addr: a.Unmap(), mac: n.HardwareAddr.String()}] = true
		}
	}
	for _, n := range fdb {
		known[neighbour{link: n.LinkIndex, mac: n.HardwareAddr.String()}] = true
	}
	for _, v := range s.veths {
		a, mac := v.link.Attrs(), macFor(v.alias.addr).String()
		port := ports[a.Index]
		for _, f := range []struct {
			bad  bool
			what string
		}{
			{a.MasterIndex != s.bridge.Attrs().Index, "is not attached to the bridge"},
			{a.Flags&net.FlagUp == 0, "is down"},
			{a.MasterIndex == s.bridge.Attrs().Index && !port.isolated, "is not isolated from other agents"},
			{port.learning || port.flood, "learns or floods addresses"},
			{!known[neighbour{link: a.Index, mac: mac}], "has no forwarding entry"},
			{!known[neighbour{addr: v.alias.addr, mac: mac}], "has no neighbour entry"},
		} {
			if f.bad {
				st.found(v.alias.agent, "its link "+a.Name+" "+f.what)
				break // the others follow from it
			}
		}
		if !isMounted(c.netnsFile(v.alias.agent)) {
			st.found(v.alias.agent, "its network namespace is not mounted")
		}
	}
	return nil
}

// neighbour is an entry of the bridge's forwarding table (link), or of the host's table of neighbours (addr).
type neighbour struct {
	link int
	addr netip.Addr
	mac  string
}

// missingLinks finds agents that have a namespace and no link.
func (c *change) missingLinks(st *state, s scan) error {
	files, err := os.ReadDir(c.cfg.NetnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	has := map[string]bool{}
	for _, v := range s.veths {
		has[v.alias.agent] = true
	}
	for _, f := range files {
		if checkAgent(f.Name()) == nil && !has[f.Name()] {
			st.found(f.Name(), "its link is gone")
			st.noLink = append(st.noLink, f.Name())
		}
	}
	return nil
}
