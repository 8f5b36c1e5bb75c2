package sandbox

import (
	"errors"

	"polis/cgroup"
)

// ensureGroup creates the group with its limits. A weight for disks whose schedulers know none is
// left out: it limits nothing, and the machine's disks may have changed.
func (s *Sandbox) ensureGroup() error {
	l := s.cfg.Limits
	err := s.group.Ensure(l)
	var missing *cgroup.ControllerError
	if l.IOWeight > 0 && errors.As(err, &missing) && missing.IO() {
		s.cfg.Log.Warn("disk weight not set for the sandbox", "op", "sandbox.create", "err", err)
		l.IOWeight = 0
		err = s.group.Ensure(l)
	}
	return err
}

// Stats returns the sandbox's resource use.
func (s *Sandbox) Stats() (cgroup.Stats, error) { return s.group.Stats() }

// SetLimits changes the limits of a running sandbox. Errors are those of
// [cgroup.Group.SetLimits]; on v1 a memory limit below the use returns EBUSY.
func (s *Sandbox) SetLimits(l cgroup.Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended { // Ensure would create the group again
		return ErrGone
	}
	return s.group.Ensure(l) // a limit may need a controller that is not enabled yet
}
