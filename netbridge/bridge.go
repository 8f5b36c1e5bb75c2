package netbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Config identifies an instance's network.
type Config struct {
	// Instance distinguishes the daemons of one machine (the run directory, for example). Empty
	// means the plain names: bridge polis0, table polis.
	Instance string
	// Pool is where the instance takes its /22 from; DefaultPool if zero. A subnet that the
	// instance's bridge already has takes precedence.
	Pool netip.Prefix
	// NetnsDir holds one bind-mounted nsfs file per agent, for example /run/polis/netns. It is
	// created with mode 0700 if it is missing.
	NetnsDir string
	// LockFile serialises all daemons of the machine; DefaultLockFile if empty.
	LockFile string
	// Log receives changes and repairs; slog.Default if nil.
	Log *slog.Logger
}

// Endpoint is an agent's place in the network.
type Endpoint struct {
	NetNS   string     // nsfs file to join
	Addr    netip.Addr // the agent's address on eth0, a /32
	Gateway netip.Addr // the bridge's address
	Link    string     // host end of the veth pair
	Table   string     // nftables table with the agent's [Gate]
}

// Bridge is the network of one daemon instance. It holds no state that matters: every call reads
// the kernel's state and brings it to the desired one.
type Bridge struct {
	cfg   Config
	names names
	log   *slog.Logger
	turn  chan struct{} // one change at a time; a channel, so that waiting can be cancelled

	probing chan struct{} // one test packet at a time

	// The rest belongs to the holder of turn.

	// last is the subnet that the bridge had last, for when another program takes its address away.
	last netip.Prefix
	// lost are the agents whose gates lost their rules with the table, until Repair has reported them.
	lost map[string]bool
	// opened are the agents whose gates had rules in the last comparison.
	opened map[string]bool
	// doubtful are gates that were not whole in the last check: their shim may have been writing them.
	doubtful map[string]bool
	// noBarrier: the kernel has no barrier (barrier.go).
	noBarrier bool
}

// New checks the configuration. It changes nothing on the machine.
func New(cfg Config) (*Bridge, error) {
	if !cfg.Pool.IsValid() {
		cfg.Pool = DefaultPool()
	}
	if err := checkPool(cfg.Pool); err != nil {
		return nil, err
	}
	cfg.Pool = cfg.Pool.Masked()
	if !filepath.IsAbs(cfg.NetnsDir) {
		return nil, fmt.Errorf("directory for network namespaces %q: want an absolute path", cfg.NetnsDir)
	}
	if cfg.LockFile == "" {
		cfg.LockFile = DefaultLockFile
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Bridge{cfg: cfg, names: namesFor(cfg.Instance), log: cfg.Log, turn: make(chan struct{}, 1), probing: make(chan struct{}, 1), lost: map[string]bool{}, doubtful: map[string]bool{}, opened: map[string]bool{}}, nil
}

// Name is the bridge interface.
func (b *Bridge) Name() string { return b.names.bridge }

// Table is the nftables table (family inet).
func (b *Bridge) Table() string { return b.names.table }

// change is one change of the machine's network, under the lock.
type change struct {
	*Bridge
	nl *netlink.Handle
}

// locked runs fn alone on the machine. last reports that no polis network is
// left, so that the lock file can go as well.
func (b *Bridge) locked(ctx context.Context, fn func(c *change) (last bool, err error)) (err error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	unlock, err := lockFile(ctx, b.cfg.LockFile)
	if err != nil {
		return err
	}
	var last bool
	defer func() { err = errors.Join(err, unlock(last)) }()
	h, err := hostHandle()
	if err != nil {
		return err
	}
	defer h.Close()
	last, err = fn(&change{Bridge: b, nl: h})
	return err
}

func hostHandle() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return h, nil
}

// ownVeth is the host end of one of our pairs, with its parsed alias.
type ownVeth struct {
	link  netlink.Link
	alias vethAlias
}

// scan is the result of one dump of the links.
type scan struct {
	bridge   netlink.Link // ours, or nil
	mark     bridgeAlias  // of our bridge
	foreign  bool         // our bridge's name is taken by another program's link
	others   []netlink.Link
	veths    []ownVeth      // of this instance
	halfMade []netlink.Link // veths of any instance that never got their alias
}

func (c *change) scan() (scan, error) { return scanLinks(c.nl, c.names.bridge) }

func scanLinks(h *netlink.Handle, bridge string) (scan, error) {
	var links []netlink.Link
	err := retryInterrupted(func() (err error) {
		links, err = h.LinkList()
		return err
	})
	if err != nil {
		return scan{}, fmt.Errorf("list links: %w", err)
	}
	var s scan
	for _, l := range links {
		a := l.Attrs()
		mark, marked := parseBridgeAlias(a.Alias)
		switch {
		case a.Name == bridge:
			// A bridge without an alias: its creator was killed before it set one.
			if l.Type() == "bridge" && (marked || a.Alias == "") {
				s.bridge, s.mark = l, mark
			} else {
				s.foreign = true
			}
		case l.Type() == "bridge" && marked:
			s.others = append(s.others, l)
		case l.Type() == "veth" && vethName.MatchString(a.Name):
			if alias, ok := parseVethAlias(a.Alias); ok && alias.bridge == bridge {
				s.veths = append(s.veths, ownVeth{l, alias})
			} else if a.Alias == "" {
				s.halfMade = append(s.halfMade, l)
			}
		}
	}
	return s, nil
}

// List names every agent of the instance that has anything in the kernel, also
// half of it: what creation or removal left behind when it was killed.
func (b *Bridge) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	h, err := hostHandle()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	s, err := scanLinks(h, b.names.bridge)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, v := range s.veths {
		seen[v.alias.agent] = true
	}
	files, err := os.ReadDir(b.cfg.NetnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	for _, f := range files {
		if checkAgent(f.Name()) == nil {
			seen[f.Name()] = true
		}
	}
	return sortedKeys(seen), nil
}

func sortedKeys(m map[string]bool) []string {
	return slices.SortedFunc(maps.Keys(m), strings.Compare)
}
