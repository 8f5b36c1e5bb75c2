package netbridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// upWait bounds awaitUp. The kernel needs a millisecond, and a second when it announces many
// links.
const upWait = 5 * time.Second

// awaitUp waits until the link is operational. The kernel notices a carrier
// asynchronously; until it does, a bridge port forwards nothing, and an agent
// would lose its first packet and a second to its retransmission.
func awaitUp(ctx context.Context, h *netlink.Handle, index int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, upWait, errors.New("it did not come up in time"))
	defer cancel()
	const first, most = time.Millisecond / 2, 20 * time.Millisecond
	for wait := first; ; wait = min(2*wait, most) {
		l, err := h.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("wait for link %d: %w", index, err)
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for link %s: %w", l.Attrs().Name, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// setMTU changes a link's MTU if it differs.
func setMTU(h *netlink.Handle, l netlink.Link, mtu int) error {
	if l.Attrs().MTU == mtu {
		return nil
	}
	if err := h.LinkSetMTU(l, mtu); err != nil {
		return fmt.Errorf("MTU %d of %s: %w", mtu, l.Attrs().Name, err)
	}
	return nil
}

// deleteLink deletes a link; a missing link is success.
func (c *change) deleteLink(l netlink.Link) error {
	err := c.nl.LinkDel(l)
	if err == nil || errors.Is(err, unix.ENODEV) || isNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete link %s: %w", l.Attrs().Name, err)
}

func isNotFound(err error) bool {
	var nf netlink.LinkNotFoundError
	return errors.As(err, &nf)
}
