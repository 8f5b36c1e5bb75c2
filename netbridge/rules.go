package netbridge

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// nfInetIngress is NF_INET_INGRESS of linux/netfilter.h, which x/sys lacks.
const nfInetIngress = 5

// A ruleset is one table, both as the text that nft lists and as the expressions that the kernel
// gets. A test compares the two through the kernel.
//
// Sets and kept chains have their content from elsewhere (see gate.go): they are added if
// missing, and otherwise left unchanged.
type ruleset struct {
	table  string
	sets   []string // of IPv4 addresses, each with its own time-out
	chains []chain
}

type chain struct {
	name     string
	kind     nftables.ChainType // empty for a chain without hook
	hook     string
	hooknum  uint32
	prio     int32
	prioName string
	device   string
	kept     bool   // its content is not part of the plan
	link     string // the agent's it is for; empty for a common one
	rules    []rule
}

type rule struct {
	text  string
	exprs []expr.Any
}

// A part is one match or verdict of a rule.
type part struct {
	text  string
	exprs []expr.Any
}

func newRule(parts ...part) rule {
	var r rule
	words := make([]string, 0, len(parts))
	for _, p := range parts {
		words = append(words, p.text)
		r.exprs = append(r.exprs, p.exprs...)
	}
	r.text = strings.Join(words, " ")
	return r
}

// String is the table as `nft list table` prints it.
func (rs ruleset) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "table inet %s {\n", rs.table)
	for _, name := range rs.sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\ttype ipv4_addr\n\t\tsize %d\n\t\tflags timeout\n\t}\n\n", name, gateSize)
	}
	for i, c := range rs.chains {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "\tchain %s {\n", c.name)
		if c.hook != "" {
			dev := ""
			if c.device != "" {
				dev = fmt.Sprintf(" device %q", c.device)
			}
			fmt.Fprintf(&b, "\t\ttype %s hook %s%s priority %s; policy accept;\n", c.kind, c.hook, dev, c.prioName)
		}
		for _, r := range c.rules {
			fmt.Fprintf(&b, "\t\t%s\n", r.text)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

func metaCmp(key expr.MetaKey, op expr.CmpOp, data []byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: data}}
}

func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

func native32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func iif(n string) part {
	return part{fmt.Sprintf("iifname %q", n), metaCmp(expr.MetaKeyIIFNAME, expr.CmpOpEq, ifname(n))}
}

func iifNot(n string) part {
	return part{fmt.Sprintf("iifname != %q", n), metaCmp(expr.MetaKeyIIFNAME, expr.CmpOpNeq, ifname(n))}
}

func oif(n string) part {
	return part{fmt.Sprintf("oifname %q", n), metaCmp(expr.MetaKeyOIFNAME, expr.CmpOpEq, ifname(n))}
}

func oifNot(n string) part {
	return part{fmt.Sprintf("oifname != %q", n), metaCmp(expr.MetaKeyOIFNAME, expr.CmpOpNeq, ifname(n))}
}

func nfproto6() part {
	return part{"meta nfproto ipv6", metaCmp(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV6})}
}

func l4tcp() part {
	return part{"meta l4proto tcp", metaCmp(expr.MetaKeyL4PROTO, expr.CmpOpEq, []byte{unix.IPPROTO_TCP})}
}

// destination matches TCP and UDP packets whose destination, address and port, is in one of several parts.
func destination(parts, seed, which uint32) part {
	ex := metaCmp(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
	return part{fmt.Sprintf("jhash ip daddr . th dport mod %d seed 0x%x %d", parts, seed, which), append(ex,
		&expr.Payload{DestRegister: unix.NFT_REG32_00, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Payload{DestRegister: unix.NFT_REG32_01, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Hash{SourceRegister: unix.NFT_REG32_00, DestRegister: unix.NFT_REG32_02, Length: 8, Modulus: parts, Seed: seed, Type: expr.HashTypeJenkins},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG32_02, Data: native32(which)})}
}

// unusedCounter is a counter as it is listed before a packet was counted.
func unusedCounter() part { return part{"counter packets 0 bytes 0", counter().exprs} }

func counter() part { return part{"counter", []expr.Any{&expr.Counter{}}} }

func saddr(p netip.Prefix) part    { return ipMatch("ip saddr", 12, expr.CmpOpEq, p) }
func saddrNot(p netip.Prefix) part { return ipMatch("ip saddr !=", 12, expr.CmpOpNeq, p) }
func daddr(p netip.Prefix) part    { return ipMatch("ip daddr", 16, expr.CmpOpEq, p) }

// ipMatch compares an address of the IPv4 header. The table is of family inet,
// so the header's kind is matched first; nft lists that as part of "ip".
func ipMatch(text string, offset uint32, op expr.CmpOp, p netip.Prefix) part {
	p = p.Masked()
	shown := p.String()
	if p.IsSingleIP() {
		shown = p.Addr().String()
	}
	ex := metaCmp(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
	ex = append(ex, &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4})
	if !p.IsSingleIP() {
		ex = append(ex, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: net.CIDRMask(p.Bits(), 32), Xor: make([]byte, 4)})
	}
	ex = append(ex, &expr.Cmp{Op: op, Register: 1, Data: p.Addr().AsSlice()})
	return part{text + " " + shown, ex}
}

func ctEstablished() part {
	return part{"ct state established,related", []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATE},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: native32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: native32(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native32(0)},
	}}
}

// fibNotUnicast matches the host's own, broadcast and multicast addresses.
func fibNotUnicast() part {
	return part{"fib daddr type != unicast", []expr.Any{
		&expr.Fib{Register: 1, ResultADDRTYPE: true, FlagDADDR: true},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native32(unix.RTN_UNICAST)},
	}}
}

func accept() part { return part{"accept", []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}} }
func drop() part   { return part{"drop", []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}} }

func gotoChain(name string) part {
	return part{"goto " + name, []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: name}}}
}

func jumpTo(name string) part {
	return part{"jump " + name, []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: name}}}
}

func comeBack() part { return part{"return", []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}}} }

// inSet compares the destination with the addresses of a set.
func inSet(name string) part {
	ex := metaCmp(expr.MetaKeyNFPROTO, expr.CmpOpEq, []byte{unix.NFPROTO_IPV4})
	return part{"ip daddr @" + name, append(ex,
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Lookup{SourceRegister: 1, SetName: name})}
}

func marked(v uint32) part {
	return part{fmt.Sprintf("meta mark 0x%08x", v), metaCmp(expr.MetaKeyMARK, expr.CmpOpEq, native32(v))}
}

func perSecond(n uint64, burst uint32) part {
	return part{fmt.Sprintf("limit rate %d/second burst %d packets", n, burst), []expr.Any{
		&expr.Limit{Type: expr.LimitTypePkts, Rate: n, Unit: expr.LimitTimeSecond, Burst: burst}}}
}

// traceOn has the kernel report the way of the packet through the rules.
func traceOn() part {
	return part{"meta nftrace set 1", []expr.Any{
		&expr.Immediate{Register: 1, Data: []byte{1}}, &expr.Meta{Key: expr.MetaKeyNFTRACE, SourceRegister: true, Register: 1}}}
}

func masquerade() part { return part{"masquerade", []expr.Any{&expr.Masq{}}} }

func rejectReset() part {
	return part{"reject with tcp reset", []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}}
}

func rejectProhibited() part {
	return part{"reject with icmpx admin-prohibited", []expr.Any{
		&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED},
	}}
}
