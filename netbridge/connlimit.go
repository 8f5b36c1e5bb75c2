package netbridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// overLimitMark is on a packet that would open one connection too many, until it is
// logged.
const overLimitMark = loggedMark + 1

// planConnlimit limits an agent's connections to the outside. The kernel counts the
// entries of its connection tracking table, without those that are only due for removal.
// A packet over the limit is logged and rejected here, not by a jump to the chain
// "refuse": that chain is replaced as agents come and go, this one stays with its count.
func planConnlimit(log string, most uint32) []rule {
	if most == 0 {
		return nil
	}
	return []rule{
		newRule(ctCount(most), comeBack()),
		newRule(notMarked(loggedMark), mark(overLimitMark)),
		newRule(jumpTo(log)),
		newRule(l4tcp(), rejectReset()),
		newRule(rejectProhibited()),
	}
}

// LimitConnections refuses the agent new connections while it has that many; 0 is no
// limit, and no error for an agent that is gone. Connections that exist already are not
// counted. ErrNoConnlimit: the kernel does not count connections, or the agent does not exist.
func (g Gate) LimitConnections(most uint32) error {
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	err = g.replaceChain(c, func(n gateChains) (string, []rule) { return n.connlimit, planConnlimit(n.log, most) })
	switch {
	case err == nil || most == 0 && errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("connections of %s: %w: %w", g.Link, ErrNoConnlimit, err)
	}
	return fmt.Errorf("connections of %s: %w", g.Link, err)
}

// ProbeConnlimit checks that the kernel can count connections, for [Gate.LimitConnections], in the
// calling process's network namespace. It leaves nothing behind. ErrNoConnlimit: it cannot.
func ProbeConnlimit() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "polis_probe"})
	chain := c.AddChain(&nftables.Chain{Name: "count", Table: t})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: ctCount(1).exprs})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoConnlimit, err)
	}
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove the nftables table: %w", err)
	}
	return nil
}

// tableShare is the fraction of the kernel's connection tracking table that one agent may
// use: when the table is full, no program on the machine gets a new connection.
const tableShare = 16

// MostConnections is one agent's share of the connection tracking table, 0 if the kernel
// has no table yet.
func MostConnections() (int, error) {
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("size of the connection tracking table: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("size of the connection tracking table: %w", err)
	}
	return n / tableShare, nil
}

// ctCount matches while there are at most that many connections. A later packet of a
// counted connection is not counted again.
func ctCount(most uint32) part {
	return part{fmt.Sprintf("ct count %d", most), []expr.Any{&expr.Connlimit{Count: most}}}
}

func notMarked(v uint32) part {
	return part{fmt.Sprintf("meta mark != 0x%08x", v), metaCmp(expr.MetaKeyMARK, expr.CmpOpNeq, native32(v))}
}

func mark(v uint32) part {
	return part{fmt.Sprintf("meta mark set 0x%08x", v), []expr.Any{
		&expr.Immediate{Register: 1, Data: native32(v)}, &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1}}}
}
