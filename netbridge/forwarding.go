package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Forwarding is the result of a test packet, which stands for those that agents' rules let out.
type Forwarding struct {
	// Works: the packet, and answers, pass.
	Works bool
	// NoRoute: the host has no route to the internet. Uplink is the link that the packet would leave by.
	NoRoute bool
	Uplink  string
	// Replies: packets leave, and answers to agents are dropped.
	Replies bool
	// Culprit is who drops it, if not Works and not NoRoute.
	Culprit Culprit
}

const (
	// probeAgent is the name of the network that the packet is sent from. It exists for the moment alone. No agent
	// can have the name: those of agents have no capitals.
	probeAgent = "Polis.probe"
	// probeMark is on the packet, and the last chain drops it.
	probeMark = 0x10000000
	probePort = 443
	// The packet takes a millisecond. It is sent again, because reports of its way can be lost.
	probeTries = 3
	probeWait  = 250 * time.Millisecond
	// probeClean bounds the removal of the network.
	probeClean = 10 * time.Second
)

// TryForwarding finds out by a packet whether those of agents leave the host, or who drops them: a hook of any
// other program can. The packet is sent from a network like an agent's to an address that nobody has. The kernel reports
// its way through the rules (nftables' tracing), and it does not leave the host.
func (b *Bridge) TryForwarding(ctx context.Context) (f Forwarding, err error) {
	select {
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return f, context.Cause(ctx)
	}
	sock, err := subscribe(unix.NETLINK_NETFILTER, nfnlGroupTrace)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, sock.Close()) }()
	lost, err := b.repliesLost() // before the rules are written again
	if err != nil {
		return f, err
	}
	to := outside()[1]
	var ep Endpoint
	err = b.locked(ctx, func(c *change) (_ bool, err error) {
		if f.Uplink, err = c.linkTo(to); err == nil && f.Uplink != "" {
			ep, err = c.ensureAgent(ctx, probeAgent)
		}
		return false, err
	})
	if f.Uplink != "" {
		defer func() { err = errors.Join(err, b.removeProbe(ctx)) }()
	}
	if err != nil {
		return f, fmt.Errorf("network of a test packet: %w", err)
	}
	if f.Uplink == "" {
		f.NoRoute = true
		return f, nil
	}
	way, err := b.followProbe(ctx, ep, sock, netip.AddrPortFrom(netip.AddrFrom4([4]byte(to)), probePort))
	if err != nil {
		return f, err
	}
	if way.left {
		if f.Works, f.Replies = !lost, lost; f.Works {
			return f, nil
		}
	}
	f.Culprit, err = b.culprit(way)
	return f, err
}

func (b *Bridge) removeProbe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeClean)
	defer cancel()
	return b.locked(ctx, func(c *change) (bool, error) { return false, c.removeAgent(probeAgent) })
}

// probeWay is what the kernel reported about the packet.
type probeWay struct {
	seen      bool    // by the rules of its link
	forwarded bool    // it reached the forward hook
	left      bool    // it passed all
	by        *traced // dropped it
}

// followProbe sends the packet and follows it.
func (b *Bridge) followProbe(ctx context.Context, ep Endpoint, sock *os.File, to netip.AddrPort) (way probeWay, err error) {
	ns, err := OpenNS(ep.NetNS)
	if err != nil {
		return way, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		wg.Wait()
		err = errors.Join(err, ns.Close())
	}()
	for range probeTries {
		wg.Go(func() {
			dctx, stop := context.WithTimeout(ctx, probeWait)
			defer stop()
			if c, err := ns.Dial(dctx, "tcp4", to.String()); err == nil {
				_ = c.Close() //nolint:errcheck // nothing was sent on it
			}
		})
		if err := sock.SetReadDeadline(time.Now().Add(probeWait)); err != nil {
			return way, err
		}
		ids := map[uint32]bool{}
		err := traces(ctx, sock, func(t traced) bool {
			own := t.family == unix.NFPROTO_INET && t.table == b.names.table
			way.seen = way.seen || t.to == to.Addr()
			if t.to == to.Addr() {
				ids[t.id] = true
			}
			if !ids[t.id] {
				return false
			}
			way.forwarded = way.forwarded || own && t.chain == forwardFirst
			switch {
			// The end of another instance is one, too: all mark their test packets alike.
			case t.family == unix.NFPROTO_INET && t.chain == postroutingLast && (own || strings.HasPrefix(t.table, plainNames+"_") || t.table == plainNames):
				way.left = true
			case t.drops:
				way.by = &t
			}
			return way.left || way.by != nil
		})
		if err != nil || way.left || way.by != nil {
			return way, err
		}
	}
	if !way.seen {
		return way, errors.New("a test packet was not seen by the rules")
	}
	return way, nil
}

// repliesLost reports whether answers to agents arrive, and none of them has passed since the rules were written.
func (b *Bridge) repliesLost() (bool, error) {
	first, err := counted(b.names.table, forwardFirst)
	if err != nil || first < fewReplies {
		return false, err
	}
	last, err := counted(b.names.table, forwardLast)
	return last == 0, err
}

// fewReplies are too few to say that all are dropped.
const fewReplies = 3
