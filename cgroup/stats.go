package cgroup

import (
	"errors"
	"fmt"
	"time"
)

// Stats is the resource use of a group. Numbers of controllers the host lacks are 0.
type Stats struct {
	MemoryBytes     uint64        // in use now, page cache included
	MemoryPeakBytes uint64        // highest use so far; 0 on kernels that do not count it
	MemoryLimit     uint64        // 0: no limit
	CPU             time.Duration // processor time used
	Pids            uint64        // processes and threads now
	PidsLimit       uint64        // 0: no limit
	OOMKills        uint64        // processes killed for memory since the group was made
}

// Stats reads the counters of the group. It fails with [ErrNotFound] when the
// group is gone.
func (g *Group) Stats() (Stats, error) {
	var s Stats
	if !g.Exists() {
		return s, fmt.Errorf("stats of cgroup %s: %w", g.Path, ErrNotFound)
	}
	var usec, nsec uint64
	fields := []struct {
		controller, v1, v2 string
		key                string // in a "key value" file of v2
		into               *uint64
	}{
		{memory, "memory.usage_in_bytes", "memory.current", "", &s.MemoryBytes},
		{memory, "memory.max_usage_in_bytes", "memory.peak", "", &s.MemoryPeakBytes},
		{memory, "memory.limit_in_bytes", "memory.max", "", &s.MemoryLimit},
		{pids, "pids.current", "pids.current", "", &s.Pids},
		{pids, "pids.max", "pids.max", "", &s.PidsLimit},
		{"cpuacct", "cpuacct.usage", "", "", &nsec},
		{cpu, "", "cpu.stat", "usage_usec", &usec},
	}
	for _, f := range fields {
		hier, ok := g.host.controller(f.controller)
		file := f.v1
		if hier.v2 {
			file = f.v2
		}
		if !ok || file == "" {
			continue
		}
		var err error
		if f.key != "" {
			*f.into, err = readKey(g.dir(hier), file, f.key)
		} else {
			*f.into, err = readUint(g.dir(hier), file)
		}
		if err != nil && !gone(err) {
			return s, fmt.Errorf("stats of cgroup %s: %w", g.Path, err)
		}
	}
	s.CPU = time.Duration(usec)*time.Microsecond + time.Duration(nsec)
	var err error
	s.OOMKills, err = g.OOMKills()
	return s, err
}

// OOMKills counts the processes of the group that the kernel killed for memory since the group
// was made. A missing group, or a host without a memory controller, returns 0.
func (g *Group) OOMKills() (uint64, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return 0, nil
	}
	file := "memory.oom_control"
	if hier.v2 {
		file = "memory.events"
	}
	n, err := readKey(g.dir(hier), file, "oom_kill")
	if err != nil && !gone(err) {
		return 0, fmt.Errorf("out-of-memory count of cgroup %s: %w", g.Path, err)
	}
	return n, nil
}

// Reclaims counts how often memory of the group was reclaimed: on v2 because it was at its
// limit, on v1, whose counters of that are not kept by every kernel, for any reason. A missing
// group, or a host without a memory controller, returns 0.
func (g *Group) Reclaims() (uint64, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return 0, nil
	}
	file, key := "memory.events", "max"
	if !hier.v2 {
		file, key = "memory.stat", "total_pgpgout"
	}
	n, err := readKey(g.dir(hier), file, key)
	if err != nil && !gone(err) {
		return 0, fmt.Errorf("reclaimed memory of cgroup %s: %w", g.Path, err)
	}
	return n, nil
}

// MemoryNeed is the memory in use that the kernel cannot reclaim by dropping page cache: the
// minimum for a limit. In bytes; 0 on a host without a memory controller.
func (g *Group) MemoryNeed() (uint64, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return 0, nil
	}
	usage, keys := "memory.current", []string{"inactive_file", "active_file", "slab_reclaimable"}
	if !hier.v2 {
		usage, keys = "memory.usage_in_bytes", []string{"total_inactive_file", "total_active_file"}
	}
	need, err := readUint(g.dir(hier), usage)
	for _, k := range keys {
		v, kerr := readKey(g.dir(hier), "memory.stat", k)
		need, err = need-min(v, need), errors.Join(err, kerr)
	}
	if err != nil {
		return 0, fmt.Errorf("memory of cgroup %s: %w", g.Path, err)
	}
	return need, nil
}
