package cgroup

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Meter reports whether the processes of a group run. It holds one file descriptor and is not
// safe for concurrent use.
type Meter struct {
	f    *os.File
	fd   int // of f; File.Fd makes a system call each time
	last [256]byte
	n    int
}

// Meter opens the group's count of processor time: cpuacct.usage of cgroup v1, cpu.stat of v2. It
// returns a [ControllerError] if the host counts none.
func (g *Group) Meter() (*Meter, error) {
	if file, ok := g.meterFile(); ok {
		return OpenMeter(file)
	}
	return nil, fmt.Errorf("meter of cgroup %s: %w", g.Path, &ControllerError{Controller: cpu, Path: g.Path})
}

// meterFile is the file of the count. v2 has cpu.stat in every group, also without the controller.
func (g *Group) meterFile() (path string, ok bool) {
	hier, ok := g.host.controller("cpuacct")
	file := "cpuacct.usage"
	if hier.v2 {
		file = "cpu.stat"
	}
	return filepath.Join(g.dir(hier), file), ok
}

// OpenMeter opens the meter at the [Meter.Path] of another process.
func OpenMeter(path string) (*Meter, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("meter of a cgroup: %w", err)
	}
	return &Meter{f: f, fd: int(f.Fd())}, nil
}

// Moved reports whether a process of the group, or of a group below it, used processor time since
// the last call. The first call returns true, and so does one that cannot read the count. It
// costs one pread(2).
func (m *Meter) Moved() bool {
	var now [256]byte
	n, err := unix.Pread(m.fd, now[:], 0)
	n = max(n, 0)
	moved := err != nil || n == 0 || !bytes.Equal(now[:n], m.last[:m.n])
	m.last, m.n = now, n
	return moved
}

// Path is the file that is read; [OpenMeter] in another process reads the same.
func (m *Meter) Path() string { return m.f.Name() }

// Close closes the file.
func (m *Meter) Close() error { return m.f.Close() }

// CPUTime returns the processor time that the processes of the group, and of the groups below it,
// have used. It is [Stats.CPU] for one read of a file.
func (g *Group) CPUTime() (time.Duration, error) {
	file, ok := g.meterFile()
	if !ok {
		return 0, fmt.Errorf("processor time of cgroup %s: %w", g.Path, &ControllerError{Controller: cpu, Path: g.Path})
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("processor time of cgroup %s: %w", g.Path, err)
	}
	return parseCPUTime(string(text))
}

// parseCPUTime reads cpuacct.usage, which is one number of nanoseconds, or usage_usec of cpu.stat.
func parseCPUTime(text string) (time.Duration, error) {
	unit, number := time.Nanosecond, strings.TrimSpace(text)
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			unit, number = time.Microsecond, strings.TrimSpace(v)
		}
	}
	n, err := strconv.ParseInt(number, 10, 63)
	if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("processor time %.64q: not a number of a cgroup", number)
	}
	return time.Duration(n) * unit, nil
}
