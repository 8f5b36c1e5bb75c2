package launch

import (
	"context"
	"errors"
	"fmt"
	"path"

	"polis/daemon/git/gitgroup"
)

const (
	daemonUnit = "polisd.service" // units/polisd.service, which has Delegate=yes
	gitLeaf    = "git"            // beside an agent's sandbox, or below our own unit
)

// OpenGits chooses the parent of git's control groups: polisd's own unit under systemd, because
// systemd owns the groups of a stopped agent; else the agent's group, beside the sandbox. It
// returns nil if git is not charged to agents.
func (s *Shims) OpenGits(ctx context.Context) (*gitgroup.Groups, error) {
	g := &gitgroup.Groups{Host: s.Cgroups, Log: s.Log, Limit: func() int64 { return int64(s.Config().Limits.GitMemoryMB) << 20 },
		Path: func(agent string) string { sandbox, _ := s.CgroupPath(agent); return path.Dir(sandbox) + "/" + gitLeaf }}
	if s.Systemd {
		own, err := s.Cgroups.Own()
		if err == nil && path.Base(own) != daemonUnit {
			err = fmt.Errorf("polisd runs in %s and not in %s", own, daemonUnit)
		}
		if err == nil {
			_, err = s.Cgroups.EnterLeaf(own, "daemon")
		}
		if err != nil {
			s.Log.Warn("git is not charged to agents: each process has its own limits only", "err", err)
			return nil, nil //nolint:nilnil // git has a limit of its own
		}
		g.Path = func(agent string) string { return own + "/" + gitLeaf + "/" + agent }
	}
	return g, s.sweepGits(ctx, g)
}

// sweepGits kills the git processes of an earlier polisd and removes their groups.
func (s *Shims) sweepGits(ctx context.Context, g *gitgroup.Groups) error {
	left := []string{path.Dir(g.Path("any"))} // of all agents
	if !s.Systemd {
		names, err := s.Cgroups.List(path.Dir(left[0]))
		if err != nil {
			return fmt.Errorf("find git processes of an earlier polisd: %w", err)
		}
		left = left[:0]
		for _, name := range names {
			left = append(left, g.Path(name))
		}
	}
	var errs []error
	for _, p := range left {
		group, err := s.Cgroups.Group(p)
		if err == nil {
			err = gitgroup.Clear(ctx, group)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end git of an earlier polisd: %w", err)
	}
	return nil
}
