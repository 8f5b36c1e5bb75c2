package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"polis/daemon/api"
	"polis/daemon/owner"
)

// self is what this daemon writes into the lock files it holds.
func (d *Daemon) self() owner.Owner {
	return owner.Owner{PID: os.Getpid(), RunDir: string(d.run), Socket: d.run.Socket()}
}

// takeRunDir makes sure that the run directory has one daemon.
func (d *Daemon) takeRunDir(ctx context.Context) error {
	l, err := owner.Hold(ctx, d.run.PidLock(), d.self())
	var held *owner.HeldError
	switch {
	case errors.As(err, &held):
		return api.Errorf(api.CodeUnavailable, "another polisd uses %s: %w", d.run, err).WithHint("stop it, or give this one another run_dir")
	case err != nil:
		return fmt.Errorf("take the run directory: %w", err)
	}
	d.lock = l
	return nil
}
