package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"
)

// ErrNoProcess reports that an agent has no shim that runs.
var ErrNoProcess = errors.New("no shim runs")

// Process is one life of a shim.
type Process struct{ p process }

// Process returns the process of the agent's shim.
func (f *Fork) Process(_ context.Context, _ string, dir string) (Process, error) {
	pid, err := f.pid(dir)
	if err != nil {
		return Process{}, err
	}
	return processOf(pid)
}

// Process returns the main process of the agent's unit.
func (s *Systemd) Process(ctx context.Context, agent, _ string) (p Process, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err = s.do(ctx, func(c *dbus.Conn) error {
		v, err := c.GetServicePropertyContext(ctx, unit(agent), "MainPID")
		if err != nil {
			return fmt.Errorf("ask for %s: %w", unit(agent), err)
		}
		pid, _ := v.Value.Value().(uint32)
		p, err = processOf(int(pid))
		return err
	})
	return p, err
}

func processOf(pid int) (Process, error) {
	if pid <= 1 {
		return Process{}, ErrNoProcess
	}
	at, over, err := born(pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || over {
		return Process{}, ErrNoProcess
	}
	return Process{process{pid, at}}, err
}

// Alive reports whether this life still lasts.
func (p Process) Alive() bool {
	at, over, err := born(p.p.pid)
	return err == nil && !over && at == p.p.born
}

// Stopped reports whether a signal has stopped the process. One that is traced is not.
func (p Process) Stopped() (bool, error) {
	s, err := readStat(p.p.pid)
	if err != nil {
		return false, err
	}
	if s.at != p.p.born {
		return false, ErrNoProcess
	}
	return s.state == "T", nil
}

// Dying reports whether the process has been killed, or exits, and has not ended: one of its threads waits for
// something that no signal interrupts. A process does so for a moment whenever it ends.
func (p Process) Dying() (bool, error) {
	if !p.Alive() {
		return false, nil
	}
	return dying(p.p.pid)
}

// Continue lets it continue.
func (p Process) Continue() error { return p.signal(unix.SIGCONT) }

// Kill kills it.
func (p Process) Kill() error { return p.signal(unix.SIGKILL) }

func (p Process) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(p.p.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.Alive() { // the number is another's
		return nil
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// StatfsFlag has the shim program look at a file system, and end.
const StatfsFlag = "statfs"

// Statfs has a process of its own ask a file system for a sign of life. It returns when
// ctx ends, also if that process cannot.
func Statfs(ctx context.Context, shim, dir string) error {
	cmd := exec.Command(shim, "--"+StatfsFlag, dir) //nolint:noctx // it is not waited for when ctx ends
	cmd.Dir = "/"
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // ends with the connection at the latest
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("inspect %s: %w", dir, err)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("inspect %s: %w", dir, context.Cause(ctx)), cmd.Process.Kill())
	}
}
