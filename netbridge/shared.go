package netbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// EnsureShared brings the bridge with its address, the nft table and IPv4 forwarding to the
// desired state, and removes half-made links. It is idempotent and keeps every existing agent.
func (b *Bridge) EnsureShared(ctx context.Context) error {
	return b.locked(ctx, func(c *change) (bool, error) { return false, c.ensureShared() })
}

func (c *change) ensureShared() error {
	s, err := c.scan()
	if err != nil {
		return err
	}
	if s.foreign {
		return fmt.Errorf("bridge %s: %w", c.names.bridge, ErrForeignLink)
	}
	for _, l := range s.halfMade {
		c.log.Warn("removing a half-made link", "op", "net.shared", "link", l.Attrs().Name)
		if err := c.deleteLink(l); err != nil {
			return err
		}
	}
	br := s.bridge
	if br == nil {
		if br, err = c.addBridge(); err != nil {
			return err
		}
	}
	if err := c.setUpBridge(br, s); err != nil {
		if s.bridge == nil { // only undo what this call made
			err = errors.Join(err, c.deleteLink(br))
		}
		return err
	}
	return nil
}

func (c *change) addBridge() (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = c.names.bridge
	attrs.HardwareAddr = c.names.bridgeMAC()
	snoop := false
	if err := c.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snoop}); err != nil {
		return nil, fmt.Errorf("add bridge %s: %w", c.names.bridge, err)
	}
	br, err := c.nl.LinkByName(c.names.bridge)
	if err != nil {
		return nil, fmt.Errorf("find bridge %s: %w", c.names.bridge, err)
	}
	c.log.Info("bridge added", "op", "net.shared", "link", c.names.bridge)
	return br, nil
}

// setUpBridge brings the bridge up last, so that no unfiltered packet passes it.
func (c *change) setUpBridge(br netlink.Link, s scan) error {
	if br.Attrs().Alias == "" {
		if err := c.nl.LinkSetAlias(br, s.mark.String()); err != nil {
			return fmt.Errorf("alias of %s: %w", c.names.bridge, err)
		}
	}
	if mac := c.names.bridgeMAC(); !bytes.Equal(br.Attrs().HardwareAddr, mac) {
		if err := c.nl.LinkSetHardwareAddr(br, mac); err != nil {
			return fmt.Errorf("hardware address of %s: %w", c.names.bridge, err)
		}
	}
	mtu, err := c.uplinkMTU()
	if err != nil {
		return err
	}
	if err := setMTU(c.nl, br, mtu); err != nil {
		return err
	}
	s.bridge = br
	subnet, err := c.ownSubnet(s)
	if err != nil {
		return err
	}
	if err := hardenLink(c.names.bridge); err != nil {
		return err
	}
	gw := &netlink.Addr{IPNet: ipNet(gatewayOf(subnet), subnet.Bits())}
	if err := c.nl.AddrReplace(br, gw); err != nil {
		return fmt.Errorf("address %v on %s: %w", gw.IPNet, c.names.bridge, err)
	}
	if err := c.applyRules(subnet, s.veths, ""); err != nil {
		return err
	}
	// After the rules: those of an earlier version set no mark.
	if err := c.raiseBarrier(br); err != nil {
		return err
	}
	if err := c.forwardOn(br, s.mark); err != nil {
		return err
	}
	if err := c.nl.LinkSetUp(br); err != nil {
		return fmt.Errorf("bring up %s: %w", c.names.bridge, err)
	}
	if br.Attrs().OperState == netlink.OperUp {
		if err := c.ensureWayBack(subnet); err != nil {
			return err
		}
	}
	return nil
}

// raiseBarrier ensures the barrier, on a kernel that has one.
func (c *change) raiseBarrier(br netlink.Link) error {
	err := ensureBarrier(c.nl, br)
	if !errors.Is(err, ErrNoBarrier) {
		c.noBarrier = false
		return err
	}
	if !c.noBarrier {
		c.noBarrier = true
		c.log.Warn("agents are open whenever the nft table is lost, until it is back", "op", "net.shared", "link", c.names.bridge, "err", err)
	}
	return nil
}

// ownSubnet is the subnet that the bridge has, has had, or gets.
func (c *change) ownSubnet(s scan) (netip.Prefix, error) {
	subnet, ok, err := c.subnet(s)
	if err != nil || ok {
		return subnet, err
	}
	if former, ok := c.formerSubnet(s); ok {
		return former, nil
	}
	return c.chooseSubnet(s.bridge)
}

// RemoveShared removes the bridge, the table and any agents that are left, and turns ip_forward
// off if we turned it on and no other polis network needs it. A missing network is success.
func (b *Bridge) RemoveShared(ctx context.Context) error {
	return b.locked(ctx, func(c *change) (bool, error) { return c.removeShared() })
}

func (c *change) removeShared() (last bool, err error) {
	s, err := c.scan()
	if err != nil {
		return false, err
	}
	for _, v := range s.veths {
		c.log.Warn("removing an agent's link together with the bridge", "agent", v.alias.agent, "op", "net.shared", "link", v.link.Attrs().Name)
		if err := c.deleteLink(v.link); err != nil {
			return false, err
		}
	}
	if err := c.removeNetnsDir(); err != nil {
		return false, err
	}
	if s.bridge != nil {
		if err := c.forwardOff(s); err != nil {
			return false, err
		}
		if subnet, ok, err := c.subnet(s); err == nil && ok {
			if err := c.removeWayBack(subnet); err != nil {
				return false, err
			}
		}
		if err := c.deleteLink(s.bridge); err != nil {
			return false, err
		}
		c.log.Info("bridge removed", "op", "net.shared", "link", c.names.bridge)
	}
	c.last = netip.Prefix{}
	clear(c.lost)
	clear(c.doubtful)
	// The rules are removed last: with a bridge and no rules, agents would be open.
	if err := c.removeTable(); err != nil {
		return false, err
	}
	return len(s.others) == 0, nil
}

func (c *change) removeTable() error {
	conn, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: c.names.table}
	conn.AddTable(t) // the deletion fails without a table
	conn.DelTable(t)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete nft table inet %s: %w", c.names.table, err)
	}
	return nil
}

func (c *change) removeNetnsDir() error {
	files, err := os.ReadDir(c.cfg.NetnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	for _, f := range files {
		if checkAgent(f.Name()) != nil {
			continue // not a name of an agent
		}
		if err := removeNetNS(filepath.Join(c.cfg.NetnsDir, f.Name())); err != nil {
			return err
		}
	}
	if err := os.Remove(c.cfg.NetnsDir); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove directory for network namespaces: %w", err)
	}
	return nil
}
