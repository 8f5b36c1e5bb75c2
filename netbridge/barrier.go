package netbridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The barrier is a filter of traffic control (tc-bpf(8)) where the bridge hands packets to the host. It drops
// every packet that the chain of an agent's link has not marked. So when the table is lost (an administrator's
// "nft flush ruleset", for example), agents reach nothing until it is back. It belongs to the bridge: no command
// for nftables or iptables changes it, and it needs no daemon.
//
// The program is of classic BPF: it needs neither bpf(2) nor a map, and its text can be read back.
const (
	barrierPriority = 1
	barrierHandle   = 1
)

// Of linux/filter.h, which x/sys lacks, and linux/pkt_cls.h.
const (
	skfAdOff      = 0xfffff000 // SKF_AD_OFF
	skfAdProtocol = skfAdOff + 0
	skfAdMark     = skfAdOff + 20

	tcActOK   = 0
	tcActShot = 2
)

// barrierProgram lets pass ARP and what has the mark of a link's chain.
func barrierProgram() []byte {
	const pass, drop = tcActOK, tcActShot
	var out []byte
	for _, in := range []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: skfAdProtocol},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: unix.ETH_P_ARP},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: skfAdMark},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jf: 1, K: linkMark},
		{Code: unix.BPF_RET | unix.BPF_K, K: pass},
		{Code: unix.BPF_RET | unix.BPF_K, K: drop},
	} {
		out = binary.NativeEndian.AppendUint16(out, in.Code)
		out = append(out, in.Jt, in.Jf)
		out = binary.NativeEndian.AppendUint32(out, in.K)
	}
	return out
}

// ensureBarrier adds the barrier, or replaces one that differs. ErrNoBarrier: the kernel cannot.
func ensureBarrier(h *netlink.Handle, br netlink.Link) error {
	index := br.Attrs().Index
	if ok, err := hasBarrier(index); err != nil || ok {
		return err
	}
	qdisc := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := h.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w: add clsact to %s: %w", ErrNoBarrier, br.Attrs().Name, err)
	}
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	program := barrierProgram()
	options.AddRtAttr(nl.TCA_BPF_OPS_LEN, nl.Uint16Attr(uint16(len(program)/unix.SizeofSockFilter)))
	options.AddRtAttr(nl.TCA_BPF_OPS, program)
	options.AddRtAttr(nl.TCA_BPF_FLAGS, nl.Uint32Attr(nl.TCA_BPF_FLAG_ACT_DIRECT))
	req := nl.NewNetlinkRequest(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_ACK)
	req.AddData(barrierMessage(index))
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bpf")))
	req.AddData(options)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("%w: add a filter to %s: %w", ErrNoBarrier, br.Attrs().Name, err)
	}
	return nil
}

func barrierMessage(index int) *nl.TcMsg {
	return &nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(index), Handle: barrierHandle, Parent: netlink.HANDLE_MIN_INGRESS,
		Info: netlink.MakeHandle(barrierPriority, nl.Swap16(unix.ETH_P_ALL))}
}

// removeBarrier removes the filter; a missing one is success. The discipline stays, because others may use it.
func removeBarrier(br netlink.Link) error {
	req := nl.NewNetlinkRequest(unix.RTM_DELTFILTER, unix.NLM_F_ACK)
	req.AddData(barrierMessage(br.Attrs().Index))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the filter of %s: %w", br.Attrs().Name, err)
	}
	return nil
}

// LowerBarrier removes the barrier until the next [Bridge.EnsureShared], for a daemon of an earlier version that takes
// over: its rules set no mark.
func (b *Bridge) LowerBarrier(ctx context.Context) error {
	return b.locked(ctx, func(c *change) (bool, error) {
		s, err := c.scan()
		if err != nil || s.bridge == nil {
			return false, err
		}
		return false, removeBarrier(s.bridge)
	})
}

// LowerBarrier is as that of [Bridge], for the shim of an agent that an older daemon has adopted.
func (g Gate) LowerBarrier() error {
	h, err := hostHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	l, err := h.LinkByName(g.Link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", g.Link, err)
	}
	br, err := h.LinkByIndex(l.Attrs().MasterIndex)
	if err != nil {
		return fmt.Errorf("find the bridge of link %s: %w", g.Link, err)
	}
	return removeBarrier(br)
}

// hasBarrier reads the filters of a link. A link without clsact has none.
func hasBarrier(index int) (found bool, err error) {
	err = retryInterrupted(func() error {
		found = false
		req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(index), Parent: netlink.HANDLE_MIN_INGRESS})
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			tc := nl.DeserializeTcMsg(m)
			prio, _ := netlink.MajorMinor(tc.Info)
			if tc.Handle != barrierHandle || prio != barrierPriority {
				continue
			}
			found, err = isBarrier(m[tc.Len():])
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the filters of link %d: %w", index, err)
	}
	return found, nil
}

// isBarrier reports whether the attributes of a filter are those of ensureBarrier.
func isBarrier(b []byte) (bool, error) {
	attrs, err := nl.ParseRouteAttr(b)
	if err != nil {
		return false, err
	}
	var kind, program bool
	var flags uint32
	for _, a := range attrs {
		switch a.Attr.Type {
		case nl.TCA_KIND:
			kind = string(bytes.TrimRight(a.Value, "\x00")) == "bpf"
		case nl.TCA_OPTIONS, nl.TCA_OPTIONS | unix.NLA_F_NESTED:
			options, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return false, err
			}
			for _, o := range options {
				switch o.Attr.Type {
				case nl.TCA_BPF_OPS:
					program = bytes.Equal(o.Value, barrierProgram())
				case nl.TCA_BPF_FLAGS:
					flags = binary.NativeEndian.Uint32(o.Value)
				}
			}
		}
	}
	return kind && program && flags&nl.TCA_BPF_FLAG_ACT_DIRECT != 0, nil
}
