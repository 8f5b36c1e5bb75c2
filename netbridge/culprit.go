package netbridge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A Culprit drops packets of agents that our rules let pass.
type Culprit struct {
	// Program is who it belongs to: one of the programs below, or "" if it is not a firewall.
	Program string
	// Hook is where, as nftables names it, or "routing"; Place is the table and the chain.
	Hook, Place string
	// Open are the commands that let agents pass.
	Open []string
}

// The firewalls that are distinguished, by the names of their tables and chains.
const (
	Docker    = "Docker"
	Firewalld = "firewalld"
	UFW       = "ufw"
	Iptables  = "iptables"
	NFTables  = "nftables"
)

func (c Culprit) String() string {
	if c.Program == "" {
		return c.Place
	}
	return fmt.Sprintf("%s, in the hook %s: %s", c.Program, c.Hook, c.Place)
}

// A foreign chain may drop packets.
type foreign struct {
	family, table, chain string
	policy               bool // its policy does
	hook                 string
	legacy               bool
}

func (f foreign) String() string {
	words := fmt.Sprintf("table %s %s, chain %s", f.family, f.table, f.chain)
	if f.legacy {
		words = fmt.Sprintf("table %s of iptables-legacy, chain %s", f.table, f.chain)
	}
	if f.policy {
		words += " (its policy)"
	}
	return words
}

// culprit names who drops the packet. What the kernel has reported counts; tables of iptables-legacy, and those that drop
// answers, are not reported and are found by what they have.
func (b *Bridge) culprit(way probeWay) (Culprit, error) {
	conn, err := nftables.New()
	if err != nil {
		return Culprit{}, fmt.Errorf("open nftables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return Culprit{}, fmt.Errorf("list nftables chains: %w", err)
	}
	legacy, err := readLegacy()
	if err != nil {
		return Culprit{}, err
	}
	f := foreign{hook: "forward"}
	switch {
	case way.by != nil:
		f = foreign{family: familyName(way.by.family), table: way.by.table, chain: way.by.chain, policy: way.by.policy, hook: hookOf(chains, *way.by, way)}
	case !way.forwarded && !way.left:
		return Culprit{Hook: "routing", Place: "this host does not route them (a filter for source addresses, a rule, or a route that refuses), or, with br_netfilter, another program clears the marks of packets before routing",
			Open: []string{fmt.Sprintf("ip route get %s from AGENT iif %s", outside()[1], b.names.bridge)}}, nil
	case legacy.exists:
		f = foreign{family: "ip", table: "filter", chain: "FORWARD", policy: legacy.forwardDrops, hook: "forward", legacy: true}
	default:
		drops := forwardDrops(chains)
		if len(drops) == 0 {
			return Culprit{Program: NFTables, Hook: "forward", Place: "a chain that could not be found", Open: []string{"nft list ruleset"}}, nil
		}
		f = drops[0]
	}
	var names []string
	for _, c := range chains {
		if !f.legacy && familyName(byte(c.Table.Family)) == f.family && c.Table.Name == f.table {
			names = append(names, c.Name)
		}
	}
	if f.legacy {
		names = legacy.chains
	}
	program := programOf(f, names)
	return Culprit{Program: program, Hook: f.hook, Place: f.String(), Open: f.open(program, b.names.bridge)}, nil
}

// programOf distinguishes the firewalls by the chains beside the one that drops.
func programOf(f foreign, chains []string) string {
	switch {
	case f.table == "firewalld":
		return Firewalld
	case f.family == "ip" && strings.HasPrefix(f.chain, "ufw-"):
		return UFW
	case f.family == "ip" && f.table == "filter" && slices.Contains(chains, dockerUser):
		return Docker
	case f.family == "ip" && f.table == "filter" && slices.Contains(chains, "ufw-before-forward"):
		return UFW
	case f.legacy, f.family == "ip" && f.table == "filter" && f.chain == "FORWARD":
		return Iptables
	}
	return NFTables
}

// dockerUser is the chain that Docker documents for rules of others. It comes before its own.
const dockerUser = "DOCKER-USER"

// open are commands that let packets of agents pass, in both directions.
func (f foreign) open(program, bridge string) []string {
	const answers = "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
	tables := "iptables"
	if f.legacy {
		tables = "iptables-legacy"
	}
	switch program {
	case Docker:
		return []string{
			fmt.Sprintf("%s -I %s -i %s -j ACCEPT", tables, dockerUser, bridge),
			fmt.Sprintf("%s -I %s -o %s %s", tables, dockerUser, bridge, answers)}
	case Firewalld:
		return []string{fmt.Sprintf("firewall-cmd --permanent --zone=trusted --add-interface=%s", bridge), "firewall-cmd --reload"}
	case UFW:
		return []string{fmt.Sprintf("ufw route allow in on %s", bridge)}
	case Iptables:
		return []string{
			fmt.Sprintf("%s -I %s -i %s -j ACCEPT", tables, f.chain, bridge),
			fmt.Sprintf("%s -I %s -o %s %s", tables, f.chain, bridge, answers)}
	}
	return []string{
		fmt.Sprintf("nft insert rule %s %s %s iifname %s accept", f.family, f.table, f.chain, bridge),
		fmt.Sprintf("nft insert rule %s %s %s oifname %s ct state established,related accept", f.family, f.table, f.chain, bridge)}
}

// hookOf is the hook of a chain, or, if others jump to it, the one that the packet has reached.
func hookOf(chains []*nftables.Chain, t traced, way probeWay) string {
	for _, c := range chains {
		if byte(c.Table.Family) == t.family && c.Table.Name == t.table && c.Name == t.chain && c.Hooknum != nil {
			switch *c.Hooknum {
			case unix.NF_INET_PRE_ROUTING:
				return "prerouting"
			case unix.NF_INET_POST_ROUTING:
				return "postrouting"
			}
		}
	}
	if !way.forwarded {
		return "prerouting"
	}
	return "forward"
}

// forwardDrops are the chains of nftables that drop forwarded IPv4 packets by default. None of ours does.
func forwardDrops(chains []*nftables.Chain) []foreign {
	var out []foreign
	for _, ch := range chains {
		if ch.Table.Family != nftables.TableFamilyIPv4 && ch.Table.Family != nftables.TableFamilyINet {
			continue // hook numbers mean something else there
		}
		if ch.Hooknum != nil && *ch.Hooknum == unix.NF_INET_FORWARD && ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop {
			out = append(out, foreign{family: familyName(byte(ch.Table.Family)), table: ch.Table.Name, chain: ch.Name, policy: true, hook: "forward"})
		}
	}
	return out
}

// ForwardDrops names the tables and chains that drop forwarded packets by default, for hosts where no packet can be
// tested: rules before may accept those of agents.
func ForwardDrops() ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	legacy, err := readLegacy()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range forwardDrops(chains) {
		out = append(out, f.String())
	}
	if legacy.forwardDrops {
		out = append(out, foreign{family: "ip", table: "filter", chain: "FORWARD", policy: true, legacy: true}.String())
	}
	return out, nil
}

func familyName(f byte) string {
	switch nftables.TableFamily(f) {
	case nftables.TableFamilyINet:
		return "inet"
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyNetdev:
		return "netdev"
	case nftables.TableFamilyBridge:
		return "bridge"
	}
	return fmt.Sprintf("family %d", f)
}

// counted is the number of packets of the first counter in a chain of ours.
func counted(table, chain string) (uint64, error) {
	c, err := nftables.New()
	if err != nil {
		return 0, fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: table}
	rules, err := c.GetRules(t, &nftables.Chain{Table: t, Name: chain})
	if err != nil {
		return 0, fmt.Errorf("read the counter of chain %s: %w", chain, err)
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if n, ok := e.(*expr.Counter); ok {
				return n.Packets, nil
			}
		}
	}
	return 0, nil
}
