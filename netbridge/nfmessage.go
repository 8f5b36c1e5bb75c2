package netbridge

import (
	"encoding/binary"
	"iter"
	"net/netip"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netlinkMessage is one message of a datagram, without its header.
type netlinkMessage struct {
	kind uint16
	body []byte
}

// messages walks a netlink datagram, netlink(7), and ends at what is malformed.
func messages(b []byte) iter.Seq[netlinkMessage] {
	return func(yield func(netlinkMessage) bool) {
		for len(b) >= unix.NLMSG_HDRLEN {
			n := int(binary.NativeEndian.Uint32(b))
			if n < unix.NLMSG_HDRLEN || n > len(b) {
				return
			}
			if !yield(netlinkMessage{binary.NativeEndian.Uint16(b[4:]), b[unix.NLMSG_HDRLEN:n]}) {
				return
			}
			b = b[min(len(b), aligned(n)):]
		}
	}
}

func aligned(n int) int { return (n + 3) &^ 3 }

// parseQueued reads the body of an NFQNL_MSG_PACKET. A packet without a mark has
// the mark 0.
func parseQueued(b []byte) (id, mark uint32, packet []byte, ok bool) {
	if len(b) < 4 {
		return 0, 0, nil, false
	}
	d, err := netlink.NewAttributeDecoder(b[4:]) // after struct nfgenmsg
	if err != nil {
		return 0, 0, nil, false
	}
	for d.Next() {
		data := d.Bytes()
		switch d.Type() {
		case nfqPacketHdr:
			if len(data) < 4 {
				return 0, 0, nil, false
			}
			id, ok = binary.BigEndian.Uint32(data), true
		case nfqMark:
			if len(data) < 4 {
				return 0, 0, nil, false
			}
			mark = binary.BigEndian.Uint32(data)
		case nfqPayload:
			packet = data
		}
	}
	return id, mark, packet, ok && d.Err() == nil
}

// parsePacket reads the headers of an IPv4 packet (RFC 791) as far as the protocol and both
// addresses.
func parsePacket(b []byte) (Refusal, bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return Refusal{}, false
	}
	hdr := int(b[0]&15) * 4
	if hdr < 20 {
		return Refusal{}, false
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	r := Refusal{Local: netip.AddrPortFrom(src, 0), Remote: netip.AddrPortFrom(dst, 0)}
	later := binary.BigEndian.Uint16(b[6:])&0x1fff != 0 // a later fragment has no ports
	switch proto := b[9]; proto {
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP:
		r.Proto = "tcp"
		if proto == unix.IPPROTO_UDP {
			r.Proto = "udp"
		}
		if len(b) >= hdr+4 && !later {
			r.Local = netip.AddrPortFrom(src, binary.BigEndian.Uint16(b[hdr:]))
			r.Remote = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[hdr+2:]))
		}
	case unix.IPPROTO_ICMP:
		r.Proto = "icmp"
	default:
		r.Proto = strconv.Itoa(int(proto))
	}
	return r, true
}
