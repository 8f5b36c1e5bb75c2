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
// expression, by that of iptables through nftables, or not at all.
type queueKind string

const (
	queueNone   queueKind = ""
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

// refusalQueue is the number of an agent's queue. It follows from the address,
// which no other agent has, nor one of another polisd: all of it counts, for the
// pools of those differ in its beginning alone. The numbers that other programs
// like to take are low. Two agents in thousands may still share one: see [ErrBusy].
func refusalQueue(a netip.Addr) uint16 {
	b := a.As4()
	h := fnv.New32a()
	_, _ = h.Write([]byte{b[0], b[1], b[2] >> 6}) //nolint:errcheck // never fails
	n := h.Sum32()
	return 1<<14 | (binary.BigEndian.Uint16(b[2:])^uint16(n^n>>14))&(1<<14-1)
}

// findQueue tries which kind the kernel has, on a table of its own.
func findQueue(table string) (queueKind, error) {
	c, err := openTables()
	if err != nil {
		return queueNone, fmt.Errorf("open nftables: %w", err)
	}
	var tried error
	for _, k := range []queueKind{queueNative, queueXT} {
		t := &nftables.Table{Family: nftables.TableFamilyINet, Name: table + "_try"}
		c.AddTable(t)
		ch := c.AddChain(&nftables.Chain{Name: "try", Table: t})
		c.AddRule(&nftables.Rule{Table: t, Chain: ch, Exprs: k.queue(1 << 14).exprs})
		c.DelTable(t)
		err := c.Flush()
		if err == nil {
			return k, nil
		}
		tried = errors.Join(tried, err)
		if errors.Is(err, unix.EPERM) {
			break
		}
	}
	return queueNone, tried
}
