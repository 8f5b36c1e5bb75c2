package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Limits are what a group may use. Zero means: no limit of its own.
type Limits struct {
	MemoryBytes int64 // memory and swap together; above it the kernel kills
	Pids        int64 // processes and threads
	CPUWeight   int64 // share of the processor under contention: 1 to 10000, 100 is everybody's
}

// Validate says what is wrong with the limits.
func (l Limits) Validate() error {
	const least = 1 << 20 // less than the sandbox's own init needs
	switch {
	case l.MemoryBytes < 0 || l.MemoryBytes > 0 && l.MemoryBytes < least:
		return fmt.Errorf("memory limit of %d bytes: at least %d or 0", l.MemoryBytes, least)
	case l.Pids < 0:
		return fmt.Errorf("process limit %d: at least 1 or 0", l.Pids)
	case l.CPUWeight < 0 || l.CPUWeight > 10000:
		return fmt.Errorf("cpu weight %d: 1 to 10000 or 0", l.CPUWeight)
	}
	return nil
}

// controllers are those that the limits need. Memory and pids are wanted also
// without a limit, for the counts.
func (l Limits) controllers() []string {
	out := []string{memory, pids}
	if l.CPUWeight > 0 {
		out = append(out, cpu)
	}
	return out
}

// SetLimits sets the limits of an existing group. Lowering the memory limit
// below what is in use makes the kernel reclaim, and on v2 kill.
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
		// The limit counts swap too: none beyond it. A kernel without swap
		// accounting has no such file.
		if err := optional(writeFile(dir, "memory.swap.max", "0")); err != nil {
			return err
		}
		// A program that lost one of its processes is rarely of use: the
		// sandbox goes as a whole, except what asks to be spared.
		if err := optional(writeFile(dir, "memory.oom.group", "1")); err != nil {
			return err
		}
	}
	if err := writeFile(dir, "pids.max", orMax(l.Pids)); err != nil {
		return err
	}
	if l.CPUWeight > 0 {
		return writeFile(dir, "cpu.weight", strconv.FormatInt(l.CPUWeight, 10))
	}
	return nil
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
	if l.CPUWeight == 0 {
		return nil
	}
	c, ok := g.host.controller(cpu)
	if !ok {
		return &ControllerError{Controller: cpu, Path: g.Path}
	}
	return writeFile(g.dir(c), "cpu.shares", strconv.FormatInt(shares(l.CPUWeight), 10))
}

// shares turns a v2 weight into v1 shares as systemd does: the default of the
// one is the default of the other.
func shares(weight int64) int64 { return min(max(weight*1024/100, 2), 262144) }

// setMemoryV1 sets memory and memory+swap to the same value. The kernel wants
// memory <= memory+swap at every step, so the order depends on the direction.
func setMemoryV1(dir string, bytes int64) error {
	value := strconv.FormatInt(bytes, 10)
	if bytes <= 0 {
		value = "-1"
	}
	const plain, swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	err := writeFile(dir, plain, value)
	if serr := optional(writeFile(dir, swap, value)); serr != nil {
		return serr
	}
	if err != nil {
		err = writeFile(dir, plain, value)
	}
	return err
}

// optional forgives a file that this kernel does not have.
func optional(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
