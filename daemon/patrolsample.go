package daemon

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/agent"
	"polis/daemon/isolation"
	"polis/daemon/procstat"
)

// maxRefs bounds the refs of an agent that are read in a cycle, and maxRef what is read of one, in
// bytes: the agent writes them.
const (
	maxRefs = 32
	maxRef  = 256
)

// measureLiving adds the kernel's counters to what the shim reports of an agent that runs. last is
// what was measured before, or nil.
func (d *Daemon) measureLiving(v, last *agent.Living) {
	if v.InitPID == 0 || v.Err != nil {
		return
	}
	at, _ := d.cgroupPath(v.Agent)
	g, err := d.cg.Group(at)
	if err != nil {
		v.Err = err
		return
	}
	if v.Sample.CPU, err = g.CPUTime(); err != nil {
		v.Err = err
		return
	}
	read, stored := g.DiskBytes()
	v.Sample.Disk, v.Sample.Stored = read+stored, stored
	v.Sample.Refs = d.refsOf(*v)
	if stood(v, last) {
		v.Began, v.Sample.Calls, v.Sample.Net = last.Began, last.Sample.Calls, last.Sample.Net
		return
	}
	procs, err := g.Procs()
	if err != nil {
		v.Err = err
		return
	}
	v.Sample.Calls = procstat.CallBytes(procs)
	v.Began, _ = procstat.Began(v.PID) //nolint:errcheck // it has ended
	if isolation.Lacks(d.missingIsolation, isolation.Network) {
		return
	}
	if v.Sample.Net, err = procstat.NetBytes(v.InitPID); err != nil {
		v.Err = err
	}
}

// stood reports whether no process of an agent ran since last was measured: then none of them made a
// system call, and what came by the network was not read. Reading their counters costs most of a
// measurement.
func stood(v, last *agent.Living) bool {
	return last != nil && last.Err == nil && last.Created.Equal(v.Created) && last.Generation == v.Generation && last.InitPID == v.InitPID && last.PID == v.PID && last.Sample.CPU == v.Sample.CPU
}

// refsOf is a fingerprint of an agent's HEAD, its branch, and the refs that it made. It runs no
// git, and follows no link out of the repository.
func (d *Daemon) refsOf(v agent.Living) uint64 {
	d.mu.Lock()
	w := d.workspaces[v.Workspace]
	d.mu.Unlock()
	if w == nil || w.branches == nil {
		return 0
	}
	h := fnv.New64a()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if tips, err := w.branches.Last(ctx); err == nil {
		_, _ = io.WriteString(h, tips.Of[v.Agent]) //nolint:errcheck // it never fails
	}
	root, err := os.OpenRoot(w.git.Bare().Dir)
	if err != nil {
		return h.Sum64()
	}
	defer root.Close()
	for _, name := range append([]string{path.Join("worktrees", v.Agent, "HEAD")}, v.OwnedRefs[:min(len(v.OwnedRefs), maxRefs)]...) {
		_, _ = fmt.Fprintf(h, "\x00%s\x00%s", name, readRef(root, name)) //nolint:errcheck // it never fails
	}
	return h.Sum64()
}

// readRef returns the beginning of a file below root; empty if it is not a regular one.
func readRef(root *os.Root, name string) []byte {
	// O_NONBLOCK: opening a FIFO must not block.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRef))
	if err != nil {
		return nil
	}
	return b
}
