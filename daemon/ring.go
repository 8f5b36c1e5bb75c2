package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"polis/fusefs/fuseuring"
)

// offerRings turns on the kernel's switch for FUSE requests by io_uring: views
// ask for it, and the kernel looks when they are mounted. A mark says that it
// was us, for whoever turns it back.
func (d *Daemon) offerRings() {
	if !d.Config.Sandbox.FuseIOUring {
		d.logRings(d.withdrawRings())
		return
	}
	before, err := fuseuring.Enabled()
	if err == nil && !before {
		if err = os.WriteFile(d.run.RingMark(), nil, 0o600); err == nil {
			if _, err = fuseuring.SetEnabled(true); err != nil {
				// It was not us, whoever turns it on later: nothing to turn back.
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
