package netbridge

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// kernelTable is what the kernel has of a table of family inet.
type kernelTable struct {
	exists  bool
	dormant bool // none of its chains is in force
	chains  map[string]kernelChain
	sets    map[string]bool
}

type kernelChain struct {
	kind    string // empty without a hook
	hooknum uint32
	prio    int32
	accepts bool     // by its policy
	tags    []string // of its rules, in order; "" for a rule without one
}

// Of linux/netfilter/nf_tables.h.
const (
	tableDormant = 1 // NFT_TABLE_F_DORMANT
	policyAccept = 1 // NF_ACCEPT
)

// maxTableTries bounds readTable while the rules change.
const maxTableTries = 5

var errInterrupted = errors.New("the rules changed while they were read")

// readTable reads a table with the tags of its rules. A missing one is success.
func readTable(name string) (t kernelTable, err error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return t, fmt.Errorf("open nfnetlink: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetReadBuffer(ackBuffer); err != nil {
		return t, fmt.Errorf("open nfnetlink: %w", err)
	}
	for range maxTableTries {
		t = kernelTable{chains: map[string]kernelChain{}, sets: map[string]bool{}}
		if err = t.read(c, name); !errors.Is(err, errInterrupted) {
			break
		}
	}
	if err != nil {
		return t, fmt.Errorf("read nft table inet %s: %w", name, err)
	}
	return t, nil
}

func (t *kernelTable) read(c *netlink.Conn, name string) error {
	for _, part := range []struct {
		kind uint16
		take func(d *netlink.AttributeDecoder) (table string, keep func())
	}{
		{unix.NFT_MSG_GETTABLE, t.takeTable},
		{unix.NFT_MSG_GETCHAIN, t.takeChain},
		{unix.NFT_MSG_GETSET, t.takeSet},
		{unix.NFT_MSG_GETRULE, t.takeRule},
	} {
		// The first attribute of each of these messages is the name of the table. The kernel only
		// selects sets and rules by it.
		attrs, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_TABLE_NAME, Data: append([]byte(name), 0)}})
		if err != nil {
			return err
		}
		msgs, err := c.Execute(netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | part.kind), Flags: netlink.Request | netlink.Dump},
			Data:   append([]byte{unix.NFPROTO_INET, unix.NFNETLINK_V0, 0, 0}, attrs...)})
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
				return errInterrupted
			}
			if len(m.Data) < 4 || m.Data[0] != unix.NFPROTO_INET {
				continue
			}
			d, err := netlink.NewAttributeDecoder(m.Data[4:])
			if err != nil {
				return err
			}
			d.ByteOrder = binary.BigEndian
			table, keep := part.take(d)
			if err := d.Err(); err != nil {
				return err
			}
			if table == name {
				keep()
			}
		}
		if !t.exists {
			return nil
		}
	}
	return nil
}

func (t *kernelTable) takeTable(d *netlink.AttributeDecoder) (table string, keep func()) {
	var flags uint32
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_TABLE_NAME:
			table = d.String()
		case unix.NFTA_TABLE_FLAGS:
			flags = d.Uint32()
		}
	}
	return table, func() { t.exists, t.dormant = true, flags&tableDormant != 0 }
}

func (t *kernelTable) takeChain(d *netlink.AttributeDecoder) (table string, keep func()) {
	var name string
	var c kernelChain
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_CHAIN_TABLE:
			table = d.String()
		case unix.NFTA_CHAIN_NAME:
			name = d.String()
		case unix.NFTA_CHAIN_TYPE:
			c.kind = d.String()
		case unix.NFTA_CHAIN_POLICY:
			c.accepts = d.Uint32() == policyAccept
		case unix.NFTA_CHAIN_HOOK:
			d.Nested(func(h *netlink.AttributeDecoder) error {
				h.ByteOrder = binary.BigEndian
				for h.Next() {
					switch h.Type() {
					case unix.NFTA_HOOK_HOOKNUM:
						c.hooknum = h.Uint32()
					case unix.NFTA_HOOK_PRIORITY:
						c.prio = int32(h.Uint32())
					}
				}
				return nil
			})
		}
	}
	return table, func() { t.chains[name] = c }
}

func (t *kernelTable) takeSet(d *netlink.AttributeDecoder) (table string, keep func()) {
	var name string
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_SET_TABLE:
			table = d.String()
		case unix.NFTA_SET_NAME:
			name = d.String()
		}
	}
	return table, func() { t.sets[name] = true }
}

func (t *kernelTable) takeRule(d *netlink.AttributeDecoder) (table string, keep func()) {
	var chain, tag string
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_RULE_TABLE:
			table = d.String()
		case unix.NFTA_RULE_CHAIN:
			chain = d.String()
		case unix.NFTA_RULE_USERDATA:
			tag = string(d.Bytes())
		}
	}
	return table, func() {
		c := t.chains[chain]
		c.tags = append(c.tags, tag)
		t.chains[chain] = c
	}
}

// differs returns in what a table differs from the plan, in a few words; "" if it does not. Kept chains are
// compared by their presence.
func (rs ruleset) differs(t kernelTable) string {
	switch {
	case !t.exists:
		return "it is gone"
	case t.dormant:
		return "it is dormant"
	}
	wanted := map[string]bool{}
	rules, there := 0, 0
	for _, c := range t.chains {
		rules += len(c.tags)
	}
	for _, c := range rs.chains {
		wanted[c.name] = true
		if _, ok := t.chains[c.name]; ok {
			there++
		}
	}
	if there == 0 || rules == 0 {
		return "it is empty"
	}
	for _, c := range rs.chains {
		k, ok := t.chains[c.name]
		switch {
		case !ok:
			return "chain " + c.name + " is missing"
		case c.kept:
		case string(c.kind) != k.kind || c.hook != "" && (c.hooknum != k.hooknum || c.prio != k.prio || !k.accepts):
			return "chain " + c.name + " is not hooked where it was"
		case len(k.tags) == 0:
			return "chain " + c.name + " is empty"
		case !c.sameRules(k.tags):
			return "the rules of chain " + c.name + " were changed"
		}
	}
	for name := range t.chains {
		if !wanted[name] {
			return "it has another chain, " + name
		}
	}
	for _, s := range rs.sets {
		if !t.sets[s] {
			return "set " + s + " is missing"
		}
	}
	return ""
}

func (c chain) sameRules(tags []string) bool {
	if len(tags) != len(c.rules) {
		return false
	}
	for i, r := range c.rules {
		if tags[i] != string(tagOf(c.name, i, len(c.rules), r.text)) {
			return false
		}
	}
	return true
}

// gateWhole reports whether the rules of an agent's gate are complete. A gate without any is: its shim has not
// opened it. So is that of a shim of an earlier version.
func (t kernelTable) gateWhole(link string) bool {
	n, filled := chainsOf(link), false
	for _, name := range []string{egressChain(link), n.log, n.connlimit} {
		tags := t.chains[name].tags
		if anyTag(tags) && !wholeTags(tags) {
			return false
		}
		filled = filled || anyTag(tags)
	}
	return !filled || !t.gateEmpty(link)
}

// gateEmpty reports whether an agent's gate lets nothing out because it has no rules.
func (t kernelTable) gateEmpty(link string) bool { return len(t.chains[egressChain(link)].tags) == 0 }
