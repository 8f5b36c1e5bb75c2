package daemon

import (
	"context"
	"errors"
	"fmt"
	"path"

	"polis/daemon/git"
	"polis/daemon/git/gitgroup"
)

const (
	daemonUnit = "polisd.service" // units/polisd.service, which has Delegate=yes
	gitLeaf    = "git"            // beside an agent's sandbox, or below our own unit
)

// openGits chooses the parent of git's control groups: polisd's own unit under systemd, because
// systemd owns the groups of a stopped agent; else the agent's group, beside the sandbox.
func (d *Daemon) openGits(ctx context.Context) error {
	g := &gitgroup.Groups{Host: d.cg, Log: d.Log, Limit: func() int64 { return int64(d.live().Limits.GitMemoryMB) << 20 },
		Path: func(agent string) string { sandbox, _ := d.cgroupPath(agent); return path.Dir(sandbox) + "/" + gitLeaf }}
	if d.Systemd {
		own, err := d.cg.Own()
		if err == nil && path.Base(own) != daemonUnit {
			err = fmt.Errorf("polisd runs in %s and not in %s", own, daemonUnit)
		}
		if err == nil {
			_, err = d.cg.EnterLeaf(own, "daemon")
		}
		if err != nil {
			d.Log.Warn("git is not charged to agents: each process has its own limits only", "err", err)
			return nil
		}
		g.Path = func(agent string) string { return own + "/" + gitLeaf + "/" + agent }
	}
	d.gits = g
	return d.sweepGits(ctx)
}

// sweepGits kills the git processes of an earlier polisd and removes their groups.
func (d *Daemon) sweepGits(ctx context.Context) error {
	left := []string{path.Dir(d.gits.Path("any"))} // of all agents
	if !d.Systemd {
		names, err := d.cg.List(path.Dir(left[0]))
		if err != nil {
			return fmt.Errorf("find git processes of an earlier polisd: %w", err)
		}
		left = left[:0]
		for _, name := range names {
			left = append(left, d.gits.Path(name))
		}
	}
	var errs []error
	for _, p := range left {
		group, err := d.cg.Group(p)
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

// charge returns a context whose git commands are charged to an agent.
func (d *Daemon) charge(ctx context.Context, agent string) context.Context {
	return git.Charged(ctx, d.gits.Account(agent))
}
