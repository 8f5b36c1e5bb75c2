package netbridge

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// subnetBits is the size of an instance's share: 1021 agents and a gateway.
const subnetBits = 22

// DefaultPool is where instances take their subnets from unless configured.
func DefaultPool() netip.Prefix { return netip.MustParsePrefix("10.213.0.0/16") }

// checkPool requires an IPv4 prefix with room for a gateway and an agent.
func checkPool(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is4() || p.Bits() > 30 || p.Bits() < 8 {
		return fmt.Errorf("address pool %v: want an IPv4 prefix between /8 and /30", p)
	}
	return nil
}

// broadest is the length of the shortest route that says where a network is. Shorter ones are parts of a default
// route: VPNs divide it, so that theirs are more specific than the host's.
const broadest = 8

// freeSubnet is the first share of the pool that overlaps nothing taken.
func freeSubnet(pool netip.Prefix, taken []netip.Prefix) (netip.Prefix, error) {
	pool = pool.Masked()
	bits := max(pool.Bits(), subnetBits)
	count := uint32(1) << (bits - pool.Bits())
	for i := range count {
		s := netip.PrefixFrom(addrAt(pool, i<<(32-bits)), bits)
		if !overlapsAny(s, taken) {
			return s, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("%w: %v: set network.pool to another one, such as 172.31.0.0/16; these of the host overlap it: %s", ErrNoSubnet, pool, overlapping(pool, taken))
}

func overlapsAny(p netip.Prefix, taken []netip.Prefix) bool {
	for _, t := range taken {
		if t.IsValid() && t.Bits() >= broadest && p.Overlaps(t) {
			return true
		}
	}
	return false
}

// overlapping lists some of what overlaps the pool.
func overlapping(pool netip.Prefix, taken []netip.Prefix) string {
	const most = 5
	var words []string
	for _, t := range taken {
		if overlapsAny(pool, []netip.Prefix{t}) && !slices.Contains(words, t.String()) {
			if len(words) == most {
				words = append(words, "and others")
				break
			}
			words = append(words, t.String())
		}
	}
	return strings.Join(words, ", ")
}

// gatewayOf is the first usable address: the bridge's own.
func gatewayOf(subnet netip.Prefix) netip.Addr { return addrAt(subnet.Masked(), 1) }

// freeAddr picks an agent's address. The search starts at a place derived from the name: an agent
// that is added again gets its old address, and a new one hardly ever inherits the connection
// tracking entries of another.
func freeAddr(subnet netip.Prefix, agent string, taken map[netip.Addr]bool) (netip.Addr, error) {
	subnet = subnet.Masked()
	hosts := uint32(1)<<(32-subnet.Bits()) - 3 // network, gateway, broadcast
	h := fnv.New32a()
	_, _ = h.Write([]byte(agent)) // a hash never fails
	start := h.Sum32() % hosts
	for i := range hosts {
		if a := addrAt(subnet, 2+(start+i)%hosts); !taken[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %v", ErrNoAddress, subnet)
}

func addrAt(p netip.Prefix, offset uint32) netip.Addr {
	base := p.Addr().As4()
	var out [4]byte
	binary.BigEndian.PutUint32(out[:], binary.BigEndian.Uint32(base[:])+offset)
	return netip.AddrFrom4(out)
}

func ipNet(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if a = a.Unmap(); !ok || bits == 0 || !a.Is4() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, ones), true
}
