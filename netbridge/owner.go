package netbridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Owner finds the socket of the namespace that has a local and a remote
// address, and returns its inode, as in /proc/PID/fd. proto is "tcp" or "udp". A
// datagram socket that is not connected has no remote address. ok is false if
// there is no such socket any more.
func (n *NS) Owner(ctx context.Context, proto string, local, remote netip.AddrPort) (inode uint32, ok bool, err error) {
	var num uint8
	switch proto {
	case "tcp":
		num = unix.IPPROTO_TCP
	case "udp":
		num = unix.IPPROTO_UDP
	default:
		return 0, false, nil
	}
	n.owners.mu.Lock()
	defer n.owners.mu.Unlock()
	if err := n.openDiag(ctx, &n.owners); err != nil {
		return 0, false, err
	}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := retryInterrupted(func() error {
			req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
			req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_SOCK_DIAG: {Socket: n.owners.s}}
			body := make([]byte, diagReqLen)
			body[0], body[1] = family, num
			binary.NativeEndian.PutUint32(body[4:], 0xffffffff) // every state
			binary.BigEndian.PutUint16(body[8:], local.Port())  // the kernel compares ports only
			req.AddRawData(body)
			msgs, err := req.Execute(unix.NETLINK_SOCK_DIAG, 0)
			if err != nil {
				return err
			}
			for _, m := range msgs {
				if l, r, found := parsePair(m); found != 0 && matches(l, local) && matches(r, remote) {
					inode, ok = found, true
				}
			}
			return nil
		})
		if err != nil || ok {
			return inode, ok, err
		}
	}
	return 0, false, nil
}

// matches reports whether a socket's address equals, or includes, the wanted one.
func matches(have, want netip.AddrPort) bool {
	a := have.Addr().Unmap()
	return (have.Port() == want.Port() || have.Port() == 0) && (a == want.Addr().Unmap() || a.IsUnspecified())
}

// parsePair reads both addresses and the inode of one struct inet_diag_msg.
func parsePair(m []byte) (local, remote netip.AddrPort, inode uint32) {
	if len(m) < diagMsgLen {
		return
	}
	var l, r netip.Addr
	switch m[0] {
	case unix.AF_INET:
		l, r = netip.AddrFrom4([4]byte(m[8:12])), netip.AddrFrom4([4]byte(m[24:28]))
	case unix.AF_INET6:
		l, r = netip.AddrFrom16([16]byte(m[8:24])), netip.AddrFrom16([16]byte(m[24:40]))
	default:
		return
	}
	return netip.AddrPortFrom(l, binary.BigEndian.Uint16(m[4:])), netip.AddrPortFrom(r, binary.BigEndian.Uint16(m[6:])), binary.NativeEndian.Uint32(m[68:])
}

// openDiag opens a sock_diag socket in the namespace; d.mu is held.
func (n *NS) openDiag(ctx context.Context, d *diagSocket) error {
	if d.s != nil {
		return nil
	}
	err := n.Do(ctx, func() (err error) {
		d.s, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_SOCK_DIAG)
		return err
	})
	if err != nil {
		return fmt.Errorf("open sock_diag in %s: %w", n.path, err)
	}
	// A netlink answer takes microseconds; a bound all the same.
	tv := unix.Timeval{Sec: 5}
	if err := errors.Join(d.s.SetReceiveTimeout(&tv), d.s.SetSendTimeout(&tv)); err != nil {
		return fmt.Errorf("bound sock_diag: %w", err)
	}
	return nil
}
