package netbridge

import (
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Of the TCP header (RFC 9293): the offset of the flags, and the option with the maximum segment size.
const (
	tcpFlags     = 13
	tcpSynFlag   = 0x02
	tcpRstFlag   = 0x04
	tcpOptMSS    = 2
	tcpOptMSSOff = 2
)

// tcpSyn matches the first packet of each direction of a connection.
func tcpSyn() part {
	ex := metaCmp(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_TCP})
	return part{"tcp flags syn / syn,rst", append(ex,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlags, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{tcpSynFlag | tcpRstFlag}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{tcpSynFlag}})}
}

// clampMSS lowers the announced segment size to the MTU of the packet's route and of the way back. The kernel
// never raises it.
func clampMSS() part {
	return part{"tcp option maxseg size set rt mtu", []expr.Any{
		&expr.Rt{Register: 1, Key: expr.RtTCPMSS},
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: 2, Size: 2},
		&expr.Exthdr{SourceRegister: 1, Type: tcpOptMSS, Offset: tcpOptMSSOff, Len: 2, Op: expr.ExthdrOpTcpopt}}}
}
