package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"
)

// Limits are the limits of a group. Zero means no limit of its own.
type Limits struct {
	MemoryBytes int64 // memory and swap together; above it the kernel kills
	Pids        int64 // processes and threads
	CPUWeight   int64 // share of the processor under contention: 1 to 10000, default 100
	CPUPercent  int64 // hard limit of processor time: 100 is one whole processor
	IOWeight    int64 // share of the disks under contention: 1 to 1000, default 100
}

// MaxCPUPercent is 1000 processors.
const MaxCPUPercent = 100_000

// Validate returns an error that names the first bad limit.
func (l Limits) Validate() error {
	const least = 1 << 20 // less than the sandbox's own init needs
	switch {
	case l.MemoryBytes < 0 || l.MemoryBytes > 0 && l.MemoryBytes < least:
		return fmt.Errorf("memory limit of %d bytes: at least %d or 0", l.MemoryBytes, least)
	case l.Pids < 0:
		return fmt.Errorf("process limit %d: at least 1 or 0", l.Pids)
	case l.CPUWeight < 0 || l.CPUWeight > 10000:
		return fmt.Errorf("cpu weight %d: 1 to 10000 or 0", l.CPUWeight)
	case l.CPUPercent < 0 || l.CPUPercent > MaxCPUPercent:
		return fmt.Errorf("cpu limit of %d percent: 1 to %d or 0", l.CPUPercent, MaxCPUPercent)
	case l.IOWeight < 0 || l.IOWeight > 1000:
		return fmt.Errorf("io weight %d: 1 to 1000 or 0", l.IOWeight)
	}
	return nil
}

// controllers are those that the limits need. Memory and pids are enabled also without a limit,
// for their counters.
func (l Limits) controllers() []string {
	out := []string{memory, pids}
	if l.CPUWeight > 0 || l.CPUPercent > 0 {
		out = append(out, cpu)
	}
	if l.IOWeight > 0 {
		out = append(out, disks)
	}
	return out
}

// SetLimits sets the limits of an existing group. If the memory limit falls below the use, the
// kernel reclaims; if that is not enough, v2 kills and v1 returns EBUSY. A weight of 0 is the
// default, 100.
func (g *Group) SetLimits(l Limits) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", g.Path, err)
	}
	set := g.setV1
	if g.host.Mode == V2 {
		set = g.setV2
	}
	if err := set(l); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", g.Path, err)
	}
	return nil
}

func orMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func (g *Group) setV2(l Limits) error {
	dir := g.dir(g.host.hierarchies[0])
	if err := writeFile(dir, "memory.max", orMax(l.MemoryBytes)); err != nil {
		return err
	}
	if l.MemoryBytes > 0 {
		// The memory limit includes swap: none is allowed beyond it. A kernel without swap
		// accounting has no such file.
		if err := optional(writeFile(dir, "memory.swap.max", "0")); err != nil {
			return err
		}
		// The kernel kills one process, as v1 does, and not the whole group: an agent's program
		// continues when one that it started was too large.
		if err := optional(writeFile(dir, "memory.oom.group", "0")); err != nil {
			return err
		}
	}
	if err := writeFile(dir, "pids.max", orMax(l.Pids)); err != nil {
		return err
	}
	return errors.Join(g.setCPU(l), g.setIO(l))
}

func (g *Group) setV1(l Limits) error {
	mem, ok := g.host.controller(memory)
	if ok {
		if err := setMemoryV1(g.dir(mem), l.MemoryBytes); err != nil {
			return err
		}
	} else if l.MemoryBytes > 0 {
		return &ControllerError{Controller: memory, Path: g.Path}
	}
	p, ok := g.host.controller(pids)
	if ok {
		if err := writeFile(g.dir(p), "pids.max", orMax(l.Pids)); err != nil {
			return err
		}
	} else if l.Pids > 0 {
		return &ControllerError{Controller: pids, Path: g.Path}
	}
	return errors.Join(g.setCPU(l), g.setIO(l))
}

// setMemoryV1 sets memory and memory+swap to the same value. The kernel requires memory <=
// memory+swap at every step, so the order depends on the direction.
func setMemoryV1(dir string, bytes int64) error {
	value := strconv.FormatInt(bytes, 10)
	if bytes <= 0 {
		value = "-1"
	}
	const plain, swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	err := writeFile(dir, plain, value)
	if errors.Is(err, unix.EBUSY) {
		return err // the memory in use exceeds the limit
	}
	if serr := optional(writeFile(dir, swap, value)); serr != nil {
		return serr
	}
	if err != nil {
		err = writeFile(dir, plain, value)
	}
	return err
}

// optional ignores the error of a file that this kernel does not have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
