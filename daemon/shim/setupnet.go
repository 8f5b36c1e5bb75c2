package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"polis/daemon/shim/wire"
	"polis/netbridge"
)

// maxRefusedNames bounds the refused names that the log of a setup command has.
const maxRefusedNames = 50

// setupNetwork is the network of a setup command: the name service and the egress rules of an agent,
// without port maps and questions. A check has none.
type setupNetwork struct {
	ns  *netbridge.NS
	dns *netbridge.DNS

	mu      sync.Mutex
	refused []string
}

// openSetupNetwork opens the network that polisd has made, if the spec has one.
func openSetupNetwork(ctx context.Context, spec wire.Spec, log *slog.Logger) (n *setupNetwork, err error) {
	n = &setupNetwork{}
	if !spec.Check.Setup {
		return n, nil
	}
	if sharedWith(spec).Network {
		return n, openOnly(spec.Settings())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close(ctx))
		}
	}()
	if n.ns, err = netbridge.OpenNS(spec.NetNS); err != nil {
		return n, err
	}
	addr, err := netip.ParseAddr(spec.Address)
	if err != nil {
		return n, fmt.Errorf("address %q: %w", spec.Address, err)
	}
	e, err := reach(spec.Settings())
	if err != nil {
		return n, err
	}
	g := &egressGuard{gate: netbridge.Gate{Table: spec.NetTable, Link: spec.NetLink, Addr: addr}, now: time.Now, named: func(string) {},
		refused: func(a netbridge.Asked, _ netip.Addr, _ string) { n.note(a.Name) }, resolved: map[netip.Addr]*resolved{}}
	if err := g.set(ctx, e); err != nil {
		return n, err
	}
	dns := &netbridge.DNS{NS: n.ns, ResolvConf: spec.ResolvConf, Log: log, Filter: g.filter, Admit: g.admit}
	if err := dns.Open(ctx); err != nil {
		return n, err
	}
	n.dns = dns
	return n, writeResolvConf(spec, netbridge.DNSAddr().Addr().String())
}

func (n *setupNetwork) close(context.Context) error {
	var errs []error
	if n.dns != nil {
		errs = append(errs, n.dns.Close())
	}
	if n.ns != nil {
		errs = append(errs, n.ns.Close())
	}
	return errors.Join(errs...)
}

// note records a refused name.
func (n *setupNetwork) note(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, has := range n.refused {
		if has == name {
			return
		}
	}
	if len(n.refused) < maxRefusedNames {
		n.refused = append(n.refused, name)
	}
}

// report writes the refused names to the log of the command.
func (n *setupNetwork) report(to io.Writer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range n.refused {
		if _, err := fmt.Fprintf(to, "[polis: the egress rules refused the name %q]\n", name); err != nil {
			return err
		}
	}
	return nil
}
