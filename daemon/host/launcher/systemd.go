package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Systemd starts shims as polis-agent@NAME.service, so that they belong to
// polis.slice and neither a restart nor a crash of polisd touches them.
type Systemd struct{}

// Name is what status shows.
func (*Systemd) Name() string { return "systemd" }

func unit(agent string) string { return "polis-agent@" + agent + ".service" }

func (*Systemd) do(ctx context.Context, f func(*dbus.Conn) error) error {
	c, err := dbus.NewWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer c.Close()
	return f(c)
}

// daemonUnit is polisd's own.
const daemonUnit = "polisd.service"

// Stopping reports whether systemd is stopping polisd, as opposed to restarting
// it: it reads the job of the unit (org.freedesktop.systemd1(5)).
func (s *Systemd) Stopping(ctx context.Context) (stop bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.do(ctx, func(c *dbus.Conn) error {
		jobs, err := c.ListJobsContext(ctx)
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		for _, j := range jobs {
			if j.Unit == daemonUnit {
				stop = j.JobType == "stop"
			}
		}
		return nil
	})
	return stop, err
}

// Start starts the unit and waits until systemd calls it started or failed.
func (s *Systemd) Start(ctx context.Context, agent, _ string) error {
	return s.do(ctx, func(c *dbus.Conn) error {
		// A unit left "failed" by an earlier life counts against the start limit.
		_ = c.ResetFailedUnitContext(ctx, unit(agent)) //nolint:errcheck // not loaded: nothing to reset
		return job(ctx, "start", func(ch chan<- string) error {
			_, err := c.StartUnitContext(ctx, unit(agent), "replace", ch)
			return err
		})
	})
}

// Alive reports whether the unit is active, and its main process has not been killed: systemd waits for the end of
// one that cannot end.
func (s *Systemd) Alive(ctx context.Context, agent, dir string) (alive bool, err error) {
	err = s.do(ctx, func(c *dbus.Conn) error {
		p, err := c.GetUnitPropertyContext(ctx, unit(agent), "ActiveState")
		if err != nil {
			return fmt.Errorf("ask for %s: %w", unit(agent), err)
		}
		switch p.Value.Value() {
		case "active", "activating", "deactivating", "reloading":
			alive = true
		}
		return nil
	})
	if err != nil || !alive {
		return alive, err
	}
	p, err := s.Process(ctx, agent, dir)
	if errors.Is(err, ErrNoProcess) { // it has none yet, or none any more
		return true, nil
	}
	if err != nil {
		return false, err
	}
	dying, err := p.Dying()
	return !dying, err
}

// Names returns the agents whose units run. They are all this machine's polisd's.
func (s *Systemd) Names(string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = s.do(ctx, func(c *dbus.Conn) error {
		units, err := c.ListUnitsByPatternsContext(ctx, []string{"active", "activating", "deactivating", "reloading"}, []string{unit("*")})
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		for _, u := range units {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(u.Name, "polis-agent@"), ".service"))
		}
		return nil
	})
	return names, err
}

// Stop stops the unit; systemd's TimeoutStopSec bounds the grace.
func (s *Systemd) Stop(ctx context.Context, agent, _ string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+30*time.Second)
	defer cancel()
	return s.do(ctx, func(c *dbus.Conn) error {
		return job(ctx, "stop", func(ch chan<- string) error {
			_, err := c.StopUnitContext(ctx, unit(agent), "replace", ch)
			return err
		})
	})
}

func job(ctx context.Context, verb string, start func(chan<- string) error) error {
	ch := make(chan string, 1)
	if err := start(ch); err != nil {
		return fmt.Errorf("%s unit: %w", verb, err)
	}
	select {
	case r := <-ch:
		if r != "done" {
			return fmt.Errorf("%s unit: systemd says %q", verb, r)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s unit: %w", verb, context.Cause(ctx))
	}
}
