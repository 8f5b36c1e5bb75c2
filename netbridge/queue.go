package netbridge

import (
	"crypto/rand"
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
	// How many refused packets per second and agent are logged. Each that waits for its report is an entry of the
	// kernel's connection tracking table, so that the bursts are small.
	logRate  = 20
	logBurst = 40
	// Beyond that, how many of the destinations of one of logParts. The rest is refused and only counted.
	logParts  = 16
	partRate  = 1
	partBurst = 2
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
//
// With a seed, the destinations are divided into parts, each with a limit of its own beside that of all: so many packets to
// one do not prevent that those to another are logged. The agent does not know the parts.
// The last rule counts the packets that are not logged.
func planLog(num uint16, kind queueKind, seed *uint32) []rule {
	rules := []rule{newRule(marked(loggedMark), comeBack()), newRule(perSecond(logRate, logBurst), kind.queue(num))}
	if seed != nil {
		for i := range uint32(logParts) {
			rules = append(rules, newRule(destination(logParts, *seed, i), perSecond(partRate, partBurst), kind.queue(num)))
		}
	}
	return append(rules, newRule(counter()))
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
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	seed := binary.NativeEndian.Uint32(b[:])
	var tried error
	for _, with := range []*uint32{&seed, nil} { // a kernel may have no hash (nft_hash)
		for _, kind := range []queueKind{queueNative, queueXT} {
			err := g.replaceChain(c, func(n gateChains) (string, []rule) { return n.log, planLog(num, kind, with) })
			if err == nil {
				return nil
			}
			tried = errors.Join(tried, err)
		}
	}
	return fmt.Errorf("refusals of %s: %w: %w", g.Link, ErrNoQueue, tried)
}

// Unlogged returns how many of the agent's refused packets were not logged since LogTo: there were too many at a time.
func (g Gate) Unlogged() (packets uint64, err error) {
	c, err := openTables()
	if err != nil {
		return 0, fmt.Errorf("open nftables: %w", err)
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: g.Table}
	for _, name := range []string{chainsOf(g.Link).log, oldChainsOf(g.Link).log} {
		rules, err := c.GetRules(t, &nftables.Chain{Table: t, Name: name})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return 0, fmt.Errorf("refusals of %s: %w", g.Link, err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if n, ok := e.(*expr.Counter); ok {
					packets += n.Packets
				}
			}
		}
	}
	return packets, nil
}
