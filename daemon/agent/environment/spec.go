package environment

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/agent/home"
	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/host/isolation"
	"polis/daemon/host/private"
	"polis/daemon/host/walk"
	"polis/daemon/store/layout"
	"polis/fusefs/policy"
)

// Builder makes the specs of agents. Set all fields.
type Builder struct {
	Run    layout.Run
	Config func() config.Config
	// Lost returns what this machine cannot isolate (package isolation).
	Lost func() []string
	// Cgroup returns the path of an agent's control group, and whether it is delegated to the shim.
	Cgroup func(agent string) (path string, delegated bool)
	// SocketGID is the group that may use the shims' sockets; -1: root alone.
	SocketGID int
	Log       *slog.Logger
}

// Prepare makes the directories that an agent's shim needs, fills the agent's home and returns
// the spec. dir is the run directory of the agent.
func (b *Builder) Prepare(a *agent.Agent, dir string) (wire.Spec, error) {
	// polisd made the parent at its start; another program can have removed it since.
	if err := errors.Join(private.Shared(filepath.Dir(dir), false), private.Group(dir, b.SocketGID)); err != nil {
		return wire.Spec{}, err
	}
	if err := os.Remove(layout.ShimError(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return wire.Spec{}, err
	}
	if err := checkObjects(a); err != nil {
		return wire.Spec{}, err
	}
	spec := b.Spec(a, dir)
	err := Below(a, func(at func(string) string) error {
		for _, d := range []string{spec.HomeDir, spec.Scratch} {
			if err := private.Owned(at(d), spec.UID, spec.GID); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(at(a.Worktree()), 0o755); err != nil && !a.WS.Git {
			return err
		}
		files, err := home.Seed(b.homeAt(a, spec, at))
		spec.Mounts = append(spec.Mounts, files...)
		return err
	})
	if err != nil {
		return wire.Spec{}, err
	}
	return spec, nil
}

// Below calls f with a function that returns the path by which this process reaches one in the directory of the
// workspace: the owner of a directory above it can exchange that one, and root makes and fills directories there.
func Below(a *agent.Agent, f func(at func(path string) string) error) error {
	dir := a.WS.Root.Dir()
	state, err := walk.Own(dir, uint32(a.WS.UID))
	if err != nil {
		return walk.Refused("the workspace of "+a.Name(), err)
	}
	defer state.Close()
	return f(func(path string) string {
		rel, ok := strings.CutPrefix(path, dir+"/")
		if !ok {
			return path
		}
		return walk.Path(state, rel)
	})
}

// homeAt is home with the paths by which this process reaches the directories.
func (b *Builder) homeAt(a *agent.Agent, spec wire.Spec, at func(string) string) home.Spec {
	h := b.home(a, spec)
	h.Dir, h.Record = at(h.Dir), at(h.Record)
	return h
}

// home describes the home directory of an agent with this spec.
func (b *Builder) home(a *agent.Agent, spec wire.Spec) home.Spec {
	files, answers := models.Home(b.Config(), a.Copy().Role, a.Type)
	return home.Spec{Agent: a.Name(), Files: files, Answers: answers, Project: spec.ProjectPath, Owner: a.WS.Owner,
		Dir: spec.HomeDir, Inside: spec.Home, Record: a.WS.Root.Copied(a.Name()), ReadOnly: filepath.Join(spec.RunDir, "home"),
		UID: spec.UID, GID: spec.GID, By: identity(a), Context: a.Type.Context, ContextPath: wire.ContextPath, Log: b.Log}
}

// RefreshHome brings the copies in the home of an agent with this spec up to date.
func (b *Builder) RefreshHome(a *agent.Agent, spec wire.Spec) error {
	return Below(a, func(at func(string) string) error { return home.Refresh(b.homeAt(a, spec, at)) })
}

// checkObjects refuses an agent whose rules withhold files, and that would get all objects of the
// repository.
func checkObjects(a *agent.Agent) error {
	if !a.WS.Git || a.Filtered != "" {
		return nil
	}
	p := a.Copy().Rules()
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	if err == nil && !set.AllReadable() {
		err = fmt.Errorf("its rules withhold files, and no filtered objects exist for it")
	}
	return err
}

// Spec returns the spec of an agent as it is configured now. It makes nothing.
func (b *Builder) Spec(a *agent.Agent, dir string) wire.Spec {
	c := b.Config()
	k, ws := a.Copy(), a.WS
	cg, delegated := b.Cgroup(a.Name())
	user, userHome := Account(ws.UID)
	rules := c.LockRules(k.Role)
	wait, _ := rules.OnConflict.Duration() // checked with the configuration
	spec := wire.Spec{
		Version: wire.Version, Agent: k.Name, Workspace: ws.Name, RunDir: dir, LockSocket: b.Run.LockSocket(),
		State: ws.Root.Dir(), Project: ws.Recorded(), Session: k.Session, Secret: k.Secret, Git: ws.Git, Tree: a.Worktree(), Mountpoint: a.Worktree(), ProjectPath: ws.Project,
		Branch: k.Branch, Target: ws.Target, OwnedRefs: k.OwnedRefs, Tracked: ws.Root.Tracked(),
		UID: ws.UID, GID: ws.GID, User: user, Home: userHome, HomeDir: ws.Root.Home(k.Name), Scratch: ws.Root.Scratch(k.Name), LogDir: ws.Root.Logs(k.Name), LastTask: a.LastTask,
		LocksExempt: c.Locks.Exempt, Wait: setting.Duration(wait), Hold: rules.Hold, LockRules: rules.Rules, LockTrees: rules.Trees, StaleTimeout: c.Locks.StaleTimeout, DaemonWait: c.Locks.DaemonWait, TempNames: c.Locks.TempNames, TempFiles: c.Locks.TempFiles,
		Mounts: append(slices.Clone(c.Sandbox.ExtraMounts), a.Type.Mounts...), OwnEnv: k.Env,
		NetNS: a.Network.NetNS, Address: a.Network.Address, NetTable: a.Network.Table, NetLink: a.Network.Link, ResolvConf: c.Network.ResolvConf, CgroupPath: cg, Delegated: delegated,
		SocketGID: max(b.SocketGID, 0), StopGrace: c.Limits.StopGrace, LogBytes: int64(c.Limits.LogMB) << 20,
		Created: k.CreatedAt, Generation: k.Generation, BaseType: k.BaseType, Command: k.Command,
	}
	// Only one of a race is merged, and they change the same files. A replay is not merged.
	if k.Race != "" || k.Replay != nil {
		spec.LocksExempt = append(slices.Clone(spec.LocksExempt), "**")
	}
	spec.ReadOnly = k.ReadOnly
	switch {
	case a.Audited:
		spec.Audit, spec.AuditDeny = wire.AuditFull, c.Receipts.AuditOnFull == config.AuditDeny
	case k.Recording:
		spec.Audit = wire.AuditPolicy
	}
	if k.Worker != nil {
		spec.Worker, spec.Parent = true, k.Worker.Parent
	}
	if spec.Lost = b.Lost(); slices.Contains(spec.Lost, isolation.Network) {
		spec.Env = append(spec.Env, portEnv(k.PortMappings)...)
	}
	spec.Path, spec.UserNamespaces, spec.NoRing = c.Sandbox.Path, c.Sandbox.UserNamespaces, !c.Sandbox.FuseIOUring
	spec.ToolNames, spec.Context = a.Type.Tools, a.Type.Context
	spec.Settings = b.Settings(a)
	if !spec.Tools.Empty() {
		spec.Hook = hookOf(a.Type)
	}
	spec.SaidHook = saidHookOf(a.Type)
	if ws.Git {
		if _, err := os.Lstat(ws.Root.LayersBase(k.Name)); err == nil {
			spec.Tree, spec.Upper = ws.Root.LayersMerged(k.Name), a.Worktree()
			b.layers(&spec, ws.Root)
		}
		b.addGit(&spec, a, c)
	} else {
		spec.Tree, spec.AsUser = ws.Project, ws.AsUser
	}
	for _, p := range k.PortMappings {
		spec.Ports = append(spec.Ports, wire.PortSpec{Internal: p.Internal, External: p.External, Bind: cmp.Or(p.Bind, c.Network.Bind), Protocol: p.Protocol})
	}
	return spec
}

// layers describes an overlay above the view, if the daemon prepared one. Without the file the shim
// takes the overlay below.
func (b *Builder) layers(spec *wire.Spec, root layout.Workspace) {
	tree, err := os.ReadFile(root.LayersAbove(spec.Agent))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			b.Log.Error("layers of the worktree not read", "agent", spec.Agent, "err", err)
		}
		return
	}
	spec.Tree, spec.Work = spec.Upper, root.LayersWork(spec.Agent)
	spec.Lower, spec.Setup = worktree.SplitLower(string(tree))
}

// addGit adds to the spec what an agent in a git repository needs: its repositories, git
// configuration, remotes and shared paths.
func (b *Builder) addGit(spec *wire.Spec, a *agent.Agent, c config.Config) {
	k, ws := a.Copy(), a.WS
	remotes := a.Remotes
	if tool, err := remoteTool(); err != nil {
		b.Log.Warn("agents reach no remotes", "agent", k.Name, "err", err)
		remotes = nil
	} else {
		spec.Mounts = append(spec.Mounts, tool)
		if m, ok := adapterTool(); ok {
			spec.Mounts = append(spec.Mounts, m)
		}
	}
	rules := c.GitRules(k.Name, k.Role, a.Type)
	spec.Filtered = a.Filtered
	published := ""
	if a.Filtered != "" {
		published = ws.Root.Published()
	}
	id := rules.Identity.For(k.Name)
	spec.Hooks = hooksOf(a, rules)
	spec.GitConfig = gitConfig(id, remotes, published, spec.Hooks.Config())
	borrow(spec, a)
	spec.GitSeed = upstreamConfig(a.Upstreams) + sparseConfig(k.Sparse)
	author := identity(a).Author
	spec.FullName, spec.Email = cmp.Or(id.Name, author.Name), cmp.Or(id.Email, author.Email)
	spec.GitRemotes = !k.ReadOnly && rules.Remote.Allows(config.RemoteFetch) && !a.OfAgent()
	spec.BareRepo, spec.PrivateGit = ws.Root.Bare(), ws.Root.Private(k.Name)
	if !k.ReadOnly { // what a program writes beside the commit, it cannot write
		spec.Shared = &wire.Shared{Paths: c.Shared.Paths, Dir: ws.Root.Overlay(k.Name), Made: b.made(ws.Root, k.Name)}
		if c.Shared.Pnpm {
			spec.Shared.Store = ws.Root.Store()
		}
	}
	spec.GitBytes, spec.GitMemory = int64(c.Limits.GitObjectsMB)<<20, int64(c.Limits.GitMemoryMB)<<20
}

// borrow shows an agent the objects of the project's submodules and of Git LFS. If rules withhold files, they can be of
// these.
func borrow(spec *wire.Spec, a *agent.Agent) {
	if a.Filtered != "" {
		return
	}
	for _, to := range slices.Sorted(maps.Keys(a.Modules)) {
		spec.Mounts = append(spec.Mounts, setting.Mount{Source: a.Modules[to], Dest: to, ReadOnly: true})
		spec.GitConfig += activeModule(to)
	}
	if a.LFS != "" {
		spec.Mounts = append(spec.Mounts, setting.Mount{Source: a.LFS, Dest: a.WS.Root.LFSObjects(), ReadOnly: true})
	}
}

// activeModule configures a submodule as one that git-submodule(1) works on. objects is the directory of its objects.
func activeModule(objects string) string {
	dir := filepath.Dir(objects)
	name := dir[strings.LastIndex(dir, "/modules/")+len("/modules/"):]
	return fmt.Sprintf("[submodule %s]\n\tactive = true\n", git.QuoteConfig(name))
}

// hooksOf returns the git hooks of the project, as the agent has them.
func hooksOf(a *agent.Agent, rules config.GitRules) *wire.GitHooks {
	found := a.Hooks.Load()
	if found == nil {
		return nil
	}
	h := *found
	h.Run = rules.Hooks == config.HooksRun
	return &h
}

// made returns the names that the setup command made for a worktree.
func (b *Builder) made(root layout.Workspace, agent string) []string {
	r, err := worktree.ReadSetup(root.LayersSetup(agent))
	if err != nil {
		b.Log.Warn("names that the setup command made not read", "agent", agent, "err", err)
	}
	if r == nil {
		return nil
	}
	return r.Outputs
}

// identity is who an agent's commits are by unless a configuration sets one.
func identity(a *agent.Agent) git.Idents {
	of := func(p git.Person) git.Person {
		return git.Person{Name: cmp.Or(p.Name, a.Name()), Email: cmp.Or(p.Email, a.Name()+"@"+api.Domain)}
	}
	return git.Idents{Author: of(a.Identity.Author), Committer: of(a.Identity.Committer)}
}
