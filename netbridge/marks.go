package netbridge

import (
	"fmt"

	"github.com/google/nftables/expr"
)

// Marks on an agent's packet while it passes the rules. Each says which chain has seen it, and the next
// stage lets no packet without it pass: no chain can be lost alone, nor all of them at once, without
// closing the agents' way out. They are bits of both [loggedMark] and [overLimitMark], because a packet that comes
// back from a queue has one of these instead.
const (
	// linkMark is set by the chain of the agent's link. Without it the bridge drops the packet
	// (barrier.go).
	linkMark = 0x40000000
	// routeMark is set before routing. Without it the chains after routing drop the packet.
	routeMark = 0x20000000
)

// setMarkBits sets bits of the packet's mark, and clearMarkBits clears them. Others stay as they are.
func setMarkBits(bits uint32) part {
	return part{fmt.Sprintf("meta mark set meta mark | 0x%08x", bits), changeMark(^bits, bits)}
}

func clearMarkBits(bits uint32) part {
	return part{fmt.Sprintf("meta mark set meta mark & 0x%08x", ^bits), changeMark(^bits, 0)}
}

func changeMark(mask, xor uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native32(mask), Xor: native32(xor)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}

// unmarked matches a packet with none of these bits.
func unmarked(bits uint32) part {
	return part{fmt.Sprintf("meta mark & 0x%08x == 0x00000000", bits), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native32(bits), Xor: native32(0)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: native32(0)},
	}}
}
