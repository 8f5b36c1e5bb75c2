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

func countChain(veth string) string { return "count_" + veth }

// crowdedMark is on a packet that would be one connection too many, until it was
// told of.
const crowdedMark = toldMark + 1

// planCount bounds an agent's connections to the outside. The kernel counts those
// that its table has, but none that is only waiting to be forgotten. What is too
// much is refused here, as the chain "refuse" does: that one is made anew as
// agents come and go, and this one stays, with its count.
func planCount(link string, most uint32) []rule {
	if most == 0 {
		return nil
	}
	return []rule{
		newRule(ctCount(most), comeBack()),
		newRule(notMarked(toldMark), mark(crowdedMark)),
		newRule(jumpTo(tellChain(link))),
		newRule(l4tcp(), rejectReset()),
		newRule(rejectProhibited()),
	}
}

// Bound has the agent get no new connection while it has as many; 0 is no bound,
// and no error for an agent that is gone. Connections that there are already do
// not count from then on. ErrNoCount: this kernel counts none, or there is no such
// agent.
func (g Gate) Bound(most uint32) error {
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	ch := &nftables.Chain{Table: t, Name: countChain(g.Link)}
	c.FlushChain(ch)
	for _, r := range planCount(g.Link, most) {
		c.AddRule(&nftables.Rule{Table: t, Chain: ch, Exprs: r.exprs})
	}
	err = c.Flush()
	switch {
	case err == nil || most == 0 && errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("connections of %s: %w: %w", g.Link, ErrNoCount, err)
	}
	return fmt.Errorf("connections of %s: %w", g.Link, err)
}

// ProbeCount says whether connections can be counted, for [Gate.Bound], in the
// calling process's network namespace. It leaves nothing. ErrNoCount: they cannot.
func ProbeCount() error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "polis_probe"})
	chain := c.AddChain(&nftables.Chain{Name: "count", Table: t})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: ctCount(1).exprs})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoCount, err)
	}
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove the nftables table: %w", err)
	}
	return nil
}

// tableShare is the part of the kernel's table of connections that one agent may
// have at most: when it is full, nobody on the machine gets a new connection.
const tableShare = 16

// MostConnections is that part, 0 if the kernel has no table yet.
func MostConnections() (int, error) {
	b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("size of the table of connections: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("size of the table of connections: %w", err)
	}
	return n / tableShare, nil
}

// ctCount matches while there are no more connections than most. A packet of one
// that is counted counts no further.
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
