package netbridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// A comparison begins keepSettle after a change, because programs make several at once, and keepEvery after
	// the one before.
	keepSettle = 20 * time.Millisecond
	keepEvery  = 250 * time.Millisecond
	// keepAgain is when a gate that was not whole is compared again.
	keepAgain = 700 * time.Millisecond
	// keepAnyway is how often all is compared without a notification: some settings have none.
	keepAnyway = 15 * time.Second
	// keepTime bounds one repair.
	keepTime = 30 * time.Second
	// keepBuffer is the room for notifications, in bytes. When it overflows, all is compared.
	keepBuffer = 4 << 20
)

// A Repair is reported by [Bridge.Keep].
type Repair struct {
	Repaired
	// By is the program that changed the rules, as the kernel names it (comm); "" if it is not known.
	By string
	// Err: something is still wrong.
	Err error
}

// Keep repairs the network whenever the kernel reports a change of rules, links, addresses, routes or settings by
// another program, and passes to report what it found. report is called by one goroutine at a time; what it takes
// delays the next repair. others is called after a change of the rules of other programs, and must return at once.
// Keep returns nil when ctx ends.
func (b *Bridge) Keep(ctx context.Context, report func(Repair), others func()) error {
	rules, err := subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return err
	}
	links, err := subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF)
	if err != nil {
		return errors.Join(err, rules.Close())
	}
	k := &keeper{table: b.names.table, changed: make(chan string, 1), others: others}
	g, gctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(gctx, func() {
		_ = rules.Close() //nolint:errcheck // both were only read
		_ = links.Close() //nolint:errcheck // as above
	})
	defer stop()
	g.Go(func() error { return listenTo(gctx, rules, k.ruleMessages) })
	g.Go(func() error { return listenTo(gctx, links, func([]byte) { k.note("") }) })
	g.Go(func() error { b.keep(gctx, k.changed, report); return context.Cause(gctx) })
	if err := g.Wait(); ctx.Err() == nil {
		return fmt.Errorf("follow the changes of other programs to the network: %w", err)
	}
	return nil
}

// keep repairs after changes, until ctx ends.
func (b *Bridge) keep(ctx context.Context, changed <-chan string, report func(Repair)) {
	next, by := time.NewTimer(0), ""
	defer next.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case who := <-changed:
			if who != "" {
				by = who
			}
			next.Reset(max(keepSettle, keepEvery-time.Since(last)))
			continue
		case <-next.C:
		}
		rctx, cancel := context.WithTimeoutCause(ctx, keepTime, errors.New("the repair of the network took too long"))
		r, err := b.Repair(rctx)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil || !r.Nothing() {
			report(Repair{Repaired: r, By: by, Err: err})
		}
		by, last = "", time.Now()
		wait := keepAnyway
		if r.Doubtful {
			wait = keepAgain
		}
		next.Reset(wait)
	}
}

// subscribe opens a netlink socket for groups of notifications.
func subscribe(family int, groups ...int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, family)
	if err != nil {
		return nil, fmt.Errorf("subscribe to netlink: %w", os.NewSyscallError("socket", err))
	}
	f := os.NewFile(uintptr(fd), "netlink")
	err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for _, g := range groups {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g))
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, keepBuffer) != nil {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, keepBuffer))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to netlink: %w", err), f.Close())
	}
	return f, nil
}

// listenTo passes datagrams to take, nil for those that were lost, until the socket is closed.
func listenTo(ctx context.Context, f *os.File, take func([]byte)) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			take(nil)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		default:
			take(buf[:n])
		}
	}
}

// keeper sorts notifications.
type keeper struct {
	table   string
	changed chan string // who changed something, if that is known
	ours    bool        // the transaction that is read concerns our table
	foreign bool        // it concerns another one
	others  func()
}

// note asks for a comparison. One that is due already will see this change, too.
func (k *keeper) note(by string) {
	for {
		select {
		case k.changed <- by:
			return
		default:
		}
		if by == "" {
			return
		}
		select {
		case <-k.changed: // the name is worth more
		default:
		}
	}
}

// ruleMessages looks for changes to our table. A transaction ends with the message of its generation, which names
// the program. The elements of sets are left out: shims change them all the time, and without one only less is open.
func (k *keeper) ruleMessages(b []byte) {
	if b == nil {
		k.note("")
		k.others()
		return
	}
	for m := range messages(b) {
		if m.kind>>8 != unix.NFNL_SUBSYS_NFTABLES || len(m.body) < 4 {
			continue
		}
		switch m.kind & 0xff {
		case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM:
		case unix.NFT_MSG_NEWGEN:
			if k.ours {
				k.note(otherProgram(strings.TrimRight(attribute(m.body, unix.NFTA_GEN_PROC_NAME), "\x00")))
			}
			if k.foreign {
				k.others()
			}
			k.ours, k.foreign = false, false
		default: // the first attribute of all others is the name of the table
			table := attribute(m.body, unix.NFTA_TABLE_NAME)
			k.ours = k.ours || m.body[0] == unix.NFPROTO_INET && table == k.table+"\x00"
			// Another polisd's test packets change its table. They would never end if they led to one of ours.
			k.foreign = k.foreign || !strings.HasPrefix(table, plainNames)
		}
	}
}

// otherProgram is the name of a program that is not ours.
func otherProgram(comm string) string {
	if strings.HasPrefix(comm, "polis") {
		return ""
	}
	return comm
}

// attribute returns the data of an attribute of an nfnetlink message, "" if it has none.
func attribute(body []byte, kind uint16) string {
	d, err := netlink.NewAttributeDecoder(body[4:])
	if err != nil {
		return ""
	}
	for d.Next() {
		if d.Type() == kind {
			return string(d.Bytes())
		}
	}
	return ""
}
