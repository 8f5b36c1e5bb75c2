package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"polis/fusefs/fuseuring"
)

// offerRings turns on the kernel's switch for FUSE requests by io_uring, which the kernel reads
// when a view is mounted. A mark records that polis turned it on, so that it is turned off again.
func (d *Daemon) offerRings() {
	if !d.Config.Sandbox.FuseIOUring {
		d.logRings(d.withdrawRings())
		return
	}
	before, err := fuseuring.Enabled()
	if err == nil && !before {
		if err = os.WriteFile(d.run.RingMark(), nil, 0o600); err == nil {
			if _, err = fuseuring.SetEnabled(true); err != nil {
				// It was on already: there is nothing to turn off.
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

// withdrawRings turns the switch back if it was turned on here.
func (d *Daemon) withdrawRings() error {
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
