package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// period is the accounting period of a processor limit, in microseconds: the kernel's default.
const period = 100_000

// setCPU sets weight and quota. If the controller is not enabled the group has neither, which is
// an error only if one was requested.
func (g *Group) setCPU(l Limits) error {
	hier, ok := g.host.controller(cpu)
	if ok {
		err := g.setCPUWeight(hier, l.CPUWeight)
		ok = !errors.Is(err, fs.ErrNotExist)
		if ok && err != nil {
			return err
		}
	}
	if !ok {
		if l.CPUWeight == 0 && l.CPUPercent == 0 {
			return nil
		}
		return &ControllerError{Controller: cpu, Path: g.Path, Err: fs.ErrNotExist}
	}
	if hier.v2 {
		return optionalQuota(l, writeFile(g.dir(hier), "cpu.max", quota(l.CPUPercent, "max")+fmt.Sprintf(" %d", period)))
	}
	return optionalQuota(l, writeFile(g.dir(hier), "cpu.cfs_quota_us", quota(l.CPUPercent, "-1")))
}

func (g *Group) setCPUWeight(hier hierarchy, w int64) error {
	if w == 0 {
		w = 100
	}
	if hier.v2 {
		return writeFile(g.dir(hier), "cpu.weight", strconv.FormatInt(w, 10))
	}
	return writeFile(g.dir(hier), "cpu.shares", strconv.FormatInt(shares(w), 10))
}

// SetWeights sets only the weights of l, where the controllers exist: for the group above the one
// that has the other limits, whose SetLimits reports missing controllers.
func (g *Group) SetWeights(l Limits) error {
	l = Limits{CPUWeight: l.CPUWeight, IOWeight: l.IOWeight}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("weigh cgroup %s: %w", g.Path, err)
	}
	var err error
	if hier, ok := g.host.controller(cpu); ok {
		err = optional(g.setCPUWeight(hier, l.CPUWeight))
	}
	ioErr := g.setIO(l)
	var missing *ControllerError
	if errors.As(ioErr, &missing) {
		ioErr = nil
	}
	if err = errors.Join(err, ioErr); err != nil {
		return fmt.Errorf("weigh cgroup %s: %w", g.Path, err)
	}
	return nil
}

// quota is the time per period, in microseconds. The kernel's minimum is 1000.
func quota(percent int64, none string) string {
	if percent == 0 {
		return none
	}
	return strconv.FormatInt(max(percent*period/100, 1000), 10)
}

// optionalQuota ignores the error of a kernel without CONFIG_CFS_BANDWIDTH, unless a quota was
// requested.
func optionalQuota(l Limits, err error) error {
	if l.CPUPercent == 0 {
		return optional(err)
	}
	return err
}

// shares converts a v2 weight to v1 shares as systemd does: both defaults correspond.
func shares(weight int64) int64 { return min(max(weight*1024/100, 2), 262144) }

// ioFiles are the possible files of a weight for the disks: v2's of any scheduler, of bfq, and
// v1's of bfq and of the old cfq.
var ioFiles = []string{"io.weight", "io.bfq.weight", "blkio.bfq.weight", "blkio.weight"}

// setIO sets the weight for the disks, if a disk's scheduler supports it.
func (g *Group) setIO(l Limits) error {
	hier, ok := g.host.controller(g.host.ioController())
	var missing error
	if ok {
		w := l.IOWeight
		if w == 0 {
			w = 100
		}
		for _, name := range ioFiles {
			if _, err := os.Stat(filepath.Join(g.dir(hier), name)); err == nil {
				return writeFile(g.dir(hier), name, strconv.FormatInt(w, 10))
			}
		}
		missing = errors.New("the schedulers of this machine's disks know no weights")
	}
	if l.IOWeight == 0 {
		return nil
	}
	return &ControllerError{Controller: g.host.ioController(), Path: g.Path, Err: missing}
}

func (h *Host) ioController() string {
	if h.Mode == V2 {
		return disks
	}
	return blkio
}
