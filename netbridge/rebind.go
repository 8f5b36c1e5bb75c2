package netbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nsfsMagic is NSFS_MAGIC of linux/magic.h.
const nsfsMagic = 0x6e736673

// isMounted reports whether a namespace file still is one: "umount" of an administrator leaves an empty file.
func isMounted(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == nsfsMagic
}

// rebind mounts the namespace of a living agent on its file again, if another program has unmounted it. A new namespace
// would cut the agent off: its processes stay in the one that they have. If no process is in it, nothing is done.
func (c *change) rebind(ctx context.Context, agent string, s scan) error {
	path := c.netnsFile(agent)
	if isMounted(path) {
		return nil
	}
	for _, v := range s.veths {
		if v.alias.agent != agent {
			continue
		}
		ns, err := findNetNS(ctx, v)
		if err != nil || ns == nil {
			return err
		}
		err = bindNetNS(ns, path)
		if err == nil {
			c.log.Warn("network namespace of an agent mounted again", "agent", agent, "op", "net.ensure", "path", path)
		}
		return errors.Join(err, ns.Close())
	}
	return nil
}

// bindNetNS mounts an open namespace on a file, which is made if it is missing.
func bindNetNS(ns *os.File, path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("namespace file: %w", err)
	}
	err = f.Close()
	if merr := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", ns.Fd()), path, "", unix.MS_BIND, ""); merr != nil {
		err = errors.Join(err, fmt.Errorf("bind network namespace to %s: %w", path, merr))
	}
	return err
}

// findNetNS searches the processes of the machine for the namespace that has the other end of a link; nil if there is
// none.
func findNetNS(ctx context.Context, v ownVeth) (*os.File, error) {
	files, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	for _, path := range append([]string{"/proc/thread-self/ns/net"}, files...) {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || seen[st.Ino] {
			continue // the process has exited, or its namespace was read
		}
		own := len(seen) == 0
		seen[st.Ino] = true
		if own {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if hasPeer(ctx, f, v) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
}

// hasPeer reports whether a namespace has the agent's end of a link.
func hasPeer(ctx context.Context, f *os.File, v ownVeth) bool {
	ns, err := startNS(f.Name(), func() error { return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) })
	if err != nil {
		return false // it is of another kind, or gone
	}
	defer ns.Close() //nolint:errcheck // nothing was written
	inner, err := (&pair{ns: ns}).innerLink(ctx)
	return err == nil && inner != nil && isPeer(inner, v)
}

func isPeer(inner netlink.Link, v ownVeth) bool {
	a := inner.Attrs()
	return a.ParentIndex == v.link.Attrs().Index && bytes.Equal(a.HardwareAddr, macFor(v.alias.addr))
}
