package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/isolation"
	"polis/daemon/launcher"
	"polis/daemon/layout"
	"polis/daemon/shim/dial"
	"polis/daemon/shim/wire"
	"polis/daemon/store"
)

// launching is how shims come to life and end (package launcher).
type launching interface {
	Name() string
	Start(ctx context.Context, agent, spec string) error
	Alive(ctx context.Context, agent, dir string) (bool, error)
	Stop(ctx context.Context, agent, dir string, grace time.Duration) error
}

// readyTime bounds the start of a shim.
const readyTime = 30 * time.Second

// shims starts and stops the agents' shims.
type shims struct {
	run      layout.Run
	launcher launching
	program  string
	config   func() config.Config
	lost     func() []string
	cgroup   func(agent string) (path string, delegated bool)
	// total makes the limits of all agents together hold.
	total     func(context.Context) error
	socketGID int
	log       *slog.Logger
}

func (s *shims) Dial(name string) agent.Shim { return dial.New(s.run.AgentSocket(name)) }

func (s *shims) Socket(name string) string { return s.run.AgentSocket(name) }

// Spec reads what an agent's shim was started with.
func (s *shims) Spec(agent string) (wire.Spec, bool) {
	var sp wire.Spec
	b, err := os.ReadFile(s.run.AgentSpec(agent))
	if err != nil || json.Unmarshal(b, &sp) != nil {
		return wire.Spec{}, false
	}
	return sp, sp.Agent == agent
}

// Reason is what a shim that ended with an error wrote down.
func (s *shims) Reason(a *agent.Agent) string {
	if err := reported(s.run.Agent(a.Name())); err != nil {
		return err.Error()
	}
	return ""
}

func (s *shims) Alive(ctx context.Context, a *agent.Agent) (bool, error) {
	return s.launcher.Alive(ctx, a.Name(), s.run.Agent(a.Name()))
}

// List names the agents that have a directory below the run directory.
func (s *shims) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(s.run.Agents())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	sort.Strings(out)
	return out, nil
}

// Ensure writes the spec, starts the shim and waits until it answers or says
// why it cannot.
func (s *shims) Ensure(ctx context.Context, a *agent.Agent) (err error) {
	dir := s.run.Agent(a.Name())
	if err := s.prepare(a, dir); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := s.total(ctx); err != nil {
		return err
	}
	serr := s.launcher.Start(ctx, a.Name(), s.run.AgentSpec(a.Name()))
	if serr != nil {
		if err := reported(dir); err != nil {
			return err
		}
		return api.Errorf(api.CodeNamespaceFailed, "start the shim of agent %s: %w", a.Name(), serr).WithHint("see journalctl -u polis-agent@%s or %s/shim.log", a.Name(), dir)
	}
	for {
		if _, err := s.Dial(a.Name()).Status(ctx); err == nil {
			return s.total(ctx) // the group above may have gone with another agent, and come with this one
		}
		alive, err := s.launcher.Alive(ctx, a.Name(), dir)
		if err := reported(dir); err != nil {
			return err
		}
		if err == nil && !alive {
			return api.Errorf(api.CodeNamespaceFailed, "the shim of agent %s ended at once", a.Name()).WithHint("see journalctl -u polis-agent@%s or %s/shim.log", a.Name(), dir)
		}
		select {
		case <-ctx.Done():
			return api.Errorf(api.CodeTimeout, "the shim of agent %s did not answer in %s: %w", a.Name(), readyTime, context.Cause(ctx))
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// reported is the error a shim left, if it did.
func reported(dir string) error {
	b, err := os.ReadFile(layout.ShimError(dir))
	if err != nil {
		return nil //nolint:nilerr // no report
	}
	e := &api.Error{}
	if err := json.Unmarshal(b, e); err != nil || e.Code == "" {
		return nil //nolint:nilerr // still being written
	}
	return e
}

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
	spec := s.spec(a, dir)
	for _, d := range []string{spec.HomeDir, spec.Scratch} {
		if err := ownedDir(d, spec.UID, spec.GID, 0o700); err != nil {
			return fail(err)
		}
	}
	if err := os.MkdirAll(a.Worktree(), 0o755); err != nil && !a.WS.Git {
		return fail(err)
	}
	if err := seedHome(&spec, a, s.log); err != nil {
		return fail(err)
	}
	if err := store.WriteJSON(s.run.AgentSpec(a.Name()), spec); err != nil {
		return fail(err)
	}
	return nil
}

func ownedDir(path string, uid, gid int, mode os.FileMode) error {
	err := os.Mkdir(path, mode)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.Mkdir(path, mode)
		}
	}
	if err != nil {
		return err
	}
	return os.Lchown(path, uid, gid)
}

func (s *shims) spec(a *agent.Agent, dir string) wire.Spec {
	c := s.config()
	k, ws := a.Kept, a.WS
	cg, delegated := s.cgroup(a.Name())
	user, home := account(ws.UID)
	rules := c.LockRules(k.Role)
	wait, _ := rules.OnConflict.Duration() // checked with the configuration
	spec := wire.Spec{
		Version: wire.Version, Agent: k.Name, Workspace: ws.Name, RunDir: dir, LockSocket: s.run.LockSocket(),
		Session: k.Session, Secret: k.Secret, Git: ws.Git, Tree: a.Worktree(), Mountpoint: a.Worktree(), ProjectPath: ws.Project,
		Branch: k.Branch, Target: ws.Target, OwnedRefs: k.OwnedRefs,
		UID: ws.UID, GID: ws.GID, User: user, Home: home, HomeDir: ws.Root.Home(k.Name), Scratch: ws.Root.Scratch(k.Name), LogDir: ws.Root.Logs(k.Name),
		LocksExempt: c.Locks.Exempt, Wait: wire.Duration(wait), Hold: rules.Hold, LockRules: rules.Rules, StaleTimeout: c.Locks.StaleTimeout, DaemonWait: c.Locks.DaemonWait, TempNames: c.Locks.TempNames,
		Mounts: append(slices.Clone(c.Sandbox.ExtraMounts), a.Type.Mounts...), Env: environment(a.Type),
		NetNS: a.Network.NetNS, Address: a.Network.Address, NetTable: a.Network.Table, NetLink: a.Network.Link, ResolvConf: c.Network.ResolvConf, CgroupPath: cg, Delegated: delegated,
		SocketGID: max(s.socketGID, 0), StopGrace: c.Limits.StopGrace, LogBytes: int64(c.Limits.LogMB) << 20,
		Created: k.CreatedAt, Generation: k.Generation, BaseType: k.BaseType, Command: k.Command,
	}
	if spec.Lost = s.lost(); slices.Contains(spec.Lost, isolation.Network) {
		spec.Env = append(spec.Env, portEnv(k.PortMappings)...)
	}
	spec.Path, spec.UserNamespaces = c.Sandbox.Path, c.Sandbox.UserNamespaces
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
		spec.GitConfig = gitConfig(rules.Identity.For(k.Name), remotes)
		spec.GitRemotes = rules.Remote.Allows(config.RemoteFetch)
		spec.BareRepo, spec.PrivateGit = ws.Root.Bare(), ws.Root.Private(k.Name)
		spec.Shared = &wire.Shared{Paths: c.Shared.Paths, Dir: ws.Root.Overlay(k.Name)}
		if c.Shared.Pnpm {
			spec.Shared.Store = ws.Root.Store()
		}
		spec.GitBytes = int64(c.Limits.GitObjectsMB) << 20
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
	k, l := a.Kept, s.limits(a.Kept.Limits)
	v := wire.Settings{Role: k.Role, Policy: k.Policy, MemoryBytes: int64(k.MemoryLimitMB) << 20, Pids: int64(l.Pids),
		CPUWeight: int64(l.CPUWeight), CPUPercent: int64(l.CPUPercent), IOWeight: int64(l.IOWeight), DiskBytes: int64(l.DiskMB) << 20}
	v.Egress, v.Private = s.reach(a)
	return v
}

// reach is where an agent's connections may go. What cannot be read allows
// nothing: it was checked when it was set, and the configuration is another now.
func (s *shims) reach(a *agent.Agent) (entries, private []string) {
	c := s.config()
	r, err := c.Reach(a.Kept.Role, a.Type, a.Kept.Egress)
	if err != nil {
		s.log.Error("the agent reaches nothing: its egress cannot be read", "agent", a.Name(), "err", err)
	}
	for _, p := range r.Private {
		private = append(private, p.String())
	}
	return r.Policy.Entries(), private
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
	if err := store.WriteJSON(s.run.AgentSpec(name), sp); err != nil {
		return fmt.Errorf("note the settings of agent %s: %w", name, err)
	}
	return nil
}

func environment(t config.BaseType) []string {
	var env []string
	for _, name := range t.PassEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for k, v := range t.Env {
		env = append(env, k+"="+v)
	}
	sort.Strings(env)
	return env
}

// Remove ends the shim and then clears what it left, also when it was dead.
func (s *shims) Remove(ctx context.Context, a *agent.Agent) error {
	dir := s.run.Agent(a.Name())
	grace := time.Duration(s.config().Limits.StopGrace) + 20*time.Second
	err := s.launcher.Stop(ctx, a.Name(), dir, grace)
	if err = errors.Join(err, s.clear(ctx, a.Name())); err != nil {
		return fmt.Errorf("remove the shim of agent %s: %w", a.Name(), err)
	}
	return nil
}

// clear removes what a shim that is gone has left, its directory last.
func (s *shims) clear(ctx context.Context, name string) error {
	if _, err := os.Stat(s.run.AgentSpec(name)); err == nil {
		if err := s.cleanup(ctx, name); err != nil {
			return err
		}
	}
	return os.RemoveAll(s.run.Agent(name))
}

// cleanup has the shim program clear mounts, sandbox and cgroup by name: it
// alone knows libcontainer.
func (s *shims) cleanup(ctx context.Context, name string) error {
	if err := launcher.Cleanup(ctx, s.program, s.run.AgentSpec(name)); err != nil {
		return fmt.Errorf("clear up after the shim of agent %s: %w", name, err)
	}
	return nil
}

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
