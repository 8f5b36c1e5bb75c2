package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/isolation"
	"polis/daemon/patrol"
	"polis/lockd"
)

// maxTable bounds what is read of a table of /proc/PID/net, in bytes, and maxStates the processes
// of an agent whose states are read.
const (
	maxTable  = 1 << 20
	maxStates = 4096
)

// measureLiving adds the kernel's counters to what the shim says of an agent that runs.
func (d *Daemon) measureLiving(v *agent.Living) {
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
	procs, err := g.Procs()
	if err != nil {
		v.Err = err
		return
	}
	v.Sample.Calls = callBytes(procs)
	if isolation.Lacks(d.missingIsolation, isolation.Network) {
		return
	}
	if v.Sample.Net, err = netBytes(v.InitPID); err != nil {
		v.Err = err
	}
}

// leaseWaiters are the agents that wait for a lease, with its path.
func (d *Daemon) leaseWaiters() map[string]string {
	out := map[string]string{}
	for _, l := range d.locks.List(lockd.Filter{}) {
		for _, w := range l.Waiting {
			out[w.Holder] = lockd.FilePath(l.Path)
		}
	}
	return out
}

// saidWaits is what an agent waits for as its shim says, which the patrol knows of every agent.
func saidWaits(v agent.Living) patrol.Waits {
	if w := v.Waiting; w != nil && w.For == api.WaitingApproval {
		return patrol.Waits{For: "the answer to question " + w.ID}
	}
	return patrol.Waits{}
}

// waitsOf says what a suspect waits for. What cannot be found out is a reason to leave it alone.
func (d *Daemon) waitsOf(v agent.Living, leases map[string]string) patrol.Waits {
	if p, ok := leases[v.Agent]; ok {
		return patrol.Waits{For: "a lease on " + strconv.Quote(p)}
	}
	if w := saidWaits(v); w.For != "" {
		return w
	}
	if v.InitPID == 0 {
		return patrol.Waits{}
	}
	at, _ := d.cgroupPath(v.Agent)
	g, err := d.cg.Group(at)
	if err == nil {
		var procs []int
		if procs, err = g.Procs(); err == nil {
			if pid := stoppedOf(procs); pid != 0 {
				return patrol.Waits{For: fmt.Sprintf("process %d, which is stopped by a signal or a debugger", pid)}
			}
		}
	}
	if err != nil {
		return patrol.Waits{For: "something unknown: " + err.Error()}
	}
	if isolation.Lacks(d.missingIsolation, isolation.Network) {
		return patrol.Waits{For: "something unknown: it shares the host's network, whose connections say nothing of it"}
	}
	n, err := connections(v.InitPID)
	if err != nil {
		return patrol.Waits{For: "something unknown: " + err.Error()}
	}
	return patrol.Waits{Connections: n}
}

// stoppedOf returns a process that is stopped or traced (proc_pid_stat(5), state T and t); 0 if
// none is.
func stoppedOf(pids []int) int {
	for _, pid := range pids[:min(len(pids), maxStates)] {
		b, err := os.ReadFile(path.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The name before may contain anything.
		if _, state, ok := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " "); ok && (state[0] == 'T' || state[0] == 't') {
			return pid
		}
	}
	return 0
}

// callBytes is what processes read and wrote by system calls, rchar and wchar of proc_pid_io(5).
func callBytes(pids []int) (n uint64) {
	for _, pid := range pids[:min(len(pids), maxStates)] {
		b, err := os.ReadFile(path.Join("/proc", strconv.Itoa(pid), "io"))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(b)) {
			if key, value, _ := strings.Cut(line, ": "); key == "rchar" || key == "wchar" {
				if k, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
					n += k
				}
			}
		}
	}
	return n
}

// eachLine calls f for each line of a table of the network namespace of a process.
func eachLine(pid int, table string, f func(words []string)) error {
	file, err := os.Open(path.Join("/proc", strconv.Itoa(pid), "net", table))
	if err != nil {
		return fmt.Errorf("read the network's counters: %w", err)
	}
	defer file.Close()
	in := bufio.NewScanner(io.LimitReader(file, maxTable))
	for in.Scan() {
		f(strings.Fields(in.Text()))
	}
	return in.Err()
}

// netBytes is what the network namespace of a process received and sent (proc_pid_net(5)), without
// its loopback.
func netBytes(pid int) (n uint64, err error) {
	err = eachLine(pid, "dev", func(w []string) {
		if len(w) < 10 || !strings.HasSuffix(w[0], ":") || w[0] == "lo:" {
			return
		}
		for _, i := range []int{1, 9} {
			k, err := strconv.ParseUint(w[i], 10, 64)
			if err == nil {
				n += k
			}
		}
	})
	return n, err
}

// connections counts the TCP connections to the outside of the network namespace of a process that
// are established, or just being made.
func connections(pid int) (n int, err error) {
	for _, table := range []string{"tcp", "tcp6"} {
		terr := eachLine(pid, table, func(w []string) {
			// sl local remote st: 01 is ESTABLISHED, 02 SYN_SENT (net/tcp_states.h).
			if len(w) < 4 || w[3] != "01" && w[3] != "02" {
				return
			}
			if remote, _, ok := strings.Cut(w[2], ":"); ok && !loopbackHex(remote) {
				n++
			}
		})
		if !errors.Is(terr, fs.ErrNotExist) { // without IPv6 there is no tcp6
			err = cmp.Or(err, terr)
		}
	}
	return n, err
}

// loopbackHex says whether an address of /proc/net/tcp is of 127.0.0.0/8, ::1, or the former as
// IPv6. Its words are in the order of the host, which is little-endian on all that polis runs on.
func loopbackHex(a string) bool {
	const mapped = "0000000000000000FFFF0000"
	a = strings.TrimPrefix(a, mapped)
	return len(a) == 8 && strings.HasSuffix(a, "7F") || a == "00000000000000000000000001000000"
}
