package launch

import (
	"errors"

	"polis/fusefs/fuseuring"
)

// EnableFuseRings enables FUSE requests by io_uring as configured. The kernel reads this switch when a
// view is mounted.
func (s *Shims) EnableFuseRings() {
	set := fuseuring.RestoreMarked
	if s.Config().Sandbox.FuseIOUring {
		set = fuseuring.EnableMarked
	}
	switch err := set(s.Run.RingMark()); {
	case errors.Is(err, fuseuring.ErrNone):
		s.Log.Debug("requests to views come by /dev/fuse", "err", err)
	case err != nil:
		s.Log.Warn("requests to views come by /dev/fuse, not by io_uring", "err", err)
	}
}
