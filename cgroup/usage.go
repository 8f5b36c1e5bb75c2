package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource use of a group, for display. Numbers the host does not have are 0.
type Usage struct {
	Stats
	Throttled  time.Duration // time for which it waited for its processor quota
	ReadBytes  uint64        // from disks, ever
	WriteBytes uint64        // to disks, ever
	OpenFiles  uint64        // descriptors of all its processes
	// Pressure is nil on kernels that do not measure it.
	Pressure *Pressure
}

// Usage reads the resource use of the group. It reads /proc of every process; [Group.Stats] is
// cheaper. It returns [ErrNotFound] when the group is gone.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	var err error
	if u.Stats, err = g.Stats(); err != nil {
		return u, err
	}
	if hier, ok := g.host.controller(cpu); ok {
		key, unit := "throttled_time", time.Nanosecond
		if hier.v2 {
			key, unit = "throttled_usec", time.Microsecond
		}
		n, err := readKey(g.dir(hier), "cpu.stat", key)
		if err != nil && !gone(err) {
			return u, fmt.Errorf("usage of cgroup %s: %w", g.Path, err)
		}
		u.Throttled = time.Duration(n) * unit
	}
	u.ReadBytes, u.WriteBytes = g.ioBytes()
	u.Pressure = g.pressure()
	procs, err := g.Procs()
	if err != nil {
		return u, err
	}
	for _, pid := range procs {
		entries, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
		if err == nil { // else it has ended
			u.OpenFiles += uint64(len(entries))
		}
	}
	return u, nil
}

// ioBytes adds up the disks: "8:0 rbytes=1 wbytes=2 ..." in v2, "8:0 Read 1" in v1.
func (g *Group) ioBytes() (read, write uint64) {
	hier, ok := g.host.controller(g.host.ioController())
	if !ok {
		return 0, 0
	}
	file := "blkio.throttle.io_service_bytes_recursive"
	if hier.v2 {
		file = "io.stat"
	}
	text, err := readFile(g.dir(hier), file)
	if err != nil {
		return 0, 0 // the controller is not enabled
	}
	return parseIO(text)
}

// DiskBytes is what the group has read from and written to disks since it was made; 0 on hosts that
// do not count it.
func (g *Group) DiskBytes() (read, write uint64) { return g.ioBytes() }

func parseIO(text string) (read, write uint64) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 3 && (words[1] == "Read" || words[1] == "Write") {
			words = []string{words[0], map[string]string{"Read": "rbytes=", "Write": "wbytes="}[words[1]] + words[2]}
		}
		for _, w := range words[min(1, len(words)):] {
			key, value, _ := strings.Cut(w, "=")
			n, err := strconv.ParseUint(value, 10, 63)
			switch {
			case err != nil:
			case key == "rbytes":
				read += n
			case key == "wbytes":
				write += n
			}
		}
	}
	return read, write
}
