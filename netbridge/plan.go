package netbridge

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// desired is the whole input of plan.
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
	// probe: it is the network of a test packet (forwarding.go), whose gate is open.
	probe bool
	old   bool // the table has its gate's chains of an earlier version ([oldChainsOf])
}

// gates names the agent's chains that its shim fills. Those of an earlier version count beside
// the others: it is the shim's version that decides which of them have rules.
func (a desiredAgent) gates() []gateChains {
	switch {
	case a.probe:
		return nil
	case a.old:
		return []gateChains{chainsOf(a.veth), oldChainsOf(a.veth)}
	}
	return []gateChains{chainsOf(a.veth)}
}

const (
	refuseChain = "refuse"
	firstChain  = "prerouting" // that an agent's packet meets after the one of its link

	// Before and after the chains of other programs.
	forwardFirst, forwardLast, postroutingLast = "forward_first", "forward_last", "postrouting_last"
	firstPriority, lastPriority                = -500, 10000
)

// plan returns what the instance's table should hold. It is pure: the same input gives
// the same rules in the same order.
//
// All chains have policy accept and drop by explicit rules: a base chain whose
// policy is drop would hit the packets of every other program on the machine.
func plan(d desired) ruleset {
	d.agents = slices.Clone(d.agents)
	slices.SortFunc(d.agents, func(a, b desiredAgent) int { return cmp.Compare(a.veth, b.veth) })
	rs := ruleset{table: d.table}
	for _, a := range d.agents {
		if a.probe {
			continue
		}
		rs.sets = append(rs.sets, namesSet(a.veth))
		rs.chains = append(rs.chains, chain{name: egressChain(a.veth), link: a.veth, kept: true})
		for _, n := range a.gates() {
			rs.chains = append(rs.chains, chain{name: n.log, link: a.veth, kept: true}, chain{name: n.connlimit, link: a.veth, kept: true})
		}
	}
	rs.chains = append(rs.chains, planRefuse(d))
	for _, a := range d.agents {
		rs.chains = append(rs.chains, planNew(a))
	}
	rs.chains = append(rs.chains, planPrerouting(d), planInput(d),
		planForwardCount(d, forwardFirst, firstPriority), planForward(d), planForwardCount(d, forwardLast, lastPriority), planPostrouting(d), planPostroutingLast())
	for _, a := range d.agents {
		rs.chains = append(rs.chains, planIngress(a))
	}
	return rs
}

// planRefuse rejects instead of dropping, so that a program in the agent fails at
// once rather than after its time-out.
//
// A refused packet is logged first. The program in the agent waits meanwhile, so
// that it can still be found (see refusals.go).
func planRefuse(d desired) chain {
	c := chain{name: refuseChain}
	for _, a := range d.agents {
		for _, n := range a.gates() {
			c.rules = append(c.rules, newRule(saddr(netip.PrefixFrom(a.addr, 32)), jumpTo(n.log)))
		}
	}
	c.rules = append(c.rules, newRule(l4tcp(), rejectReset()), newRule(rejectProhibited()))
	return c
}

// planPrerouting runs before destination NAT, so that a host service that is published by
// rewriting (a container's port, for example) is not reachable either.
func planPrerouting(d desired) chain {
	c := chain{
		name: firstChain, kind: nftables.ChainTypeFilter, hook: "prerouting",
		hooknum: unix.NF_INET_PRE_ROUTING, prio: -150, prioName: "mangle",
		rules: []rule{
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(saddrNot(d.subnet), drop()),
			newRule(ctEstablished(), accept()),
			newRule(fibNotUnicast(), gotoChain(refuseChain)),
		},
	}
	for _, p := range append(egress.Unreachable(), d.pool, d.subnet) {
		c.rules = append(c.rules, newRule(daddr(p), gotoChain(refuseChain)))
	}
	for _, a := range d.agents {
		c.rules = append(c.rules, newRule(saddr(netip.PrefixFrom(a.addr, 32)), jumpTo(newChain(a.veth))))
	}
	c.rules = append(c.rules, newRule(gotoChain(refuseChain)))
	return c
}

func newChain(veth string) string { return "new_" + veth }

// planNew handles the first packet of an agent's connection. The connlimit chain of its gate
// refuses one connection too many, the egress chain accepts what its policy allows; both return
// for the rest. They are empty until the shim has opened the gate. No rule here may jump to a
// common chain: those are replaced without this one.
func planNew(a desiredAgent) chain {
	c := chain{name: newChain(a.veth), link: a.veth}
	if a.probe {
		c.rules = []rule{newRule(accept())}
		return c
	}
	for _, n := range a.gates() {
		c.rules = append(c.rules, newRule(jumpTo(n.connlimit)))
	}
	c.rules = append(c.rules, newRule(jumpTo(egressChain(a.veth))))
	return c
}

// planInput repeats the rules of prerouting for the host's own addresses: a rule of another table
// may have rewritten the destination in between.
func planInput(d desired) chain {
	return chain{
		name: "input", kind: nftables.ChainTypeFilter, hook: "input",
		hooknum: unix.NF_INET_LOCAL_IN, prio: 0, prioName: "filter",
		rules: []rule{
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(clearMarkBits(linkMark)),
			newRule(ctEstablished(), accept()),
			newRule(gotoChain(refuseChain)),
		},
	}
}

// planForward also lowers the size of segments that both ends of a connection announce to what fits the path: with
// policy routing (VPNs) it may be narrower than any link that the agent knows of, and the messages of routers that tell
// a sender so are often lost.
func planForward(d desired) chain {
	return chain{
		name: "forward", kind: nftables.ChainTypeFilter, hook: "forward",
		hooknum: unix.NF_INET_FORWARD, prio: 0, prioName: "filter",
		rules: []rule{
			newRule(iif(d.bridge), oif(d.bridge), gotoChain(refuseChain)),
			newRule(iif(d.bridge), tcpSyn(), clampMSS()),
			newRule(oif(d.bridge), tcpSyn(), clampMSS()),
			newRule(oif(d.bridge), nfproto6(), drop()),
			newRule(oif(d.bridge), ctEstablished(), accept()),
			newRule(oif(d.bridge), drop()),
			newRule(iifNot(d.bridge), accept()),
			newRule(nfproto6(), drop()),
			newRule(saddrNot(d.subnet), drop()),
			newRule(clearMarkBits(linkMark)),
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

// planForwardCount counts the answers to agents before and after the chains of other programs.
func planForwardCount(d desired, name string, prio int32) chain {
	return chain{
		name: name, kind: nftables.ChainTypeFilter, hook: "forward",
		hooknum: unix.NF_INET_FORWARD, prio: prio, prioName: fmt.Sprint(prio),
		rules: []rule{newRule(oif(d.bridge), ctEstablished(), unusedCounter())},
	}
}

// planPostroutingLast ends the way of a test packet.
func planPostroutingLast() chain {
	return chain{
		name: postroutingLast, kind: nftables.ChainTypeFilter, hook: "postrouting",
		hooknum: unix.NF_INET_POST_ROUTING, prio: lastPriority, prioName: fmt.Sprint(lastPriority),
		rules: []rule{newRule(markedBits(probeMark), drop())},
	}
}

// planIngress is hooked at the agent's own veth, the only place where a packet's sender is
// certain. Its mark opens the barrier of the bridge (barrier.go).
func planIngress(a desiredAgent) chain {
	c := chain{
		name: "from_" + a.veth, link: a.veth, kind: nftables.ChainTypeFilter, hook: "ingress",
		hooknum: nfInetIngress, prio: 0, prioName: "filter", device: a.veth,
		rules: []rule{
			newRule(nfproto6(), drop()),
			newRule(saddrNot(netip.PrefixFrom(a.addr, 32)), drop()),
			newRule(setMarkBits(linkMark)),
		},
	}
	if a.probe {
		c.rules = append(c.rules, newRule(setMarkBits(probeMark)), newRule(traceOn()))
	}
	return c
}
