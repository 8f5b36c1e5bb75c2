package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Pressure is the share of the last ten seconds, in percent, in which some process of the group
// waited for the resource (PSI, "some avg10").
type Pressure struct{ CPU, Memory, IO float64 }

// MemoryStalled returns how long some process of the group has waited for memory since the group
// was made (PSI, "some total" of memory.pressure). ok is false if the kernel does not measure it,
// or the group is gone. A wait at a limit of cgroup v1 counts as well: the kernel charges it to
// the process, whose group in the v2 tree is read.
func (g *Group) MemoryStalled() (stalled time.Duration, ok bool) {
	psi, ok := g.psi("memory.pressure")
	return psi.total, ok
}

// stall is the "some" line of a pressure file.
type stall struct {
	avg10 float64 // percent
	total time.Duration
}

// pressure is nil if the kernel measures none.
func (g *Group) pressure() *Pressure {
	p, found := &Pressure{}, false
	for file, to := range map[string]*float64{"cpu.pressure": &p.CPU, "memory.pressure": &p.Memory, "io.pressure": &p.IO} {
		if v, ok := g.psi(file); ok {
			*to, found = v.avg10, true
		}
	}
	if !found {
		return nil
	}
	return p
}

// psi reads a pressure file. They are in the v2 tree, also of a hybrid host.
func (g *Group) psi(file string) (stall, bool) {
	for _, hier := range g.host.hierarchies {
		if !hier.v2 {
			continue
		}
		text, err := os.ReadFile(filepath.Join(g.dir(hier), file))
		if err != nil {
			return stall{}, false // EOPNOTSUPP if the kernel was started with psi=0
		}
		return parsePSI(string(text))
	}
	return stall{}, false
}

// parsePSI reads "some avg10=1.53 avg60=1.20 avg300=0.00 total=77"; total is in microseconds.
func parsePSI(text string) (stall, bool) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "some ")
		if !ok {
			continue
		}
		var s stall
		seen := 0
		for _, word := range strings.Fields(rest) {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "avg10":
				v, err := strconv.ParseFloat(value, 64)
				if err != nil || !(v >= 0 && v <= 100) {
					return stall{}, false
				}
				s.avg10 = v
				seen++
			case "total":
				n, err := strconv.ParseInt(value, 10, 63)
				if err != nil || n < 0 || n > int64(maxStall/time.Microsecond) {
					return stall{}, false
				}
				s.total = time.Duration(n) * time.Microsecond
				seen++
			}
		}
		return s, seen == 2
	}
	return stall{}, false
}

// maxStall is a time that no machine has been up.
const maxStall = 100 * 365 * 24 * time.Hour
