package shim

import (
	"context"
	"errors"
	"path"

	"polis/cgroup"
	"polis/daemon/launcher"
	"polis/daemon/shim/wire"
)

// supervisor is the shim's own group, beside the sandbox's. What both are in is
// the agent's, so that what the shim does for it is done in its share of the
// processors and disks, as if the kernel did it.
const supervisor = "supervisor"

// seat is the path of the shim's own group if the shim has to make it. In a unit
// systemd has put it beside the sandbox already, except on cgroup v2, where a group
// has processes or limited children, not both.
func seat(spec wire.Spec) (string, bool) {
	dir, base := path.Split(spec.CgroupPath)
	// Shims of before had the sandbox where the agent's group is now.
	return dir + supervisor, !spec.Delegated && base == "sandbox"
}

// sit puts the shim in its group; leave takes it back and is never nil.
func sit(spec wire.Spec) (leave func(context.Context) error, err error) {
	leave = func(context.Context) error { return nil }
	h, err := cgroup.Detect()
	if err != nil {
		return leave, err
	}
	if spec.Delegated {
		_, err = h.EnterLeaf(path.Dir(spec.CgroupPath), supervisor)
		return leave, err
	}
	p, ok := seat(spec)
	if !ok {
		return leave, nil
	}
	s, err := h.Sit(p)
	if err != nil {
		return leave, err
	}
	return s.Leave, nil
}

// removeSeat removes the group of a shim that has died.
func removeSeat(ctx context.Context, spec wire.Spec) error {
	p, ok := seat(spec)
	if !ok {
		return nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	g, err := h.Group(p)
	if err != nil {
		return err
	}
	return errors.Join(g.Remove(ctx), g.Prune())
}

// inBox are the limits of the sandbox's own group. The agent's weights are those of the
// group above; in there sandbox and shim have equal shares.
func inBox(l cgroup.Limits) cgroup.Limits {
	even := func(w int64) int64 { return min(w, 1) * 100 } // 0 needs no controller
	l.CPUWeight, l.IOWeight = even(l.CPUWeight), even(l.IOWeight)
	return l
}

// setLimits limits the sandbox and weighs the agent.
func (s *Shim) setLimits(l cgroup.Limits) error {
	if err := s.box.SetLimits(inBox(l)); err != nil {
		return err
	}
	return weigh(s.ctx, s.Spec, l)
}

// weigh gives the agent, shim and sandbox, its share.
func weigh(ctx context.Context, spec wire.Spec, l cgroup.Limits) error {
	if spec.Delegated {
		return (&launcher.Systemd{}).Weigh(ctx, spec.Agent, l)
	}
	if _, ok := seat(spec); !ok {
		return nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	g, err := h.Group(path.Dir(spec.CgroupPath))
	if err != nil {
		return err
	}
	return g.Weigh(l)
}
