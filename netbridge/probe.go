package netbridge

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
)

// Probe tries what agents' networks consist of, in the calling process's network namespace: a
// bridge, a veth pair, a table with address translation. It is meant for a namespace that ends
// with the process, and still removes what it created.
func Probe(ctx context.Context) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	h, err := hostHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	for _, l := range []netlink.Link{
		&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "plprobe0"}},
		&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "plprobe1"}, PeerName: "plprobe2"},
	} {
		if err := h.LinkAdd(l); err != nil {
			return fmt.Errorf("make a %s: %w", l.Type(), err)
		}
		defer func() {
			if derr := h.LinkDel(l); derr != nil {
				err = errors.Join(err, fmt.Errorf("remove a %s: %w", l.Type(), derr))
			}
		}()
	}
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "polis_probe"})
	chain := c.AddChain(&nftables.Chain{Name: "nat", Table: t, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("load an nftables table with address translation: %w", err)
	}
	c.DelTable(t)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove the nftables table: %w", err)
	}
	return nil
}

// ProbeBarrier checks that the kernel can filter at a bridge without nftables, in the calling process's network
// namespace, which should end with the process. ErrNoBarrier: it cannot.
func ProbeBarrier() (err error) {
	h, err := hostHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "plprobe0"
	if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	br, err := h.LinkByName(attrs.Name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", attrs.Name, err)
	}
	err = ensureBarrier(h, br)
	if derr := h.LinkDel(br); derr != nil {
		err = errors.Join(err, fmt.Errorf("remove a bridge: %w", derr))
	}
	return err
}

// ProbeQueue reports how the kernel queues packets to programs, for [Gate.LogTo], in the calling
// process's network namespace. It leaves nothing behind. ErrNoQueue: it cannot.
func ProbeQueue() (string, error) {
	c, err := nftables.New()
	if err != nil {
		return "", fmt.Errorf("open nftables: %w", err)
	}
	var tried error
	for _, kind := range []queueKind{queueNative, queueXT} {
		t := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: "polis_probe"})
		chain := c.AddChain(&nftables.Chain{Name: "log", Table: t})
		part := kind.queue(1)
		c.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: part.exprs})
		if err := c.Flush(); err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		c.DelTable(t)
		if err := c.Flush(); err != nil {
			return "", fmt.Errorf("remove the nftables table: %w", err)
		}
		return part.text, nil
	}
	return "", fmt.Errorf("%w: %w", ErrNoQueue, tried)
}
