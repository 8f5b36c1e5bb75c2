package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"polis/cgroup"
	"polis/daemon/api"
)

// Top measures the resource use of every running agent.
func (b *backend) Top(ctx context.Context) (api.Top, error) {
	t := b.live().Limits.Total
	top := api.Top{Agents: []api.TopAgent{}, Polisd: process(os.Getpid()),
		TotalLimits: api.TotalLimits{MemoryBytes: int64(t.MemoryMB) << 20, CPUPercent: t.CPU, Pids: t.Pids}}
	for _, a := range b.List(ctx, "") {
		if a.ShimPID == 0 {
			continue
		}
		row, err := b.use(a)
		if errors.Is(err, cgroup.ErrNotFound) {
			continue // it is stopping
		}
		if err != nil {
			return top, api.Errorf(api.CodeCgroupFailed, "measure agent %s: %w", a.Name, err)
		}
		top.Total.Add(row.Use)
		top.Agents = append(top.Agents, row)
	}
	top.Host.CPUs = runtime.NumCPU()
	var err error
	top.Host.MemoryBytes, top.Host.AvailableBytes, err = hostMemory()
	top.Time = time.Now()
	return top, err
}

func (b *backend) use(a api.Agent) (api.TopAgent, error) {
	path, _ := b.cgroupPath(a.Name)
	g, err := b.cg.Group(cmp.Or(a.CgroupPath, path))
	if err != nil {
		return api.TopAgent{}, err
	}
	u, err := g.Usage()
	if err != nil {
		return api.TopAgent{}, err
	}
	row := api.TopAgent{Name: a.Name, Workspace: a.Workspace, Status: a.Status, LimitHits: a.LimitHits, Waiting: a.Waiting, Shim: process(a.ShimPID),
		MemoryLimitBytes: int64(a.MemoryLimitMB) << 20, PidsLimit: a.PidsLimit, CPUPercent: a.CPUPercent,
		Use: api.Use{CPUMicros: uint64(u.CPU.Microseconds()), ThrottledMicros: uint64(u.Throttled.Microseconds()), MemoryBytes: u.MemoryBytes,
			ReadBytes: u.ReadBytes, WriteBytes: u.WriteBytes, Pids: u.Pids, OpenFiles: u.OpenFiles}}
	if p := u.Pressure; p != nil {
		row.Pressure = &api.Pressure{CPU: p.CPU, Memory: p.Memory, IO: p.IO}
	}
	return row, nil
}

// tick is the unit of processor time in /proc: USER_HZ is 100 on every machine that Linux supports
// today.
const tick = 10 * time.Millisecond

// process returns the resource use of one process, or zeros if it has exited.
func process(pid int) api.Process {
	p := api.Process{PID: pid}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p
	}
	// The name in parentheses can contain any character. proc_pid_stat(5): fields 14 and 15 are
	// utime and stime, field 24 is rss in pages.
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(words) < 22 {
		return p
	}
	number := func(field int) uint64 {
		n, err := strconv.ParseUint(words[field-3], 10, 63)
		if err != nil {
			return 0
		}
		return n
	}
	p.CPUMicros = (number(14) + number(15)) * uint64(tick/time.Microsecond)
	p.MemoryBytes = number(24) * uint64(os.Getpagesize())
	return p
}

// hostMemory returns the machine's memory and the part that is available without swapping, in
// bytes (proc_meminfo(5)).
func hostMemory() (total, available uint64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0, api.Errorf(api.CodeInternal, "read the machine's memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		kb, err := strconv.ParseUint(words[1], 10, 44)
		if err != nil {
			continue
		}
		switch words[0] {
		case "MemTotal:":
			total = kb << 10
		case "MemAvailable:":
			available = kb << 10
		}
	}
	if total == 0 {
		return 0, 0, api.Errorf(api.CodeInternal, "read the machine's memory: /proc/meminfo has no MemTotal")
	}
	return total, available, nil
}
