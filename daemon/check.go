package daemon

import (
	"context"
	"errors"
	"time"

	"polis/daemon/agent/environment"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/merge/check"
)

// checker returns what runs the workspace's check command.
func (w *workspace) checker(rules config.MergeRules) *check.Runner {
	d, ws := w.d, w.agents
	r := &check.Runner{Workspace: ws.Name, Root: ws.Root, Project: ws.Recorded(), UID: ws.UID, GID: ws.GID,
		Rules: rules, Config: d.live(), Shims: checkShims{d.shims}, Export: w.git.Export, Prepare: w.git.PrepareCheck, Release: w.git.EndCheck, Log: d.Log,
		Sandbox: func(name string) (spec wire.Spec, err error) {
			if err := d.agents.Isolated(); err != nil {
				return spec, err
			}
			spec.CgroupPath, spec.Delegated = d.shims.cgroup(name)
			spec.User, spec.Home = environment.Account(ws.UID)
			spec.Lost = d.lostNames()
			return spec, nil
		}}
	if *rules.Hooks {
		r.Hooks = w.mergeHooks
	}
	return r
}

// checkShims are the shims of checks, which have no agent.
type checkShims struct{ s *shims }

func (c checkShims) Start(ctx context.Context, name string) error {
	if err := c.s.total(ctx); err != nil {
		return err
	}
	return c.s.launcher.Start(ctx, name, c.SpecFile(name))
}

func (c checkShims) Alive(ctx context.Context, name string) (bool, error) {
	return c.s.launcher.Alive(ctx, name, c.Dir(name))
}

func (c checkShims) Clear(ctx context.Context, name string) error {
	err := c.s.launcher.Stop(ctx, name, c.Dir(name), time.Second)
	return errors.Join(err, c.s.clear(ctx, agentNamed(name)))
}

func (c checkShims) Dir(name string) string      { return c.s.run.Agent(name) }
func (c checkShims) SpecFile(name string) string { return c.s.run.AgentSpec(name) }
