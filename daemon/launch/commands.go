package launch

import (
	"context"
	"errors"
	"time"

	"polis/daemon/agent/environment"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/isolation"
)

// Commands are the shims of commands, which have no agent (job.Shims).
type Commands struct {
	s *Shims
	// network: they have a network.
	network bool
}

// Checks are the shims of checks, which have no network.
func (s *Shims) Checks() Commands { return Commands{s: s} }

// Setups are the shims of setup commands, which have a network.
func (s *Shims) Setups() Commands { return Commands{s: s, network: true} }

// Start starts the shim whose spec was written.
func (c Commands) Start(ctx context.Context, name string) error {
	if err := c.s.totals.Apply(ctx); err != nil {
		return err
	}
	return c.s.launcher.Start(ctx, name, c.SpecFile(name))
}

// Alive reports whether the shim runs.
func (c Commands) Alive(ctx context.Context, name string) (bool, error) {
	return c.s.launcher.Alive(ctx, name, c.Dir(name))
}

// Clear ends the shim and removes what it left, and its network.
func (c Commands) Clear(ctx context.Context, name string) error {
	err := c.s.launcher.Stop(ctx, name, c.Dir(name), time.Second)
	err = errors.Join(err, c.s.Clear(ctx, name))
	if !c.network || c.s.Lacks(isolation.Network) {
		return err
	}
	return errors.Join(err, c.s.Bridge.Remove(ctx, name))
}

// Dir is the run directory of the shim.
func (c Commands) Dir(name string) string { return c.s.Run.Agent(name) }

// SpecFile is where the shim finds its spec.
func (c Commands) SpecFile(name string) string { return c.s.Run.AgentSpec(name) }

// Sandbox returns what the spec of a command has of the sandbox. Nothing runs with less isolation than is configured.
func (c Commands) Sandbox(name string, uid int) (spec wire.Spec, err error) {
	if err := c.s.Agents().Isolated(); err != nil {
		return spec, err
	}
	spec.CgroupPath, spec.Delegated = c.s.CgroupPath(name)
	spec.User, spec.Home = environment.Account(uid)
	spec.Lost = c.s.MissingNames()
	return spec, nil
}

// Connected is Sandbox with the network, which it makes.
func (c Commands) Connected(ctx context.Context, name string, uid int) (wire.Spec, error) {
	spec, err := c.Sandbox(name, uid)
	if err != nil {
		return spec, err
	}
	spec.ResolvConf = c.s.Config().Network.ResolvConf
	if c.s.Lacks(isolation.Network) {
		return spec, nil
	}
	ep, err := c.s.Bridge.Ensure(ctx, name)
	if err != nil {
		return spec, api.Errorf(api.CodeNetNSFailed, "make the network of the setup command: %w", err)
	}
	spec.NetNS, spec.Address, spec.NetTable, spec.NetLink = ep.NetNS, ep.Addr.String(), ep.Table, ep.Link
	return spec, nil
}
