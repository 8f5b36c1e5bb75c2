package netbridge

import (
	"fmt"

	"github.com/google/nftables/expr"
)

// linkMark is set on an agent's packet by the chain of its link. The bridge drops a packet without it (barrier.go), and
// the chains after routing clear it. It is a bit of both [loggedMark] and [overLimitMark]: where the rules see
// bridged packets (br_netfilter), one that comes back from a queue has one of these instead.
const linkMark = 0x40000000

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

// markedBits matches a packet with one of these bits.
func markedBits(bits uint32) part {
	return part{fmt.Sprintf("meta mark & 0x%08x != 0x00000000", bits), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native32(bits), Xor: native32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native32(0)},
	}}
}
