package launcher

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"polis/cgroup"
)

// Slice holds polisd and every agent.
const Slice = "polis.slice"

// Limit bounds polis.slice until the next boot; 0 is no bound. It counts over
// what the files of the unit say.
func (s *Systemd) Limit(ctx context.Context, l cgroup.Limits) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	// As systemctl does it: infinity is the largest number.
	orNone := func(v, unit int64) uint64 {
		if v == 0 {
			return math.MaxUint64
		}
		return uint64(v * unit)
	}
	return s.do(ctx, func(c *dbus.Conn) error {
		err := c.SetUnitPropertiesContext(ctx, Slice, true,
			prop("MemoryMax", orNone(l.MemoryBytes, 1)),
			prop("CPUQuotaPerSecUSec", orNone(l.CPUPercent, 10_000)),
			prop("TasksMax", orNone(l.Pids, 1)))
		if err != nil {
			return fmt.Errorf("limit %s: %w", Slice, err)
		}
		return nil
	})
}

func prop(name string, v uint64) dbus.Property {
	return dbus.Property{Name: name, Value: godbus.MakeVariant(v)}
}

// controls is where systemd keeps what was set of a unit until the next boot
// (system.control in systemd.unit(5)).
func controls(agent string) string {
	return filepath.Join("/run/systemd/system.control", unit(agent)+".d")
}

// SetWeights sets the weights of processors and disks of an agent's unit. systemd manages the
// group of a unit: what another program writes there is lost with the next daemon-reload. A
// weight of 0 is systemd's default.
func (s *Systemd) SetWeights(ctx context.Context, agent string, l cgroup.Limits) error {
	or := func(v int64) uint64 {
		if v == 0 {
			return math.MaxUint64 // "not set"
		}
		return uint64(v)
	}
	usual := func(v int64) bool { return v == 0 || v == 100 }
	if _, err := os.Stat(controls(agent)); err != nil && usual(l.CPUWeight) && usual(l.IOWeight) {
		return nil // it has systemd's, which are everybody's
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return s.do(ctx, func(c *dbus.Conn) error {
		if err := c.SetUnitPropertiesContext(ctx, unit(agent), true, prop("CPUWeight", or(l.CPUWeight)), prop("IOWeight", or(l.IOWeight))); err != nil {
			return fmt.Errorf("set the weights of %s: %w", unit(agent), err)
		}
		return nil
	})
}

// ClearWeights removes what SetWeights had systemd keep, once the unit has ended. What others
// have set of the unit stays.
func (*Systemd) ClearWeights(agent string) error {
	for _, name := range []string{"50-CPUWeight.conf", "50-IOWeight.conf"} {
		if err := os.Remove(filepath.Join(controls(agent), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("weights of %s: %w", unit(agent), err)
		}
	}
	if names, err := os.ReadDir(controls(agent)); err != nil || len(names) > 0 {
		return nil //nolint:nilerr // there is none, or it is not ours alone
	}
	if err := os.Remove(controls(agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("weights of %s: %w", unit(agent), err)
	}
	return nil
}
