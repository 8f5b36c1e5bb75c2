package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/home"
	"polis/daemon/isolation"
	"polis/daemon/layout"
	"polis/daemon/setting"
	"polis/daemon/shim/wire"
	"polis/daemon/store"
)

// prepare makes the directories a shim needs and writes its spec.
func (s *shims) prepare(a *agent.Agent, dir string) error {
	fail := func(err error) error {
		return api.Errorf(api.CodeInternal, "prepare agent %s: %w", a.Name(), err)
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fail(err)
	}
	if err := os.Chown(dir, 0, max(s.socketGID, 0)); err != nil {
		return fail(err)
	}
	if err := os.Remove(layout.ShimError(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	if err := s.filtered(a); err != nil {
		return fail(err)
	}
	spec := s.spec(a, dir)
	for _, d := range []string{spec.HomeDir, spec.Scratch} {
		if err := layout.OwnedDir(d, spec.UID, spec.GID, 0o700); err != nil {
			return fail(err)
		}
	}
	if err := os.MkdirAll(a.Worktree(), 0o755); err != nil && !a.WS.Git {
		return fail(err)
	}
	name, email := identity(a)
	files, err := home.Seed(home.Spec{Agent: a.Name(), Files: a.Type.Home, Owner: a.WS.Owner, Dir: spec.HomeDir, Inside: spec.Home, ReadOnly: filepath.Join(dir, "home"),
		UID: spec.UID, GID: spec.GID, Name: name, Email: email, Log: s.log})
	if err != nil {
		return fail(err)
	}
	spec.Mounts = append(spec.Mounts, files...)
	if err := store.WriteSummed(s.run.AgentSpec(a.Name()), spec); err != nil {
		return fail(err)
	}
	return nil
}

func (s *shims) spec(a *agent.Agent, dir string) wire.Spec {
	c := s.config()
	k, ws := a.Copy(), a.WS
	cg, delegated := s.cgroup(a.Name())
	user, home := account(ws.UID)
	rules := c.LockRules(k.Role)
	wait, _ := rules.OnConflict.Duration() // checked with the configuration
	spec := wire.Spec{
		Version: wire.Version, Agent: k.Name, Workspace: ws.Name, RunDir: dir, LockSocket: s.run.LockSocket(),
		Session: k.Session, Secret: k.Secret, Git: ws.Git, Tree: a.Worktree(), Mountpoint: a.Worktree(), ProjectPath: ws.Project,
		Branch: k.Branch, Target: ws.Target, OwnedRefs: k.OwnedRefs, Tracked: ws.Root.Tracked(),
		UID: ws.UID, GID: ws.GID, User: user, Home: home, HomeDir: ws.Root.Home(k.Name), Scratch: ws.Root.Scratch(k.Name), LogDir: ws.Root.Logs(k.Name),
		LocksExempt: c.Locks.Exempt, Wait: setting.Duration(wait), Hold: rules.Hold, LockRules: rules.Rules, StaleTimeout: c.Locks.StaleTimeout, DaemonWait: c.Locks.DaemonWait, TempNames: c.Locks.TempNames,
		Mounts: append(slices.Clone(c.Sandbox.ExtraMounts), a.Type.Mounts...), OwnEnv: k.Env,
		NetNS: a.Network.NetNS, Address: a.Network.Address, NetTable: a.Network.Table, NetLink: a.Network.Link, ResolvConf: c.Network.ResolvConf, CgroupPath: cg, Delegated: delegated,
		SocketGID: max(s.socketGID, 0), StopGrace: c.Limits.StopGrace, LogBytes: int64(c.Limits.LogMB) << 20,
		Created: k.CreatedAt, Generation: k.Generation, BaseType: k.BaseType, Command: k.Command,
	}
	if spec.Lost = s.lost(); slices.Contains(spec.Lost, isolation.Network) {
		spec.Env = append(spec.Env, portEnv(k.PortMappings)...)
	}
	spec.Path, spec.UserNamespaces, spec.NoRing = c.Sandbox.Path, c.Sandbox.UserNamespaces, !c.Sandbox.FuseIOUring
	spec.Set(s.Settings(a))
	if ws.Git {
		remotes := a.Remotes
		if tool, err := remoteTool(); err != nil {
			s.log.Warn("agents reach no remotes", "agent", k.Name, "err", err)
			remotes = nil
		} else {
			spec.Mounts = append(spec.Mounts, tool)
		}
		rules := c.GitRules(k.Name, k.Role, a.Type)
		spec.Filtered = a.Filtered
		published := ""
		if a.Filtered != "" {
			published = ws.Root.Published()
		}
		id := rules.Identity.For(k.Name)
		spec.GitConfig = gitConfig(id, remotes, published)
		name, email := identity(a)
		spec.FullName, spec.Email = cmp.Or(id.Name, name), cmp.Or(id.Email, email)
		spec.GitRemotes = rules.Remote.Allows(config.RemoteFetch)
		spec.BareRepo, spec.PrivateGit = ws.Root.Bare(), ws.Root.Private(k.Name)
		spec.Shared = &wire.Shared{Paths: c.Shared.Paths, Dir: ws.Root.Overlay(k.Name)}
		if c.Shared.Pnpm {
			spec.Shared.Store = ws.Root.Store()
		}
		spec.GitBytes, spec.GitMemory = int64(c.Limits.GitObjectsMB)<<20, int64(c.Limits.GitMemoryMB)<<20
	} else {
		spec.Tree, spec.AsUser = ws.Project, ws.AsUser
	}
	for _, p := range k.PortMappings {
		spec.Ports = append(spec.Ports, wire.PortSpec{Internal: p.Internal, External: p.External, Bind: cmp.Or(p.Bind, c.Network.Bind), Protocol: p.Protocol})
	}
	return spec
}

// Settings are the part of an agent's spec that can be changed while it lives.
func (s *shims) Settings(a *agent.Agent) wire.Settings {
	k := a.Copy()
	l := s.limits(k.Limits)
	v := wire.Settings{Role: k.Role, Policy: k.Policy, MemoryBytes: int64(k.MemoryLimitMB) << 20, Pids: int64(l.Pids),
		CPUWeight: int64(l.CPUWeight), CPUPercent: int64(l.CPUPercent), IOWeight: int64(l.IOWeight),
		DiskBytes: int64(l.DiskMB) << 20, DiskFiles: int64(l.DiskFiles), Connections: int64(l.Connections)}
	v.Egress, v.Private, v.HostPorts = s.reach(a, k)
	v.Vars = s.variables(a, k)
	return v
}

// reach is where an agent's connections may go. What cannot be read allows
// nothing: it was checked when it was set, and the configuration is another now.
func (s *shims) reach(a *agent.Agent, k store.Agent) (entries, private []string, hostPorts []uint16) {
	c := s.config()
	r, err := c.Reach(k.Role, a.Type, config.Own{Egress: k.Egress, HostPorts: k.HostPorts})
	if err != nil {
		s.log.Error("egress not read; the agent reaches nothing", "agent", a.Name(), "err", err)
	}
	for _, p := range r.Private {
		private = append(private, p.String())
	}
	return r.Policy.Entries(), private, r.HostPorts
}

func (s *shims) limits(own api.Limits) api.Limits {
	c := s.config()
	return c.Limits.Agent(own)
}

// Note changes the settings in the spec of a shim that has taken them.
func (s *shims) Note(name string, v wire.Settings) error {
	sp, ok := s.Spec(name)
	if !ok {
		return nil // it has none: there is nothing to be wrong
	}
	sp.Set(v)
	if err := store.WriteSummed(s.run.AgentSpec(name), sp); err != nil {
		return fmt.Errorf("note the settings of agent %s: %w", name, err)
	}
	return nil
}

// variables are what the agent's programs get beside what the sandbox needs.
func (s *shims) variables(a *agent.Agent, k store.Agent) []string {
	c := s.config()
	vars := a.Type.Variables()
	maps.Copy(vars, c.Env(k.Name, k.Role, k.Env))
	out := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, name+"="+vars[name])
	}
	return out
}

// identity is the author of an agent's commits unless a configuration sets one.
func identity(a *agent.Agent) (name, email string) {
	return cmp.Or(a.Identity.Name, a.Name()), cmp.Or(a.Identity.Email, a.Name()+"@"+api.Domain)
}

func lookupUID(uid int) (*user.User, error) { return user.LookupId(strconv.Itoa(uid)) }

// account returns the user name and home directory of uid for the inside of
// the sandbox; a uid without an account gets a name of its own.
func account(uid int) (name, home string) {
	if u, err := lookupUID(uid); err == nil && u.Username != "" {
		name, home = u.Username, u.HomeDir
	} else {
		name = "polis"
	}
	if !filepath.IsAbs(home) || slices.Contains([]string{"/", "/nonexistent", "/usr/sbin", "/run/polis", "/var/lib/polis"}, filepath.Clean(home)) {
		home = "/home/" + name
	}
	return name, home
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
