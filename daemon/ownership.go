package daemon

import (
	"context"
	"errors"
	"os"

	"polis/daemon/api/wire"
	"polis/daemon/host/launcher"
	"polis/daemon/store"
	"polis/daemon/workspace/daemonlock"
)

// claimer returns what takes directories for this daemon.
func (d *Daemon) claimer() daemonlock.Claimer {
	return daemonlock.Claimer{Me: daemonlock.Owner{PID: os.Getpid(), RunDir: string(d.run), Socket: d.run.Socket()}, Shims: leftShims{}}
}

// leftShims implements daemonlock.Shims.
type leftShims struct{}

func (leftShims) Names(agentsDir string) ([]string, error) {
	return (&launcher.Fork{}).Names(agentsDir)
}

func (leftShims) Mountpoint(spec string) (string, error) {
	var sp wire.Spec
	err := store.ReadSummed(spec, &sp)
	return sp.Mountpoint, err
}

// takeDirs ensures that no other daemon uses the run directory or the list of workspaces.
func (d *Daemon) takeDirs(ctx context.Context) (err error) {
	if d.lock, err = d.claimer().RunDir(ctx, d.run); err != nil {
		return err
	}
	l, err := d.claimer().WorkspacesDir(ctx, d.Config.WorkspacesDir, d.run)
	if l != nil {
		d.held = append(d.held, l)
	}
	return err
}

// Release releases the run directory and the workspaces. It is called last: another polisd may
// start from then on.
func (d *Daemon) Release() error {
	var errs []error
	_, err := os.Lstat(d.run.Agents())
	left := !errors.Is(err, os.ErrNotExist)
	d.mu.Lock()
	for _, w := range d.workspaces {
		if w.owner != nil {
			errs = append(errs, w.owner.Give(left))
			w.owner = nil
		}
	}
	d.mu.Unlock()
	for _, l := range d.held {
		errs = append(errs, l.Give(left))
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Give(left || d.Systemd))
	}
	d.held, d.lock = nil, nil
	return errors.Join(errs...)
}
