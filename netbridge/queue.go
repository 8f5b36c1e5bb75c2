package netbridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// queueKind is how the kernel hands packets to a program: by nftables' own
// expression, or by that of iptables through nftables.
type queueKind string

const (
	queueNative queueKind = "queue"
	queueXT     queueKind = "xt"
)

const (
	// toldMark is on a packet that goes through the rules for the second time.
	toldMark = 0x706f6c69
	// What is told of refused packets per agent; the rest is refused silently.
	tellRate  = 20
	tellBurst = 40
)

// queue sends a packet to a program.
func (k queueKind) queue(num uint16) part {
	if k == queueNative {
		return part{fmt.Sprintf("queue num %d", num), []expr.Any{&expr.Queue{Num: num}}}
	}
	// struct xt_NFQ_info_v3, linux/netfilter/xt_NFQUEUE.h: number, count, flags.
	info := xt.Unknown(binary.NativeEndian.AppendUint16(nil, num))
	info = binary.NativeEndian.AppendUint16(info, 1)
	info = append(info, 0, 0, 0, 0) // no flags, and padding to what the kernel aligns to
	return part{`xt target "NFQUEUE"`, []expr.Any{&expr.Target{Name: "NFQUEUE", Rev: 3, Info: &info}}}
}

// firstQueue is where the search for a free number begins. It follows from the
// address, so that agents do not try the same; the numbers that other programs
// like to take are low.
func firstQueue(a netip.Addr) uint16 {
	b := a.As4()
	h := fnv.New32a()
	_, _ = h.Write([]byte{b[0], b[1], b[2] >> 6}) // a hash never fails
	n := h.Sum32()
	return 1<<14 | (binary.BigEndian.Uint16(b[2:])^uint16(n^n>>14))&(1<<14-1)
}

// nextQueue is the number to try after one that somebody has.
func nextQueue(num uint16) uint16 { return 1<<14 | (num+257)&(1<<14-1) }

// planTell hands a refused packet to who answers the queue, who sends it through
// the rules again, marked. That cannot let it pass: the second time ends in the
// rejection. Without anybody at the queue the packet is dropped.
func planTell(num uint16, kind queueKind) []rule {
	return []rule{newRule(marked(toldMark), comeBack()), newRule(perSecond(tellRate, tellBurst), kind.queue(num))}
}

// Tell has what the agent is refused told at a queue, which must be bound
// ([Refusals]); 0 has nothing told of any more, and is no error for an agent that
// is gone. ErrNoQueue: this kernel hands no packets to programs.
func (g Gate) Tell(num uint16) error {
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	ch := &nftables.Chain{Table: t, Name: tellChain(g.Link)}
	if num == 0 {
		c.FlushChain(ch)
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("refusals of %s: %w", g.Link, err)
		}
		return nil
	}
	var tried error
	for _, kind := range []queueKind{queueNative, queueXT} {
		c.FlushChain(ch)
		for _, r := range planTell(num, kind) {
			c.AddRule(&nftables.Rule{Table: t, Chain: ch, Exprs: r.exprs})
		}
		err := c.Flush()
		if err == nil {
			return nil
		}
		tried = errors.Join(tried, err)
	}
	return fmt.Errorf("refusals of %s: %w: %w", g.Link, ErrNoQueue, tried)
}
