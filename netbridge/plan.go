package netbridge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// desired is all that the rules depend on.
type desired struct {
	table  string
	bridge string
	subnet netip.Prefix
	pool   netip.Prefix // subnets of other instances lie in here
	agents []desiredAgent
}

type desiredAgent struct {
	veth string
	addr netip.Addr
}

// unroutable is what an agent never has a reason to reach through the host.
// Link-local holds the metadata service of most clouds; the single addresses
// are those of Azure (WireServer), Alibaba and Oracle, which sit elsewhere.
func unroutable() []netip.Prefix {
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

const refuseChain = "refuse"

// plan says what the instance's table holds. It is pure: the same input gives
// the same rules in the same order.
//
// All chains have policy accept and say what they drop: a base chain whose
// policy is drop would hit the packets of every other program on the machine.
func plan(d desired) ruleset {
	rs := ruleset{table: d.table, chains: []chain{
		planRefuse(), planPrerouting(d), planInput(d), planForward(d), planPostrouting(d),
	}}
	agents := slices.Clone(d.agents)
	slices.SortFunc(agents, func(a, b desiredAgent) int { return cmp.Compare(a.veth, b.veth) })
	for _, a := range agents {
		rs.chains = append(rs.chains, planIngress(a))
	}
	return rs
}

// planRefuse answers instead of keeping silent, so that a program in the agent
// fails at once rather than after its time-out.
func planRefuse() chain {
	return chain{name: refuseChain, rules: []rule{
		newRule(l4tcp(), rejectReset()),
		newRule(rejectProhibited()),
	}}
}

// planPrerouting stands before destination NAT, so that a host service that is
// published by rewriting (a container's port, say) is no way round either.
func planPrerouting(d desired) chain {
	c := chain{
		name: "prerouting", kind: nftables.ChainTypeFilter, hook: "prerouting",
		hooknum: unix.NF_INET_PRE_ROUTING, prio: -150, prioName: "mangle",
		rules: []rule{
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(saddrNot(d.subnet), drop()),
			newRule(ctEstablished(), accept()),
			newRule(fibNotUnicast(), gotoChain(refuseChain)),
		},
	}
	for _, p := range append(unroutable(), d.pool, d.subnet) {
		c.rules = append(c.rules, newRule(daddr(p), gotoChain(refuseChain)))
	}
	return c
}

// planInput repeats for the host's own addresses what prerouting said: a rule
// of another table may have rewritten the destination in between.
func planInput(d desired) chain {
	return chain{
		name: "input", kind: nftables.ChainTypeFilter, hook: "input",
		hooknum: unix.NF_INET_LOCAL_IN, prio: 0, prioName: "filter",
		rules: []rule{
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(ctEstablished(), accept()),
			newRule(gotoChain(refuseChain)),
		},
	}
}

func planForward(d desired) chain {
	return chain{
		name: "forward", kind: nftables.ChainTypeFilter, hook: "forward",
		hooknum: unix.NF_INET_FORWARD, prio: 0, prioName: "filter",
		rules: []rule{
			newRule(iif(d.bridge), oif(d.bridge), gotoChain(refuseChain)),
			newRule(oif(d.bridge), nfproto6(), drop()),
			newRule(oif(d.bridge), ctEstablished(), accept()),
			newRule(oif(d.bridge), drop()),
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(saddrNot(d.subnet), drop()),
		},
	}
}

func planPostrouting(d desired) chain {
	return chain{
		name: "postrouting", kind: nftables.ChainTypeNAT, hook: "postrouting",
		hooknum: unix.NF_INET_POST_ROUTING, prio: 100, prioName: "srcnat",
		rules: []rule{newRule(saddr(d.subnet), oifNot(d.bridge), masquerade())},
	}
}

// planIngress stands at the agent's own veth, the one place that knows for sure
// who sent a packet.
func planIngress(a desiredAgent) chain {
	return chain{
		name: "from_" + a.veth, kind: nftables.ChainTypeFilter, hook: "ingress",
		hooknum: nfInetIngress, prio: 0, prioName: "filter", device: a.veth,
		rules: []rule{
			newRule(nfproto6(), drop()),
			newRule(saddrNot(netip.PrefixFrom(a.addr, 32)), drop()),
		},
	}
}
