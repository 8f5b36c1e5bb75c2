package netbridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Listener is a socket that waits for peers: TCP in state LISTEN, or UDP bound
// and not connected.
type Listener struct {
	Proto string // "tcp" or "udp"
	Addr  netip.Addr
	Port  uint16
	Inode uint32 // of the socket, as in /proc/PID/fd
	UID   uint32 // of the socket's owner
}

// Layout of struct inet_diag_req_v2 and inet_diag_msg, linux/inet_diag.h.
const (
	diagReqLen = 56
	diagMsgLen = 72

	tcpClose  = 7 // TCP_CLOSE: what an unconnected UDP socket is in
	tcpListen = 10
)

// diagSocket is a sock_diag socket that lives in the namespace.
type diagSocket struct {
	mu sync.Mutex
	s  *nl.NetlinkSocket
}

// Listeners asks the kernel (sock_diag(7)) for every listener in the namespace.
func (n *NS) Listeners(ctx context.Context) ([]Listener, error) {
	n.diag.mu.Lock()
	defer n.diag.mu.Unlock()
	if n.diag.s == nil {
		err := n.Do(ctx, func() (err error) {
			n.diag.s, err = nl.GetNetlinkSocketAt(netns.None(), netns.None(), unix.NETLINK_SOCK_DIAG)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("open sock_diag in %s: %w", n.path, err)
		}
		// A netlink answer takes microseconds; a bound all the same.
		tv := unix.Timeval{Sec: 5}
		if err := errors.Join(n.diag.s.SetReceiveTimeout(&tv), n.diag.s.SetSendTimeout(&tv)); err != nil {
			return nil, fmt.Errorf("bound sock_diag: %w", err)
		}
	}
	var out []Listener
	for _, q := range []struct {
		name          string
		family, proto uint8
		state         uint32
	}{
		{"tcp", unix.AF_INET, unix.IPPROTO_TCP, tcpListen},
		{"tcp", unix.AF_INET6, unix.IPPROTO_TCP, tcpListen},
		{"udp", unix.AF_INET, unix.IPPROTO_UDP, tcpClose},
		{"udp", unix.AF_INET6, unix.IPPROTO_UDP, tcpClose},
	} {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		ls, err := n.diag.dump(q.name, q.family, q.proto, q.state)
		if err != nil {
			return nil, fmt.Errorf("list %s listeners in %s: %w", q.name, n.path, err)
		}
		out = append(out, ls...)
	}
	return out, nil
}

func (d *diagSocket) dump(name string, family, proto uint8, state uint32) ([]Listener, error) {
	var out []Listener
	err := retryInterrupted(func() error {
		out = out[:0]
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_SOCK_DIAG: {Socket: d.s}}
		body := make([]byte, diagReqLen)
		body[0], body[1] = family, proto
		binary.NativeEndian.PutUint32(body[4:], 1<<state)
		req.AddRawData(body)
		msgs, err := req.Execute(unix.NETLINK_SOCK_DIAG, 0)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			l, ok := parseDiag(name, m)
			if !ok {
				return fmt.Errorf("sock_diag message of %d bytes is malformed", len(m))
			}
			if l.Port != 0 {
				out = append(out, l)
			}
		}
		return nil
	})
	return out, err
}

// parseDiag reads one struct inet_diag_msg.
func parseDiag(proto string, m []byte) (Listener, bool) {
	if len(m) < diagMsgLen {
		return Listener{}, false
	}
	l := Listener{
		Proto: proto,
		Port:  binary.BigEndian.Uint16(m[4:]),
		UID:   binary.NativeEndian.Uint32(m[64:]),
		Inode: binary.NativeEndian.Uint32(m[68:]),
	}
	switch m[0] {
	case unix.AF_INET:
		l.Addr = netip.AddrFrom4([4]byte(m[8:12]))
	case unix.AF_INET6:
		l.Addr = netip.AddrFrom16([16]byte(m[8:24]))
	default:
		return Listener{}, false
	}
	return l, true
}

func (d *diagSocket) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.s != nil {
		d.s.Close()
		d.s = nil
	}
	return nil
}

// maxDumpTries bounds retryInterrupted. Tables that change during every one of
// so many dumps are not ours to read.
const maxDumpTries = 20

// retryInterrupted repeats a netlink dump that the kernel marked as
// inconsistent because the table changed under it (NLM_F_DUMP_INTR).
func retryInterrupted(dump func() error) error {
	var err error
	for range maxDumpTries {
		if err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return err
		}
	}
	return err
}
