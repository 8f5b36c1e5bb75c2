package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"polis/fusefs/fuseuring"
)

// enableFuseRings enables FUSE requests by io_uring. The kernel reads this switch when a view is
// mounted. A mark file records that polis enabled it, so that restoreFuseRings disables it.
func (d *Daemon) enableFuseRings() {
	if !d.Config.Sandbox.FuseIOUring {
		d.logRings(d.restoreFuseRings())
		return
	}
	before, err := fuseuring.Enabled()
	if err == nil && !before {
		if err = os.WriteFile(d.run.RingMark(), nil, 0o600); err == nil {
			if _, err = fuseuring.SetEnabled(true); err != nil {
				// The switch was on before: restoreFuseRings must not disable it.
				err = errors.Join(err, os.Remove(d.run.RingMark()))
			}
		}
	}
	if errors.Is(err, fuseuring.ErrNone) {
		d.Log.Debug("requests to views come by /dev/fuse", "err", err)
		return
	}
	d.logRings(err)
}

func (d *Daemon) logRings(err error) {
	if err != nil {
		d.Log.Warn("requests to views come by /dev/fuse, not by io_uring", "err", err)
	}
}

// restoreFuseRings disables the switch if polis enabled it.
func (d *Daemon) restoreFuseRings() error {
	if _, err := os.Stat(d.run.RingMark()); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("turn off FUSE requests by io_uring: %w", err)
	}
	if _, err := fuseuring.SetEnabled(false); err != nil && !errors.Is(err, fuseuring.ErrNone) {
		return err
	}
	return os.Remove(d.run.RingMark())
}
