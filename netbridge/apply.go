package netbridge

import (
	"errors"
	"fmt"
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
		for _, r := range ch.rules {
			c.AddRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: ch.name}, Exprs: r.exprs})
		}
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
