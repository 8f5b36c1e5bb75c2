package netbridge

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// gateSize bounds the addresses that are open to an agent by name.
const gateSize = 4096

// maxApplyTries bounds apply while another process changes the table.
const maxApplyTries = 4

// Room for a transaction, in bytes, which goes to the kernel as one message, and
// for its answers, of less than 1 KB for each of the dozen changes of each agent.
const (
	batchBuffer = 8 << 20
	ackBuffer   = 32 << 20
)

// openTables opens nftables with buffers for large transactions: with less room for the answers,
// the kernel applies the transaction but its result is lost.
func openTables() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(ackBuffer), c.SetWriteBuffer(batchBuffer))
	}))
}

// applyRules replaces the instance's table by the plan for these agents; if link is set, only
// that agent's chains and the common ones. Agents whose gates have lost their rules are noted for Repair.
func (c *change) applyRules(subnet netip.Prefix, veths []ownVeth, link string) error {
	conn, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: c.names.table}
	chains, _, err := contents(conn, t)
	if err != nil {
		return err
	}
	emptied, err := isEmptied(conn, t, chains)
	if err != nil {
		return err
	}
	for _, v := range veths {
		name := v.link.Attrs().Name
		if name != link && v.alias.agent != probeAgent && (emptied || !slices.Contains(chains, egressChain(name))) {
			c.lost[v.alias.agent] = true
		}
	}
	if emptied { // all that other agents' chains had is lost, too
		link = ""
	}
	err = plan(c.desired(subnet, veths, chains)).apply(conn, link)
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// The chains of a dormant table cannot be changed together with its flags.
	if k, rerr := readTable(c.names.table); rerr != nil || !k.dormant {
		return errors.Join(err, rerr)
	}
	if err := c.removeTable(); err != nil {
		return err
	}
	return c.applyRules(subnet, veths, link)
}

// desired is the plan's input for these agents. chains are those of the table.
func (c *change) desired(subnet netip.Prefix, veths []ownVeth, chains []string) desired {
	d := desired{table: c.names.table, bridge: c.names.bridge, subnet: subnet, pool: c.cfg.Pool}
	for _, v := range veths {
		name := v.link.Attrs().Name
		d.agents = append(d.agents, desiredAgent{veth: name, addr: v.alias.addr, old: hasOldChains(chains, name), probe: v.alias.agent == probeAgent})
	}
	return d
}

// isEmptied reports whether another program has flushed the table, or deleted its first chain.
func isEmptied(c *nftables.Conn, t *nftables.Table, chains []string) (bool, error) {
	if !slices.Contains(chains, firstChain) {
		return len(chains) > 0, nil
	}
	rules, err := c.GetRules(t, &nftables.Chain{Table: t, Name: firstChain})
	if err != nil {
		return false, fmt.Errorf("list rules: %w", err)
	}
	return len(rules) == 0, nil
}

// apply replaces the chains of the table in one transaction: no packet sees a state between the
// two. Kept chains and sets stay with their content as long as the ruleset has them, and are
// deleted otherwise.
//
// If link is set, only that agent's chains and the common ones are replaced, and missing ones of
// others are added: the time of a transaction grows with its size.
func (rs ruleset) apply(c *nftables.Conn, link string) error {
	var err error
	for range maxApplyTries {
		if err = rs.replace(c, link); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("replace nft table inet %s: %w", rs.table, err)
	}
	return nil
}

func (rs ruleset) replace(c *nftables.Conn, link string) error {
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: rs.table}
	chains, sets, err := contents(c, t)
	if err != nil {
		return err
	}
	there, kept := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Concat(chains, sets) {
		there[name] = true
	}
	var todo ruleset
	for _, ch := range rs.chains {
		if there[ch.name] && (ch.kept || link != "" && ch.link != "" && ch.link != link) {
			kept[ch.name] = true
		} else {
			todo.chains = append(todo.chains, ch)
		}
	}
	for _, s := range rs.sets {
		kept[s] = true
	}
	c.AddTable(t)
	// Rules first: a chain that another rule jumps to cannot be deleted.
	for _, ch := range chains {
		if !kept[ch] {
			c.FlushChain(&nftables.Chain{Table: t, Name: ch})
		}
	}
	for _, ch := range chains {
		if !kept[ch] {
			c.DelChain(&nftables.Chain{Table: t, Name: ch})
		}
	}
	for _, s := range sets {
		if !kept[s] {
			c.DelSet(&nftables.Set{Table: t, Name: s})
		}
	}
	for _, s := range rs.sets {
		if there[s] {
			continue
		}
		if err := c.AddSet(namesOf(t, s), nil); err != nil {
			return err
		}
	}
	todo.fill(c, t)
	return c.Flush()
}

// fill adds the chains, then their rules: a rule may jump to a later chain.
func (rs ruleset) fill(c *nftables.Conn, t *nftables.Table) {
	policy := nftables.ChainPolicyAccept
	for _, ch := range rs.chains {
		nc := &nftables.Chain{Table: t, Name: ch.name, Device: ch.device}
		if ch.hook != "" {
			nc.Type, nc.Policy = ch.kind, &policy
			nc.Hooknum = nftables.ChainHookRef(nftables.ChainHook(ch.hooknum))
			nc.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(ch.prio))
		}
		c.AddChain(nc)
	}
	for _, ch := range rs.chains {
		addRules(c, t, ch.name, ch.rules)
	}
}

func namesOf(t *nftables.Table, name string) *nftables.Set {
	return &nftables.Set{Table: t, Name: name, KeyType: nftables.TypeIPAddr, HasTimeout: true, Size: gateSize}
}

// contents names the chains and sets of a table; a missing table has none.
func contents(c *nftables.Conn, t *nftables.Table) (chains, sets []string, err error) {
	err = retryInterrupted(func() error {
		chains = chains[:0]
		all, err := c.ListChainsOfTableFamily(t.Family)
		for _, ch := range all {
			if ch.Table.Name == t.Name {
				chains = append(chains, ch.Name)
			}
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list chains: %w", err)
	}
	if len(chains) == 0 {
		return nil, nil, nil // also if the table is missing
	}
	all, err := c.GetSets(t)
	if err != nil {
		return nil, nil, fmt.Errorf("list sets: %w", err)
	}
	for _, s := range all {
		sets = append(sets, s.Name)
	}
	return chains, sets, nil
}
