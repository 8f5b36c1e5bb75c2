package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/merge"
	"polis/daemon/queue"
	"polis/daemon/radar"
	"polis/daemon/remote"
	"polis/daemon/store"
	"polis/daemon/worktree"
)

// workspace is a repository under polis: what agents see of it, and the git side.
type workspace struct {
	d      *Daemon
	agents *agent.Workspace
	git    *worktree.Workspace
	merger *merge.Merger
	locks  *refLocks
	remote *remote.Broker
	radar  *radar.Radar // nil without git
	queue  *queue.Worker
	state  store.State
}

// fallbackUID runs the agents of a project that belongs to root on a machine
// without the configured user; it is outside what distributions hand out.
const fallbackUID = 64923

var workspaceName = regexp.MustCompile(`[^a-z0-9-]+`)

// Up makes a workspace or finds it made.
func (b *backend) Up(ctx context.Context, req api.UpRequest, progress func(string)) (api.UpResponse, error) {
	return b.Daemon.up(ctx, req, progress)
}

func (d *Daemon) up(ctx context.Context, req api.UpRequest, progress func(string)) (api.UpResponse, error) {
	d.upLock.Lock()
	defer d.upLock.Unlock()
	reg, err := d.readRegistry()
	if err != nil {
		return api.UpResponse{}, api.Errorf(api.CodeStateCorrupt, "list of workspaces: %w", err)
	}
	name, root, err := d.place(req, reg)
	if err != nil {
		return api.UpResponse{}, err
	}
	_, known := reg.Workspaces[name]
	local := ""
	if req.Repo != "" && !isURL(req.Repo) {
		local = req.Repo
	}
	if err := d.ground(root, local, reg); err != nil {
		return api.UpResponse{}, err
	}
	uid, gid, err := d.owner(root, local)
	if err != nil {
		return api.UpResponse{}, err
	}
	_, err = os.Lstat(root.Dir())
	fresh := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(string(root), 0o755); err != nil {
		return api.UpResponse{}, api.Errorf(api.CodeWorkspaceInvalid, "make workspace %s: %w", root, err)
	}
	info, err := worktree.Up(ctx, worktree.Spec{Workspace: string(root), Repo: req.Repo, Target: req.Target, UID: uint32(uid), GID: uint32(gid), Plain: d.staysPlain(name), Log: d.Log, Progress: progress})
	if err != nil {
		if !known && fresh {
			forgetAttempt(root)
		}
		return api.UpResponse{}, err
	}
	var st store.State
	rep := &agent.Report{}
	if !known {
		if st, err = d.readState(name, root, rep); err != nil {
			return api.UpResponse{}, err
		}
		reg.Workspaces[name] = string(root)
		if err := d.writeRegistry(reg); err != nil {
			return api.UpResponse{}, err
		}
	}
	w := d.enter(name, root, info, uid, gid)
	if !known {
		d.restoreAgents(ctx, w, st, rep)
		for _, e := range rep.Errors {
			d.Log.Warn("reconcile", "workspace", name, "err", e)
		}
	}
	if info.Git {
		w.queue.Open(ctx) // it may have been a plain directory until now
	}
	resp := api.UpResponse{Created: info.Changed}
	for _, v := range d.agents.Workspaces() {
		if v.Name == name {
			resp.Workspace = v
		}
	}
	resp.Warnings = append(resp.Warnings, plainWarnings(w, info)...)
	return resp, nil
}

// forgetAttempt takes away the empty frame of a workspace that could not be
// made. What is not empty is somebody's work, and stays.
func forgetAttempt(root layout.Workspace) {
	link := root.Project()
	if fi, err := os.Lstat(link); err == nil && fi.Mode()&os.ModeSymlink != 0 {
		_ = os.Remove(link) //nolint:errcheck // only tidying up
	}
	entries, _ := os.ReadDir(root.Dir()) //nolint:errcheck // as above
	for _, e := range entries {
		if e.IsDir() {
			_ = os.Remove(filepath.Join(root.Dir(), e.Name())) //nolint:errcheck // not empty
		}
	}
	_ = os.Remove(root.Dir())   //nolint:errcheck // as above
	_ = os.Remove(string(root)) //nolint:errcheck // as above
}

// place decides the workspace's name and directory.
func (d *Daemon) place(req api.UpRequest, reg store.Registry) (string, layout.Workspace, error) {
	bad := func(field, value, rule string) (string, layout.Workspace, error) {
		return "", "", api.Errorf(api.CodeBadRequest, "%s = %q: %s", field, api.Shorten(value, 200), rule)
	}
	for field, v := range map[string]string{"repo": req.Repo, "path": req.Path, "target": req.Target} {
		if len(v) > 4096 || strings.ContainsRune(v, 0) {
			return bad(field, v, "must have at most 4096 bytes and no NUL")
		}
	}
	if req.Repo != "" && !isURL(req.Repo) && !filepath.IsAbs(req.Repo) {
		return bad("repo", req.Repo, "must be a URL or an absolute path")
	}
	if req.Path != "" {
		if !filepath.IsAbs(req.Path) || filepath.Clean(req.Path) != req.Path || req.Path == "/" {
			return bad("path", req.Path, "must be a clean absolute path")
		}
		for n, p := range reg.Workspaces {
			if p == req.Path {
				return n, layout.Workspace(p), nil
			}
		}
		if req.Repo == "" {
			return bad("repo", "", "must be given for a new workspace")
		}
		return unique(base(req.Path), reg), layout.Workspace(req.Path), nil
	}
	if req.Repo == "" {
		return bad("repo", "", "must be a directory or a URL")
	}
	// The same repository again is the same workspace.
	if real, err := filepath.EvalSymlinks(req.Repo); err == nil {
		for n, p := range reg.Workspaces {
			if have, err := filepath.EvalSymlinks(layout.Workspace(p).Project()); err == nil && have == real {
				return n, layout.Workspace(p), nil
			}
		}
	}
	n := unique(base(req.Repo), reg)
	return n, layout.Workspace(filepath.Join(d.Config.WorkspacesDir, n)), nil
}

func isURL(s string) bool {
	return strings.Contains(s, "://") || (!strings.HasPrefix(s, "/") && strings.Contains(s, ":"))
}

func base(p string) string {
	n := strings.TrimSuffix(filepath.Base(strings.TrimRight(p, "/")), ".git")
	n = strings.Trim(workspaceName.ReplaceAllString(strings.ToLower(n), "-"), "-")
	if n == "" {
		n = "workspace"
	}
	return n[:min(len(n), 40)]
}

func unique(n string, reg store.Registry) string {
	for i, try := 2, n; ; i++ {
		if _, ok := reg.Workspaces[try]; !ok {
			return try
		}
		try = fmt.Sprintf("%s-%d", n, i)
	}
}

// owner is who agents of a workspace run as: the owner of the project, or,
// if that is root, the configured user.
func (d *Daemon) owner(root layout.Workspace, local string) (uid, gid int, err error) {
	if fi, err := os.Stat(root.Bare()); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), nil
		}
	}
	if local == "" {
		local = root.Project()
	}
	fi, err := os.Stat(local)
	if err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return int(st.Uid), int(st.Gid), nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return 0, 0, api.Errorf(api.CodeWorkspaceInvalid, "look at %s: %w", local, err)
	}
	u, err := user.Lookup(d.live().Sandbox.User)
	if err != nil {
		d.warn("there is no user " + d.live().Sandbox.User + "; agents of projects that belong to root run as uid " + fmt.Sprint(fallbackUID))
		return fallbackUID, fallbackUID, nil //nolint:nilerr // said as a warning
	}
	if uid, gid = atoi(u.Uid), atoi(u.Gid); uid <= 0 || gid < 0 {
		return 0, 0, api.Errorf(api.CodeInvalidConfig, "sandbox.user = %q: must not be root", u.Username)
	}
	return uid, gid, nil
}

func (d *Daemon) warn(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.warnings {
		if w == text {
			return
		}
	}
	d.warnings = append(d.warnings, text)
	d.Log.Warn(text)
}

// enter makes the workspace known to the daemon and the agents' manager.
func (d *Daemon) enter(name string, root layout.Workspace, info worktree.Info, uid, gid int) *workspace {
	d.mu.Lock()
	w, ok := d.workspaces[name]
	if !ok {
		locks := &refLocks{d: d, workspace: name, bare: root.Bare()}
		w = &workspace{d: d, locks: locks, git: worktree.Open(worktree.Config{Workspace: string(root), UID: uint32(uid), GID: uint32(gid), Log: d.Log, Locks: locks})}
		w.remote = w.broker()
		w.merger = &merge.Merger{Workspace: w.git, Log: d.Log, Locks: locks}
		w.queue = &queue.Worker{Host: mergeHost{w}, Log: d.Log, Now: time.Now}
		d.workspaces[name] = w
	}
	w.state.Project, w.state.Git, w.state.TargetBranch, w.state.UID, w.state.GID = info.ProjectPath, info.Git, info.Target, uid, gid
	d.mu.Unlock()
	enter := &agent.Workspace{Name: name, Root: root, Project: info.ProjectPath, Git: info.Git, Target: info.Target,
		Owner: int(info.ProjectOwner.UID), UID: uid, GID: gid, AsUser: d.rootsTree(info, uid, gid), Repo: repo{w}}
	if info.Git {
		enter.Queue = w.queue
	}
	w.agents = d.agents.AddWorkspace(enter)
	if info.Git {
		d.openRadar(w, name, root)
	}
	return w
}

// restoreWorkspace brings a known workspace back at start.
func (d *Daemon) restoreWorkspace(ctx context.Context, name, path string, rep *agent.Report) error {
	root := layout.Workspace(path)
	if _, err := os.Stat(root.Dir()); err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "workspace %s: %w", name, err)
	}
	uid, gid, err := d.owner(root, "")
	if err != nil {
		return err
	}
	st, err := d.readState(name, root, rep)
	if err != nil {
		return err
	}
	info, err := worktree.Up(ctx, worktree.Spec{Workspace: path, UID: uint32(uid), GID: uint32(gid), Plain: plainWithAgents(st), Log: d.Log})
	if err != nil {
		return err
	}
	w := d.enter(name, root, info, uid, gid)
	if err := w.git.Sweep(); err != nil {
		rep.Fail("workspace %s: %v", name, err)
	}
	d.restoreAgents(ctx, w, st, rep)
	return nil
}

func (d *Daemon) restoreAgents(ctx context.Context, w *workspace, st store.State, rep *agent.Report) {
	w.agents.Removed = st.Removed
	w.queue.Load(st.Queue)
	for _, e := range w.queue.Entries() {
		rep.Heal("%s: was in the merge queue when the daemon ended; it is merged now, or found merged", e.Agent)
	}
	defer w.queue.Open(ctx)
	var trees []agent.Tree
	if w.agents.Git {
		list, err := w.git.List()
		if err != nil {
			rep.Errors = append(rep.Errors, fmt.Sprintf("workspace %s: %v", w.agents.Name, err))
			// Without the list nothing may be concluded to be missing.
			for _, a := range st.Agents {
				trees = append(trees, agent.Tree{Name: a.Name})
			}
		}
		for _, t := range list {
			trees = append(trees, agent.Tree{Name: t.Agent, Broken: t.Broken, Missing: t.Missing()})
		}
	}
	d.agents.Restore(ctx, w.agents, st.Agents, trees, rep)
}
