package netbridge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// gateChains names the chains of a gate that its shim fills, beside the egress chain.
type gateChains struct{ log, connlimit string }

func chainsOf(veth string) gateChains { return gateChains{"log_" + veth, "connlimit_" + veth} }

// oldChainsOf has the names of earlier versions. A shim of such a version knows no others, and
// outlives the restart of polisd.
func oldChainsOf(veth string) gateChains { return gateChains{"tell_" + veth, "count_" + veth} }

// hasOldChains reports whether a table has chains for a shim of an earlier version. They go
// with the agent's link.
func hasOldChains(chains []string, veth string) bool {
	old := oldChainsOf(veth)
	return slices.Contains(chains, old.log) && slices.Contains(chains, old.connlimit)
}

// replaceChain replaces the rules of one chain of the gate in one transaction, then empties
// the one of the old name. A table without the new name was made by a polisd of an earlier
// version: then the rules go to the chain of the old name. ENOENT: neither exists.
func (g Gate) replaceChain(c *nftables.Conn, plan func(gateChains) (name string, rules []rule)) error {
	name, rules := plan(chainsOf(g.Link))
	oldName, oldRules := plan(oldChainsOf(g.Link))
	err := g.fillChain(c, name, rules)
	if errors.Is(err, unix.ENOENT) {
		return g.fillChain(c, oldName, oldRules)
	}
	if err != nil {
		return err
	}
	if err := g.fillChain(c, oldName, nil); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("empty chain %s: %w", oldName, err)
	}
	return nil
}

func (g Gate) fillChain(c *nftables.Conn, name string, rules []rule) error {
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	c.FlushChain(&nftables.Chain{Table: t, Name: name})
	addRules(c, t, name, rules)
	return c.Flush()
}
