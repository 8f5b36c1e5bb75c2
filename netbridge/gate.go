package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

func egressChain(veth string) string { return "egress_" + veth }
func namesSet(veth string) string    { return "names_" + veth }

// Egress is which packets of an agent may leave.
type Egress struct {
	Policy egress.Policy
	// Private are the private networks that may be reached; none if empty.
	Private []netip.Prefix
}

// Gate is the part of the rules that belongs to one agent: the destinations its policy accepts,
// the addresses its resolver returned for allowed names, and its limit of connections. It is
// closed until Set.
//
// The rules around it stay in force: no policy opens the host, another agent, a link-local or a
// metadata address.
type Gate struct {
	Table string     // nftables table, family inet: [Bridge.Table]
	Link  string     // host end of the agent's veth pair: [Endpoint].Link
	Addr  netip.Addr // the agent's
}

// Gate returns the gate of an agent, by its name and address.
func (b *Bridge) Gate(agent string, addr netip.Addr) Gate {
	return Gate{Table: b.names.table, Link: b.names.veth(agent), Addr: addr}
}

// planEgress is the egress chain of an agent. It accepts, or returns to its caller.
func planEgress(link string, e Egress) []rule {
	var rules []rule
	for _, p := range egress.Closed(e.Private) {
		rules = append(rules, newRule(daddr(p), comeBack()))
	}
	if e.Policy.Open() {
		return append(rules, newRule(accept()))
	}
	opened := newRule(inSet(namesSet(link)), accept())
	asked := e.Policy.AskedNets()
	if len(asked) > 0 { // they are part of listed ones, and open only once they are approved
		rules = append(rules, opened)
		for _, p := range asked {
			rules = append(rules, newRule(daddr(p), comeBack()))
		}
	}
	for _, p := range e.Policy.Nets() {
		rules = append(rules, newRule(daddr(p), accept()))
	}
	if e.Policy.Listed() && len(asked) == 0 {
		rules = append(rules, opened)
	}
	if len(rules) == 0 { // a gate without rules is one that nobody has set
		return []rule{newRule(comeBack())}
	}
	return rules
}

// Set puts a policy in force. Existing connections that the policy no longer allows are cut. Of
// the addresses that were opened by name those in keep stay, each for its duration; the others
// are closed. All rules change in one transaction. Connections to addresses for which spare
// returns true continue, although no new one can be made; a nil spare spares none.
func (g Gate) Set(ctx context.Context, e Egress, keep map[netip.Addr]time.Duration, spare func(netip.Addr) bool) error {
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	set := namesOf(t, namesSet(g.Link))
	c.FlushChain(&nftables.Chain{Table: t, Name: egressChain(g.Link)})
	addRules(c, t, egressChain(g.Link), planEgress(g.Link, e))
	c.FlushSet(set)
	// A message has room for some two thousand elements.
	for part := range slices.Chunk(elements(keep), 1000) {
		if err := c.SetAddElements(set, part); err != nil {
			return fmt.Errorf("egress of %s: %w", g.Link, err)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("egress of %s in nft table inet %s: %w", g.Link, g.Table, err)
	}
	return g.cut(ctx, func(a netip.Addr) bool {
		if !egress.Answerable(a, e.Private, nil) {
			return false
		}
		_, kept := keep[a]
		return kept || e.Policy.Addr(a) || spare != nil && spare(a)
	})
}

// Lost reports whether the gate has no rules: nobody has set it, or another program has removed them. It is closed
// then.
func (g Gate) Lost() (bool, error) {
	c, err := openTables()
	if err != nil {
		return false, fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	rules, err := c.GetRules(t, &nftables.Chain{Table: t, Name: egressChain(g.Link)})
	if err != nil {
		return false, fmt.Errorf("read the egress of %s: %w", g.Link, err)
	}
	return len(rules) == 0, nil
}

// Allow opens addresses for a time, at least a second, before it returns. Addresses that may be
// open already belong in renew: they get the new time, which costs the kernel some milliseconds
// more.
func (g Gate) Allow(fresh, renew map[netip.Addr]time.Duration) error {
	if len(fresh)+len(renew) == 0 {
		return nil
	}
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	set := namesOf(&nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}, namesSet(g.Link))
	if els := elements(renew); len(els) > 0 {
		// Only a new element gets a new time-out, and only an existing one can be deleted.
		if err := errors.Join(c.SetAddElements(set, els), c.SetDeleteElements(set, els), c.SetAddElements(set, els)); err != nil {
			return fmt.Errorf("open addresses for %s: %w", g.Link, err)
		}
	}
	if els := elements(fresh); len(els) > 0 {
		if err := c.SetAddElements(set, els); err != nil {
			return fmt.Errorf("open addresses for %s: %w", g.Link, err)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("open addresses for %s: %w", g.Link, err)
	}
	return nil
}

func elements(addrs map[netip.Addr]time.Duration) []nftables.SetElement {
	out := make([]nftables.SetElement, 0, len(addrs))
	for a, d := range addrs {
		out = append(out, nftables.SetElement{Key: a.Unmap().AsSlice(), Timeout: max(d, time.Second)})
	}
	return out
}

// cut deletes the agent's connection tracking entries for destinations that are not allowed:
// their next packet counts as new, and is refused.
func (g Gate) cut(ctx context.Context, allowed func(netip.Addr) bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	h, err := netlink.NewHandle(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open conntrack: %w", err)
	}
	defer h.Close()
	err = retryInterrupted(func() error {
		_, err := h.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, flows(func(f *netlink.ConntrackFlow) bool {
			src, ok1 := netip.AddrFromSlice(f.Forward.SrcIP)
			dst, ok2 := netip.AddrFromSlice(f.Forward.DstIP)
			return ok1 && ok2 && src.Unmap() == g.Addr && !allowed(dst.Unmap())
		}))
		return err
	})
	// A flow that ended meanwhile needs no deletion.
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cut connections of %s: %w", g.Link, err)
	}
	return nil
}

type flows func(*netlink.ConntrackFlow) bool

func (f flows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool { return f(flow) }
