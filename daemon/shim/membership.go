package shim

import (
	"context"
	"errors"
	"log/slog"
	"path"

	"polis/cgroup"
	"polis/daemon/api/wire"
	"polis/daemon/git/gitgroup"
	"polis/daemon/host/launcher"
)

// supervisor is the name of the shim's own group, a sibling of the sandbox's group.
// Their parent is the agent's group, so the work that the shim does for the agent is
// charged to the agent's share of processors and disks.
const supervisor = "supervisor"

// supervisorGroup returns the path of the shim's own group, and whether the shim has
// to create it. In a unit, systemd has put the shim beside the sandbox already,
// except on cgroup v2, where a group has either processes or limited children.
func supervisorGroup(spec wire.Spec) (string, bool) {
	dir, base := path.Split(spec.CgroupPath)
	// Shims of earlier versions had the sandbox where the agent's group is now.
	return dir + supervisor, !spec.Delegated && base == "sandbox"
}

// joinGroup moves the shim into its group. leave moves it back and is never nil.
func joinGroup(spec wire.Spec) (leave func(context.Context) error, err error) {
	leave = func(context.Context) error { return nil }
	h, err := cgroup.Detect()
	if err != nil {
		return leave, err
	}
	if spec.Delegated {
		_, err = h.EnterLeaf(path.Dir(spec.CgroupPath), supervisor)
		return leave, err
	}
	p, ok := supervisorGroup(spec)
	if !ok {
		return leave, nil
	}
	s, err := h.Join(p)
	if err != nil {
		return leave, err
	}
	return s.Restore, nil
}

// gitGroup returns the path of the group of the git commands that the shim runs, a
// sibling of its own group. polisd has another one for those that it runs.
func gitGroup(spec wire.Spec) string { return path.Dir(spec.CgroupPath) + "/packs" }

// gitGroups charges the git commands of the shim to the agent.
func gitGroups(spec wire.Spec, log *slog.Logger) (*gitgroup.Groups, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	return &gitgroup.Groups{Host: h, Log: log, Limit: func() int64 { return spec.GitMemory }, Path: func(string) string { return gitGroup(spec) }}, nil
}

// removeGroup removes the groups of a shim that has died: git's and its own.
func removeGroup(ctx context.Context, spec wire.Spec) error {
	if err := removeGitGroup(ctx, spec); err != nil {
		return err
	}
	p, ok := supervisorGroup(spec)
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

func removeGitGroup(ctx context.Context, spec wire.Spec) error {
	if path.Base(spec.CgroupPath) != "sandbox" {
		return nil // a shim of an earlier version had none
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	g, err := h.Group(gitGroup(spec))
	if err != nil {
		return err
	}
	return gitgroup.Clear(ctx, g)
}

// sandboxLimits returns the limits of the sandbox's own group. The agent's weights are
// set on the parent group; below it, sandbox and shim have equal shares.
func sandboxLimits(l cgroup.Limits) cgroup.Limits {
	even := func(w int64) int64 { return min(w, 1) * 100 } // 0 needs no controller
	l.CPUWeight, l.IOWeight = even(l.CPUWeight), even(l.IOWeight)
	return l
}

// setLimits sets the limits of the sandbox and the weights of the agent.
func (s *Shim) setLimits(l cgroup.Limits) error {
	if err := s.sandbox.SetLimits(sandboxLimits(l)); err != nil {
		return err
	}
	return setWeights(s.ctx, s.Spec, l)
}

// setWeights sets the weights of the agent, which is shim and sandbox.
func setWeights(ctx context.Context, spec wire.Spec, l cgroup.Limits) error {
	if spec.Delegated {
		return (&launcher.Systemd{}).SetWeights(ctx, spec.Agent, l)
	}
	if _, ok := supervisorGroup(spec); !ok {
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
	return g.SetWeights(l)
}
