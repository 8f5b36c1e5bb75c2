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

	"polis/daemon/api/wire"
	"polis/netbridge"
)

// maxRefusedNames bounds the refused names that the log of a setup command has.
const maxRefusedNames = 50

// setupNetwork is the network of a setup command: the name service and the egress rules of an agent,
// without port maps and questions. A check has none.
type setupNetwork struct {
	ns  *netbridge.NS
	dns *netbridge.DNS
	// stop ends watch.
	stop  context.CancelFunc
	watch sync.WaitGroup

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
		return n, openOnly(spec.Settings)
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
	e, err := reach(spec.Settings)
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
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = cancel
	n.watch.Go(func() { n.keepGate(wctx, g, log) })
	return n, writeResolvConf(spec, netbridge.DNSAddr().Addr().String())
}

// gateEvery is how often a setup command's gate is read: its shim has no socket that polisd could send a request to.
const gateEvery = time.Second

// keepGate fills the gate again whenever another program has emptied it.
func (n *setupNetwork) keepGate(ctx context.Context, g *egressGuard, log *slog.Logger) {
	tick := time.NewTicker(gateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// Without the chains there is nothing to fill: polisd restores them.
		if lost, err := g.gate.Lost(); err == nil && lost {
			err := g.set(ctx, g.egress())
			log.Warn("rules of the command's network were removed, and are written again", "op", "net.gate", "err", err)
		}
	}
}

func (n *setupNetwork) close(context.Context) error {
	var errs []error
	if n.stop != nil {
		n.stop()
		n.watch.Wait()
	}
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
