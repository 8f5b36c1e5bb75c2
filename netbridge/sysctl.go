package netbridge

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vishvananda/netlink"
)

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// setSysctl writes a value unless it is set already, and reports whether it wrote. /proc/sys/net
// shows the network namespace of the thread that opens the file.
func setSysctl(path, value string) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("read sysctl: %w", err)
	}
	if string(bytes.TrimSpace(old)) == value {
		return false, nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return false, fmt.Errorf("write sysctl: %w", err)
	}
	return true, nil
}

// setSysctls writes several; a missing file (a kernel without IPv6) is success.
func setSysctls(pairs [][2]string) error {
	for _, p := range pairs {
		if _, err := setSysctl(p[0], p[1]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// hardenLink disables IPv6 on one of our own links and restricts its ARP answers to its own
// address, so that agents do not learn the host's other addresses.
func hardenLink(name string) error {
	v4, v6 := "/proc/sys/net/ipv4/conf/"+name+"/", "/proc/sys/net/ipv6/conf/"+name+"/"
	return setSysctls([][2]string{
		{v6 + "disable_ipv6", "1"},
		{v4 + "arp_ignore", "1"},
		{v4 + "send_redirects", "0"},
		{v4 + "accept_redirects", "0"},
		{v4 + "rp_filter", "1"},
	})
}

// forwardOn makes the host route between the bridge and the world. Packets that
// come back enter at another link, so the bridge's own setting is not enough.
// The mark in the alias is written first: a crash in between costs at most one
// needless reset, never a host that stays a router.
func (c *change) forwardOn(br netlink.Link, mark bridgeAlias) error {
	now, err := os.ReadFile(ipForward)
	if err != nil {
		return fmt.Errorf("read sysctl: %w", err)
	}
	if string(bytes.TrimSpace(now)) != "1" {
		mark.forwardSet = true
		if err := c.nl.LinkSetAlias(br, mark.String()); err != nil {
			return fmt.Errorf("alias of %s: %w", c.names.bridge, err)
		}
		if _, err := setSysctl(ipForward, "1"); err != nil {
			return err
		}
		c.log.Warn("turned on IPv4 forwarding on this host; it is turned off again when the agents' network is removed",
			"op", "net.shared", "path", ipForward)
	}
	_, err = setSysctl("/proc/sys/net/ipv4/conf/"+c.names.bridge+"/forwarding", "1")
	return err
}

// forwardOff undoes forwardOn. If another instance lives, the mark passes to it instead.
func (c *change) forwardOff(s scan) error {
	if !s.mark.forwardSet {
		return nil
	}
	if len(s.others) > 0 {
		heir := s.others[0]
		if err := c.nl.LinkSetAlias(heir, bridgeAlias{forwardSet: true}.String()); err != nil {
			return fmt.Errorf("alias of %s: %w", heir.Attrs().Name, err)
		}
		return nil
	}
	if _, err := setSysctl(ipForward, "0"); err != nil {
		return err
	}
	c.log.Info("turned off IPv4 forwarding on this host again", "op", "net.shared", "path", ipForward)
	return nil
}
