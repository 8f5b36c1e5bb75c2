package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// unlimited is how a limit is switched off, byDefault how it goes back to
// what is configured.
const (
	unlimited = "none"
	byDefault = "default"
)

// limitFlags are the limits of add and set, as typed.
type limitFlags struct{ pids, cpu, cpuWeight, ioWeight, disk, files, connections string }

func (f *limitFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.pids, "pids", "", "at most `N` processes and threads (default as configured)")
	flags.StringVar(&f.cpu, "cpu", "", "at most `PERCENT` of one processor: 150 is one and a half; none for no limit")
	flags.StringVar(&f.cpuWeight, "cpu-weight", "", "share of busy processors, `WEIGHT` from 1 to 10000; the default is 100")
	flags.StringVar(&f.disk, "disk", "", "at most `MB` in worktree, home and scratch directory; none for no limit")
	flags.StringVar(&f.files, "files", "", "at most `N` files and directories there; none for no limit")
	flags.StringVar(&f.connections, "connections", "", "at most `N` connections to the outside at a time; none for no limit")
	flags.StringVar(&f.ioWeight, "io-weight", "", "share of busy disks, `WEIGHT` from 1 to 1000; the default is 100")
}

// limitsText are an agent's limits in words.
func limitsText(g api.Agent) string {
	s := fmt.Sprintf("%d MB, %d processes", g.MemoryLimitMB, g.PidsLimit)
	if g.DiskLimitMB > 0 {
		s += fmt.Sprintf(", %d MB of disk", g.DiskLimitMB)
	}
	if g.DiskLimitFiles > 0 {
		s += fmt.Sprintf(", %d files", g.DiskLimitFiles)
	}
	if g.ConnectionsLimit > 0 {
		s += fmt.Sprintf(", %d connections", g.ConnectionsLimit)
	}
	if g.CPUPercent > 0 {
		s += fmt.Sprintf(", %d%% of a processor", g.CPUPercent)
	}
	if g.CPUWeight != 0 && g.CPUWeight != 100 {
		s += fmt.Sprintf(", cpu weight %d", g.CPUWeight)
	}
	if g.IOWeight != 0 && g.IOWeight != 100 {
		s += fmt.Sprintf(", io weight %d", g.IOWeight)
	}
	return s
}

// parse returns the limits, and the names of those that are to be as configured.
func (f *limitFlags) parse() (l api.Limits, reset []string, err error) {
	for _, v := range []struct {
		flag, name, value string
		lo, hi            int
		to                *int
	}{
		{"--pids", "pids", f.pids, 16, 1 << 20, &l.Pids},
		{"--cpu", "cpu_percent", strings.TrimSuffix(f.cpu, "%"), 1, 100_000, &l.CPUPercent},
		{"--cpu-weight", "cpu_weight", f.cpuWeight, 1, 10000, &l.CPUWeight},
		{"--io-weight", "io_weight", f.ioWeight, 1, 1000, &l.IOWeight},
		{"--disk", "disk_mb", f.disk, 16, 1 << 30, &l.DiskMB},
		{"--files", "disk_files", f.files, 100, 1 << 30, &l.DiskFiles},
		{"--connections", "connections", f.connections, 16, 1 << 20, &l.Connections},
	} {
		switch {
		case v.value == "":
		case v.value == byDefault:
			reset = append(reset, v.name)
		case v.value == unlimited && (v.to == &l.CPUPercent || v.to == &l.DiskMB || v.to == &l.DiskFiles || v.to == &l.Connections):
			*v.to = -1
		default:
			n, err := strconv.Atoi(v.value)
			if err != nil || n < v.lo || n > v.hi || strconv.Itoa(n) != v.value {
				return l, nil, usagef("%s %q is not valid: a whole number from %d to %d", v.flag, clean(api.Shorten(v.value, 40)), v.lo, v.hi)
			}
			*v.to = n
		}
	}
	return l, reset, nil
}
