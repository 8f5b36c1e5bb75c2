package netbridge

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Of linux/netfilter/nf_tables.h and nfnetlink.h, which x/sys lacks.
const (
	nfnlGroupTrace = 9  // NFNLGRP_NFTRACE
	nftMsgTrace    = 17 // NFT_MSG_TRACE

	traceTable   = 1  // NFTA_TRACE_TABLE
	traceChain   = 2  // NFTA_TRACE_CHAIN
	traceType    = 4  // NFTA_TRACE_TYPE
	traceVerdict = 5  // NFTA_TRACE_VERDICT
	traceID      = 6  // NFTA_TRACE_ID
	traceNetwork = 8  // NFTA_TRACE_NETWORK_HEADER
	tracePolicy  = 16 // NFTA_TRACE_POLICY

	verdictCode = 1 // NFTA_VERDICT_CODE

	tracedPolicy = 1 // NFT_TRACETYPE_POLICY
)

// traced is one step of a packet through the rules, as the kernel reports it.
type traced struct {
	family       byte // of the table
	table, chain string
	id           uint32     // of the packet, until it is routed
	to           netip.Addr // its destination: in the first step of each hook
	policy       bool       // the verdict is the policy of the chain
	drops        bool
}

// parseTrace reads the body of an NFT_MSG_TRACE.
func parseTrace(b []byte) (t traced, ok bool) {
	if len(b) < 4 {
		return t, false
	}
	d, err := netlink.NewAttributeDecoder(b[4:])
	if err != nil {
		return t, false
	}
	d.ByteOrder = binary.BigEndian
	t.family = b[0]
	verdict := uint32(1) // NF_ACCEPT
	for d.Next() {
		switch d.Type() {
		case traceTable:
			t.table = d.String()
		case traceChain:
			t.chain = d.String()
		case traceType:
			t.policy = d.Uint32() == tracedPolicy
		case traceID:
			t.id = d.Uint32()
		case traceNetwork:
			if p, ok := parsePacket(d.Bytes()); ok {
				t.to = p.Remote.Addr()
			}
		case tracePolicy:
			verdict = d.Uint32()
		case traceVerdict:
			d.Nested(func(v *netlink.AttributeDecoder) error {
				v.ByteOrder = binary.BigEndian
				for v.Next() {
					if v.Type() == verdictCode {
						verdict = v.Uint32()
					}
				}
				return nil
			})
		}
	}
	t.drops = verdict == nfDrop
	return t, d.Err() == nil
}

// traces passes the steps of traced packets to take until it returns true, the socket's deadline, or the end of ctx.
func traces(ctx context.Context, f *os.File, take func(traced) bool) error {
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n, err := f.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
		for m := range messages(buf[:n]) {
			if m.kind != unix.NFNL_SUBSYS_NFTABLES<<8|nftMsgTrace {
				continue
			}
			if t, ok := parseTrace(m.body); ok && take(t) {
				return nil
			}
		}
	}
	return nil
}
