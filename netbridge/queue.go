package netbridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// queueKind is how the kernel queues packets to a program: by the expression of
// nftables, or by the target of iptables through nftables.
type queueKind string

const (
	queueNative queueKind = "queue"
	queueXT     queueKind = "xt"
)

const (
	// loggedMark is on a packet that goes through the rules for the second time.
	loggedMark = 0x706f6c69
	// How many refused packets per second and agent are logged; the rest is refused silently.
	logRate  = 20
	logBurst = 40
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

// nextQueue is the number to try after one that is taken.
func nextQueue(num uint16) uint16 { return 1<<14 | (num+257)&(1<<14-1) }

// planLog queues a refused packet to the shim, which marks it and sends it through
// the rules again. They let it pass only if they have changed since: the second time
// ends in the rejection.
// The kernel drops the packet if no program has bound the queue.
func planLog(num uint16, kind queueKind) []rule {
	return []rule{newRule(marked(loggedMark), comeBack()), newRule(perSecond(logRate, logBurst), kind.queue(num))}
}

// LogTo has the rules send the agent's refused packets to a queue, which must be bound
// ([Refusals]); 0 stops that, and is no error for an agent that is gone.
// ErrNoQueue: this kernel cannot queue packets to programs.
func (g Gate) LogTo(num uint16) error {
	c, err := openTables()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	if num == 0 {
		if err := g.replaceChain(c, func(n gateChains) (string, []rule) { return n.log, nil }); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("refusals of %s: %w", g.Link, err)
		}
		return nil
	}
	var tried error
	for _, kind := range []queueKind{queueNative, queueXT} {
		err := g.replaceChain(c, func(n gateChains) (string, []rule) { return n.log, planLog(num, kind) })
		if err == nil {
			return nil
		}
		tried = errors.Join(tried, err)
	}
	return fmt.Errorf("refusals of %s: %w: %w", g.Link, ErrNoQueue, tried)
}
