package egress

import (
	"fmt"
	"net/netip"
)

// Unreachable is what no agent may reach through the host, whatever its policy. Link-local holds
// the metadata service of most clouds; the single addresses are those of Azure (WireServer),
// Alibaba and Oracle, which are elsewhere.
func Unreachable() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("168.63.129.16/32"),
		netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("192.0.0.192/32"),
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("224.0.0.0/4"),
		netip.MustParsePrefix("240.0.0.0/4"),
	}
}

// Private is the address space of private networks: RFC 1918, and RFC 6598 (carriers, and overlay
// networks such as Tailscale's).
func Private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"),
	}
}

// Closed are the private networks without those that are allowed.
func Closed(allowed []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range Private() {
		out = append(out, subtract(p, allowed)...)
	}
	return out
}

// subtract is p without what the others cover, as few prefixes in order.
func subtract(p netip.Prefix, others []netip.Prefix) []netip.Prefix {
	cut := false
	for _, o := range others {
		if o = o.Masked(); o.Bits() <= p.Bits() && o.Contains(p.Addr()) {
			return nil
		}
		cut = cut || p.Overlaps(o)
	}
	if !cut {
		return []netip.Prefix{p}
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	b := p.Addr().As4()
	b[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	high := netip.PrefixFrom(netip.AddrFrom4(b), p.Bits()+1)
	return append(subtract(low, others), subtract(high, others)...)
}

// ParsePrivate reads a list of private networks that agents may reach.
func ParsePrivate(list []string) ([]netip.Prefix, error) {
	if len(list) > MaxEntries {
		return nil, fmt.Errorf("has %d entries: at most %d", len(list), MaxEntries)
	}
	var out []netip.Prefix
	for _, s := range list {
		p, isNet, err := parseNet(s)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", shorten(s), err)
		}
		if !isNet || !within(p, Private()) {
			return nil, fmt.Errorf("%q: must be a network, or a part of one, of 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 or 192.168.0.0/16", shorten(s))
		}
		out = append(out, p)
	}
	return out, nil
}

// Answerable reports whether an address may be part of an answer for a name: one that the rules
// would refuse is left out, so that no name of the internet points into a private network, at the
// host or at a metadata service (DNS rebinding). Loopback and 0.0.0.0 are the agent's own, and
// pass.
func Answerable(a netip.Addr, allowed, own []netip.Prefix) bool {
	a = a.Unmap()
	switch {
	case !a.Is4():
		return false
	case a.IsLoopback() || a.IsUnspecified():
		return true
	case contains(Unreachable(), a) || contains(own, a):
		return false
	}
	return !contains(Private(), a) || contains(allowed, a)
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func within(p netip.Prefix, list []netip.Prefix) bool {
	for _, o := range list {
		if o.Bits() <= p.Bits() && o.Contains(p.Addr()) {
			return true
		}
	}
	return false
}
