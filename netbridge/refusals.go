package netbridge

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Refusal is a packet of an agent that the rules do not let out: the first of a
// connection, a datagram, or one of a connection that was cut.
type Refusal struct {
	Proto  string // "tcp", "udp", "icmp", or the protocol's number
	Local  netip.AddrPort
	Remote netip.AddrPort // without a port (0) unless tcp or udp
	// OverLimit is set if the packet would open one connection too many
	// ([Gate.LimitConnections]); otherwise its destination is not allowed.
	OverLimit bool
	// Packet is its number in the queue, for [Refusals.Release].
	Packet uint32
}

// Refusals reports the packets that an agent is refused. During the report the program that sent
// the packet still waits for its answer, so its socket can be looked up ([NS.Owner]). Then the
// kernel refuses it. The rules report at most some twenty packets a second.
//
// The queue only delays: a packet comes back marked and passes the rules again, or is dropped. No
// verdict of this program lets a packet out.
type Refusals struct {
	Addr netip.Addr   // the agent's; packets of others are not reported
	Log  *slog.Logger // slog.Default if nil

	// Hold reports whether a packet stays in the queue until Release, with the program that sent
	// it. It must be quick. Nil: none stays.
	Hold func(Refusal) bool

	// Queue is the free number that Open found, for [Gate.LogTo].
	Queue uint16

	sock *os.File
}

// Of linux/netfilter/nfnetlink_queue.h, nfnetlink.h and netfilter.h.
const (
	nfqSubsystem  = 3
	nfqMsgPacket  = nfqSubsystem << 8
	nfqMsgVerdict = nfqSubsystem<<8 | 1
	nfqMsgConfig  = nfqSubsystem<<8 | 2

	nfqCfgCmd    = 1
	nfqCfgParams = 2
	nfqCmdBind   = 1
	nfqCopy      = 2 // NFQNL_COPY_PACKET

	nfqPacketHdr  = 1
	nfqVerdictHdr = 2
	nfqMark       = 3
	nfqPayload    = 10

	nfDrop   = 0
	nfRepeat = 4

	nfqRange = 96 // of a packet: the headers of IPv4 and of TCP
)

// answerTime bounds the wait for the kernel's answer about a queue.
const answerTime = 5 * time.Second

// maxQueues bounds the search for a free number.
const maxQueues = 256

// Open binds a free queue.
func (r *Refusals) Open() (err error) {
	if r.Log == nil {
		r.Log = slog.Default()
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open nfnetlink_queue: %w", os.NewSyscallError("socket", err))
	}
	r.sock = os.NewFile(uintptr(fd), "nfnetlink_queue")
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("open nfnetlink_queue: %w", os.NewSyscallError("bind", err))
	}
	r.Queue = firstQueue(r.Addr)
	for range maxQueues {
		// The kernel also returns EPERM for a queue of another program.
		err = r.configure(netlink.Attribute{Type: nfqCfgCmd, Data: []byte{nfqCmdBind, 0, 0, unix.AF_INET}})
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EPERM) {
			break
		}
		r.Queue = nextQueue(r.Queue)
	}
	if err == nil {
		err = r.configure(netlink.Attribute{Type: nfqCfgParams, Data: append(binary.BigEndian.AppendUint32(nil, nfqRange), nfqCopy)})
	}
	if err != nil {
		return fmt.Errorf("bind nfnetlink_queue %d: %w", r.Queue, err)
	}
	return nil
}

// configure sends one message and reads the kernel's acknowledgement, which is queued when the
// call that sent the message returns.
func (r *Refusals) configure(a netlink.Attribute) error {
	if err := r.send(nfqMsgConfig, unix.NLM_F_REQUEST|unix.NLM_F_ACK, a); err != nil {
		return err
	}
	if err := r.sock.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return err
	}
	defer r.sock.SetReadDeadline(time.Time{}) //nolint:errcheck // it could be set
	buf := make([]byte, 8<<10)
	for {
		n, err := r.sock.Read(buf)
		if err != nil {
			return err
		}
		for m := range messages(buf[:n]) {
			if m.kind == unix.NLMSG_ERROR && len(m.body) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(m.body)); code != 0 {
					return unix.Errno(-code)
				}
				return nil
			}
		}
	}
}

func (r *Refusals) send(kind uint16, flags uint16, attrs ...netlink.Attribute) error {
	body, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return fmt.Errorf("nfnetlink_queue %d: %w", r.Queue, err)
	}
	msg := make([]byte, 20, 20+len(body))
	binary.NativeEndian.PutUint32(msg, uint32(20+len(body)))
	binary.NativeEndian.PutUint16(msg[4:], kind)
	binary.NativeEndian.PutUint16(msg[6:], flags)
	msg[16] = unix.AF_UNSPEC
	binary.BigEndian.PutUint16(msg[18:], r.Queue)
	if _, err := r.sock.Write(append(msg, body...)); err != nil {
		return fmt.Errorf("nfnetlink_queue %d: %w", r.Queue, err)
	}
	return nil
}

// Run passes every refusal to report, one at a time, until ctx ends or Close; then it returns
// nil. report delays the agent's other refusals: it must be quick.
func (r *Refusals) Run(ctx context.Context, report func(Refusal)) error {
	stop := context.AfterFunc(ctx, func() { _ = r.sock.Close() }) //nolint:errcheck // Close below reports it
	defer stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := r.sock.Read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			r.Log.Debug("refusals came faster than they were read", "op", "net.refuse")
			continue
		case errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read nfnetlink_queue %d: %w", r.Queue, err)
		}
		for m := range messages(buf[:n]) {
			if m.kind != nfqMsgPacket {
				continue
			}
			id, marked, packet, ok := parseQueued(m.body)
			if !ok {
				continue
			}
			if what, ok := parsePacket(packet); ok && what.Local.Addr() == r.Addr {
				what.OverLimit, what.Packet = marked == overLimitMark, id
				if r.Hold != nil && r.Hold(what) {
					continue
				}
				report(what)
			}
			if err := r.Release(id, false); err != nil && ctx.Err() == nil && !errors.Is(err, os.ErrClosed) {
				r.Log.Warn("refused packet dropped without a report: the kernel did not take the verdict", "op", "net.refuse", "err", err)
			}
		}
	}
}

// Release ends the stay of a packet in the queue: it is dropped, without an answer to its sender, or
// passes the rules again, which then accept or reject it.
func (r *Refusals) Release(packet uint32, drop bool) error {
	action := uint32(nfRepeat)
	if drop {
		action = nfDrop
	}
	return r.send(nfqMsgVerdict, unix.NLM_F_REQUEST, verdict(packet, action)...)
}

// Close ends Run. Packets that wait are dropped.
func (r *Refusals) Close() error {
	if r.sock == nil {
		return nil
	}
	if err := r.sock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func verdict(id, action uint32) []netlink.Attribute {
	v := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, action), id)
	return []netlink.Attribute{{Type: nfqVerdictHdr, Data: v}, {Type: nfqMark, Data: binary.BigEndian.AppendUint32(nil, loggedMark)}}
}
