package daemon

import (
	"errors"

	"polis/fusefs/fuseuring"
)

// enableFuseRings enables FUSE requests by io_uring as configured. The kernel reads this switch when a
// view is mounted.
func (d *Daemon) enableFuseRings() {
	set := fuseuring.RestoreMarked
	if d.Config.Sandbox.FuseIOUring {
		set = fuseuring.EnableMarked
	}
	switch err := set(d.run.RingMark()); {
	case errors.Is(err, fuseuring.ErrNone):
		d.Log.Debug("requests to views come by /dev/fuse", "err", err)
	case err != nil:
		d.Log.Warn("requests to views come by /dev/fuse, not by io_uring", "err", err)
	}
}
