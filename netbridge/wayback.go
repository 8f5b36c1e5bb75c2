package netbridge

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// rulePriority is before the rules of VPNs that take over the default route (Tailscale's begin at 5200).
const rulePriority = 4213

// wayBack is the link that the host's packets to agents leave by: the bridge, unless a rule of policy routing leads
// elsewhere, as that of a Tailscale exit node does. "" if they have no way.
func (c *change) wayBack(subnet netip.Prefix) (string, error) {
	return c.linkTo(addrAt(subnet.Masked(), 2).AsSlice())
}

// ensureWayBack adds a rule for the subnet if others would lead packets to agents elsewhere. Without need there is
// none: the first rule of a host costs each of its packets some time.
func (c *change) ensureWayBack(subnet netip.Prefix) error {
	by, err := c.wayBack(subnet)
	if err != nil || by == c.names.bridge {
		return err
	}
	if err := c.nl.RuleAdd(ruleTo(subnet)); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("rule for packets to %v: %w", subnet, err)
	}
	c.log.Warn("packets to agents would leave by another link; a rule of policy routing leads them back", "op", "net.shared",
		"link", by, "subnet", subnet.String(), "priority", rulePriority)
	return nil
}

func ruleTo(subnet netip.Prefix) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table, r.Dst = netlink.FAMILY_V4, rulePriority, unix.RT_TABLE_MAIN, ipNet(subnet.Addr(), subnet.Bits())
	return r
}

// removeWayBack removes the rule; a missing one is success.
func (c *change) removeWayBack(subnet netip.Prefix) error {
	if err := c.nl.RuleDel(ruleTo(subnet)); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("remove the rule for packets to %v: %w", subnet, err)
	}
	return nil
}
