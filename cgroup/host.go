package cgroup

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mode is how a machine mounts its control groups.
type Mode string

// The modes. Hybrid is v1 controllers with a cgroup v2 tree beside them, as
// systemd mounts at /sys/fs/cgroup/unified.
const (
	V2     Mode = "v2"
	V1     Mode = "v1"
	Hybrid Mode = "hybrid"
)

// Controllers the package sets limits with.
const (
	memory = "memory"
	pids   = "pids"
	cpu    = "cpu"
	disks  = "io"    // of v2
	blkio  = "blkio" // the same of v1
)

// hierarchy is one mounted tree of groups.
type hierarchy struct {
	v2          bool
	root        string   // where it is mounted
	inner       string   // the group that the mount shows as its root; "/" unless in a container
	controllers []string // v1 only: its controllers, or "name=..."
}

// Host is the set of hierarchies of a machine. It does not change after
// [Detect] and may be used by several goroutines.
type Host struct {
	Mode        Mode
	hierarchies []hierarchy
}

// Detect reads the mounted hierarchies. It returns [ErrNone] on a machine without cgroups.
func Detect() (*Host, error) {
	// Not /proc/self: that is the first thread, which in a program that makes
	// sandboxes need not be in the host's mount namespace.
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	defer f.Close()
	return parseHost(f)
}

// v1Controllers are the super block options of a v1 mount that name its controllers; every other
// option is a mount option.
var v1Controllers = []string{
	"blkio", "cpu", "cpuacct", "cpuset", "debug", "devices", "freezer", "hugetlb",
	"memory", "misc", "net_cls", "net_prio", "perf_event", "pids", "rdma",
}

func parseHost(r io.Reader) (*Host, error) {
	h := &Host{}
	seen := make(map[string]bool)
	mounts, err := mountinfo.GetMountsFromReader(r, mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("detect cgroups: %w", err)
	}
	for _, m := range mounts {
		// 31 23 0:28 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
		hier := hierarchy{root: m.Mountpoint, inner: m.Root, v2: m.FSType == "cgroup2"}
		if !hier.v2 {
			for o := range strings.SplitSeq(m.VFSOptions, ",") {
				if slices.Contains(v1Controllers, o) || strings.HasPrefix(o, "name=") {
					hier.controllers = append(hier.controllers, o)
				}
			}
		}
		// The same hierarchy mounted a second time (a bind for some container)
		// is not another one. The first mount is the system's own.
		key := strings.Join(hier.controllers, ",")
		if seen[key] {
			continue
		}
		seen[key] = true
		h.hierarchies = append(h.hierarchies, hier)
	}
	var v1, v2 bool
	for _, hier := range h.hierarchies {
		v1, v2 = v1 || !hier.v2, v2 || hier.v2
	}
	switch {
	case v1 && v2:
		h.Mode = Hybrid
	case v2:
		h.Mode = V2
	case v1:
		h.Mode = V1
	default:
		return nil, ErrNone
	}
	return h, nil
}

// controller returns the hierarchy of the controller on a v1 or hybrid host, or the v2 one of a
// pure v2 host.
func (h *Host) controller(name string) (hierarchy, bool) {
	for _, hier := range h.hierarchies {
		if h.Mode == V2 || slices.Contains(hier.controllers, name) {
			return hier, true
		}
	}
	return hierarchy{}, false
}

// Has reports whether groups can be made with the controller, such as "memory".
func (h *Host) Has(controller string) bool {
	hier, ok := h.controller(controller)
	if !ok || !hier.v2 {
		return ok
	}
	names, err := readFields(hier.root, "cgroup.controllers")
	return err == nil && slices.Contains(names, controller)
}

// Own returns the group of the calling process, as a path below the mount points, such as
// "/polis.slice/polis-agent@x.service" in a systemd unit. On v1 and hybrid hosts it is the path
// in systemd's own hierarchy.
func (h *Host) Own() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("own cgroup: %w", err)
	}
	return h.parseOwn(string(b))
}

// OwnMemoryLimit returns the memory limit of the calling process's own group, in bytes: in a
// container it is the container's. 0: the group has none, is the root, or cannot be read.
func (h *Host) OwnMemoryLimit() uint64 {
	own, err := h.Own()
	if err != nil || own == "/" {
		return 0
	}
	g, err := h.Group(own)
	if err != nil {
		return 0
	}
	s, err := g.Stats()
	if err != nil {
		return 0
	}
	return s.MemoryLimit
}

func (h *Host) parseOwn(text string) (string, error) {
	best, rank := "", -1
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		r := 0
		switch {
		case parts[1] == "" && h.Mode == V2, parts[1] == "name=systemd":
			r = 3
		case parts[1] == "" && h.Mode == Hybrid:
			r = 2
		case strings.Contains(","+parts[1]+",", ",memory,"):
			r = 1
		}
		if r > rank {
			if p, ok := h.visible(parts[1], parts[2]); ok {
				best, rank = p, r
			}
		}
	}
	if rank < 0 {
		return "", fmt.Errorf("own cgroup: %w", ErrNone)
	}
	return best, nil
}

// visible converts a path of /proc/*/cgroup to one below the mount point. They differ in a
// container without a cgroup namespace, where a mount shows only a part of the tree.
func (h *Host) visible(controllers, p string) (string, bool) {
	for _, hier := range h.hierarchies {
		if strings.Join(hier.controllers, ",") != controllers {
			continue
		}
		if hier.inner == "/" || hier.inner == "" {
			return path.Clean("/" + p), true
		}
		if rest, ok := strings.CutPrefix(p, hier.inner); ok && (rest == "" || rest[0] == '/') {
			return path.Clean("/" + rest), true
		}
		return "", false
	}
	return "", false
}

// Sub returns the path of the group called name directly below base. It fails
// with [ErrPath] when either is no plain name or path.
func Sub(base, name string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00\n") {
		return "", fmt.Errorf("%w: name %q", ErrPath, name)
	}
	if !strings.HasPrefix(base, "/") || path.Clean(base) != base {
		return "", fmt.Errorf("%w: %q", ErrPath, base)
	}
	return path.Join(base, name), nil
}

// validate rejects everything but a clean absolute path below the root.
func validate(p string) error {
	if !strings.HasPrefix(p, "/") || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "\x00\n") {
		return fmt.Errorf("%w: %q", ErrPath, p)
	}
	return nil
}
