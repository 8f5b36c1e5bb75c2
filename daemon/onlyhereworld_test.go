package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/git/filtered"
	"polis/daemon/git/maintain"
	"polis/daemon/git/worktree"
	"polis/daemon/launch"
	"polis/daemon/store"
	"polis/daemon/store/events"
	"polis/daemon/store/layout"
	"polis/internal/need"
)

// nobody owns the worktrees of these tests.
const nobody = 65534

// onlyHere is a workspace with real repositories, the daemon's own worktrees, measuring, saving and
// removing, and shims that are only noted: polis is what happens to files, branches and stashes.
type onlyHere struct {
	root  layout.Workspace
	info  worktree.Info
	types map[string]config.BaseType

	w     *workspace
	m     *agent.Manager
	shims *notedShims
	saved savedState
	queue *notedQueue
}

// savedState is the state as it was written last, which the next manager reads.
type savedState struct {
	agents  []store.Agent
	removed []store.Removed
}

func (s *savedState) Save(_ string, a []store.Agent, removed []store.Removed) error {
	s.agents, s.removed = a, removed
	return nil
}

// notedShims says of each agent whether its shim lives, and what it works on.
type notedShims struct {
	agent.Shims
	status map[string]*wire.Status
}

func (s *notedShims) Ensure(_ context.Context, a *agent.Agent) error {
	s.status[a.Name()] = &wire.Status{Version: wire.Version, Generation: a.Kept.Generation}
	return nil
}
func (s *notedShims) Remove(_ context.Context, a *agent.Agent) error {
	delete(s.status, a.Name())
	return nil
}
func (s *notedShims) Alive(_ context.Context, a *agent.Agent) (bool, error) {
	return s.status[a.Name()] != nil, nil
}
func (s *notedShims) Dial(name string) agent.Shim                   { return notedShim{s: s, name: name} }
func (*notedShims) Spec(string) (wire.Spec, bool)                   { return wire.Spec{}, false }
func (*notedShims) Settings(*agent.Agent) wire.Settings             { return wire.Settings{} }
func (*notedShims) Note(*agent.Agent, wire.Settings) error          { return nil }
func (*notedShims) RefreshHome(*agent.Agent) error                  { return nil }
func (*notedShims) Reason(*agent.Agent) string                      { return "" }
func (*notedShims) SendModels(context.Context, *agent.Agent) error  { return nil }
func (*notedShims) GrantModels(context.Context, *agent.Agent) error { return nil }
func (*notedShims) RaiseModels(context.Context, string, string, string, float64) error {
	return nil
}
func (*notedShims) ModelPaused(string, string, time.Time) bool           { return false }
func (*notedShims) ModelTurns(string, []string) map[string]time.Duration { return nil }
func (*notedShims) ModelsSpent(*agent.Agent, []agent.Relative) string    { return "" }
func (*notedShims) SaveCursor(string, uint64) error                      { return nil }
func (*notedShims) LoadCursor(string) (uint64, bool)                     { return 0, false }
func (*notedShims) Socket(string) string                                 { return "" }
func (s *notedShims) List(context.Context) ([]string, error)             { return nil, nil }
func (*notedShims) KeyRefused(string) bool                               { return false }
func (*notedShims) KeysExpired() <-chan struct{}                         { return nil }

type notedShim struct {
	agent.Shim
	s    *notedShims
	name string
}

func (s notedShim) Status(context.Context) (wire.Status, error) {
	if st := s.s.status[s.name]; st != nil {
		return *st, nil
	}
	return wire.Status{}, fmt.Errorf("the shim of %s is gone", s.name)
}
func (s notedShim) Start(_ context.Context, r wire.StartRequest) error {
	st := s.s.status[s.name]
	st.Running, st.Task, st.Done, st.ExitCode = true, r.Task, nil, nil
	return nil
}
func (notedShim) Leftovers(context.Context, bool) (api.Leftovers, error) { return api.Leftovers{}, nil }
func (notedShim) Steps(context.Context) (wire.Steps, error)              { return wire.Steps{}, nil }
func (notedShim) Why(context.Context) ([]api.WhyEntry, error)            { return nil, nil }
func (notedShim) Set(context.Context, wire.SettingsRequest) error        { return nil }
func (notedShim) Remount(context.Context) (wire.Remounted, error)        { return wire.Remounted{}, nil }
func (notedShim) RestoreGate(context.Context) error                      { return nil }
func (notedShim) Blocked(context.Context, wire.BlockedRequest) error     { return nil }
func (notedShim) ReleaseIdle(context.Context) error                      { return nil }
func (notedShim) Changes(context.Context, wire.ChangesRequest) (wire.Changes, error) {
	return wire.Changes{}, nil
}
func (s notedShim) Freeze(_ context.Context, r wire.FreezeRequest) error {
	s.s.status[s.name].Frozen = &api.Frozen{By: r.By, Reason: r.Reason, At: time.Now()}
	return nil
}
func (s notedShim) Thaw(context.Context, wire.ThawRequest) error {
	s.s.status[s.name].Frozen = nil
	return nil
}
func (notedShim) Close() {}
func (notedShim) Events(ctx context.Context, _ uint64, _ func(api.Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

// notedQueue has the agents that wait to be merged; the test merges.
type notedQueue struct {
	agent.Queue
	waits map[string]bool
}

func (q *notedQueue) Add(e api.QueueEntry) (api.QueueEntry, error) {
	q.waits[e.Agent] = true
	return e, nil
}
func (q *notedQueue) Remove(name string) (bool, error) {
	was := q.waits[name]
	delete(q.waits, name)
	return was, nil
}
func (q *notedQueue) Waits(name string) bool                { return q.waits[name] }
func (q *notedQueue) Settled(context.Context, string) error { return nil }

type noLocks struct{}

func (noLocks) DropAgent(string)    {}
func (noLocks) ReleaseMerge(string) {}

type noPorts struct{ agent.PortAllocator }

func (noPorts) ForgetAgent(string) {}

// asNobody runs git as the owner of the worktrees.
func asNobody(t require.TestingT, dir string, args ...string) string {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	cred, err := git.Credential(nobody, nobody)
	require.NoError(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

func newOnlyHere(t *testing.T) *onlyHere {
	t.Helper()
	need.Root(t)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	project := filepath.Join(dir, "src")
	require.NoError(t, os.Mkdir(project, 0o755))
	require.NoError(t, os.Chown(project, nobody, nobody))
	asNobody(t, project, "init", "-q", "-b", "main")
	asNobody(t, project, "commit", "-q", "--allow-empty", "-m", "first")
	ws := filepath.Join(dir, "ws")
	info, err := worktree.Up(t.Context(), worktree.Spec{Workspace: ws, Repo: project, UID: nobody, GID: nobody})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(filepath.Join(ws, ".polis", "worktrees"), 0o711), "the test is the agents, too")
	types, err := config.LoadTypes("/nonexistent", config.Sandbox{})
	require.NoError(t, err)
	h := &onlyHere{root: layout.Workspace(ws), info: info, types: types, shims: &notedShims{status: map[string]*wire.Status{}}, queue: &notedQueue{waits: map[string]bool{}}}
	h.begin(t)
	return h
}

// begin starts a daemon on what the last one left.
func (h *onlyHere) begin(t require.TestingT) {
	log := slog.New(slog.DiscardHandler)
	d := &Daemon{Log: log, workspaces: map[string]*workspace{}, liveConfig: config.Default(), shims: &launch.Shims{Deps: launch.Deps{Run: layout.Run(filepath.Join(string(h.root), "run")), Log: log}}}
	h.w = &workspace{d: d, root: h.root, integrity: &maintain.Record{}, git: worktree.Open(worktree.Config{Workspace: string(h.root), UID: nobody, GID: nobody})}
	h.w.filter = filtered.New(h.w.git.Bare(), h.w.git.Internal(), h.root.Filtered(), log)
	d.workspaces["w"] = h.w
	h.m = &agent.Manager{Config: config.Default(), Types: func() (map[string]config.BaseType, error) { return h.types, nil },
		Type:      func(name string) (config.BaseType, bool, error) { typ, ok := h.types[name]; return typ, ok, nil },
		Resources: []agent.Resource{worktrees{d}}, Shims: h.shims, Locks: noLocks{}, Ports: noPorts{}, State: &h.saved, Events: events.New(0), Log: log, Now: time.Now}
	d.agents = h.m
	h.m.Open(context.Background())
	h.w.agents = h.m.AddWorkspace(&agent.Workspace{Name: "w", Root: h.root, Project: h.info.ProjectPath, Git: true, Target: h.info.Target, UID: nobody, GID: nobody, Repo: repo{h.w}, Queue: h.queue})
	list, err := h.w.git.List()
	require.NoError(t, err)
	trees := []agent.Tree{}
	for _, tree := range list {
		trees = append(trees, agent.Tree{Name: tree.Agent, Broken: tree.Broken, Missing: tree.Missing()})
	}
	rep := &agent.Report{}
	h.m.Restore(context.Background(), h.w.agents, slices.Clone(h.saved.agents), trees, rep)
	require.Empty(t, rep.Errors)
}

func (h *onlyHere) tree(name string) string { return h.root.Worktree(name) }

func (h *onlyHere) there(name string) bool {
	return slices.ContainsFunc(h.m.List(context.Background(), ""), func(a api.Agent) bool { return a.Name == name })
}

func (h *onlyHere) created(name string) time.Time {
	a, err := h.m.ObserveAgent(context.Background(), name)
	if err != nil {
		return time.Time{}
	}
	return a.Created
}

// write has the agent make a file; it is only in its worktree.
func (h *onlyHere) write(t require.TestingT, name, file string) {
	path := filepath.Join(h.tree(name), file)
	require.NoError(t, os.WriteFile(path, []byte(file), 0o644))
	require.NoError(t, os.Chown(path, nobody, nobody))
}

// stash puts everything that is in no commit into the agent's own stash, as the view of its git
// directory does. It reports whether there was anything.
func (h *onlyHere) stash(t require.TestingT, name string) bool {
	private := filepath.Join(h.root.Private(name), "refs", "stash")
	if _, err := os.Stat(private); err == nil {
		return false // one is enough
	}
	asNobody(t, h.tree(name), "add", "-A")
	oid := asNobody(t, h.tree(name), "stash", "create")
	if oid == "" {
		return false
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(private), 0o755))
	require.NoError(t, os.WriteFile(private, []byte(oid+"\n"), 0o644))
	asNobody(t, h.tree(name), "reset", "-q", "--hard")
	return true
}

// land merges the branch of an agent into the target, as far as it has commits.
func (h *onlyHere) land(t require.TestingT, name string) {
	h.queue.waits[name] = false
	bare, branch := h.root.Bare(), "refs/heads/agent/"+name
	if asNobody(t, bare, "rev-list", "--count", "refs/heads/main.."+branch) != "0" {
		tree := asNobody(t, bare, "merge-tree", "--write-tree", "refs/heads/main", branch)
		commit := asNobody(t, bare, "commit-tree", tree, "-p", "refs/heads/main", "-p", branch, "-m", "merge")
		asNobody(t, bare, "update-ref", "refs/heads/main", commit)
	}
	_, err := h.m.Landed(context.Background(), api.QueueEntry{Agent: name, By: "task", Tasks: []string{name + ".1"}, AddedAt: time.Now()}, api.QueueOutcome{MergeCommitSHA: "c"}, nil)
	require.NoError(t, err)
}

// onTarget are the files of the target's tree.
func (h *onlyHere) onTarget(t require.TestingT) []string {
	return strings.Fields(asNobody(t, h.root.Bare(), "ls-tree", "--name-only", "refs/heads/main"))
}

// of are the files that an agent has: in its worktree, its HEAD, its branch or its stash.
func (h *onlyHere) of(t require.TestingT, name string) []string {
	var out []string
	entries, err := os.ReadDir(h.tree(name))
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	from := []string{"HEAD", "refs/heads/agent/" + name}
	if b, err := os.ReadFile(filepath.Join(h.root.Private(name), "refs", "stash")); err == nil {
		from = append(from, strings.TrimSpace(string(b)))
	}
	for _, at := range from {
		out = append(out, strings.Fields(asNobody(t, h.tree(name), "ls-tree", "--name-only", at))...)
	}
	return out
}

// died is where a daemon dies.
type died struct{ step string }

// cleanUp has the patrol decide about an agent. The daemon dies at the given step, if there are so
// many; during is called at one step.
func (h *onlyHere) cleanUp(t require.TestingT, name string, dies int, step string, during func()) (at string) {
	s, _, over := h.m.WorkOver(context.Background(), name)
	if !over {
		return "not over"
	}
	n := 0
	h.m.Crash = func(now string) {
		if n++; now == step && during != nil {
			during()
			during = nil
		}
		if n == dies {
			panic(died{now})
		}
	}
	func() {
		defer func() {
			if r := recover(); r != nil {
				d, ok := r.(died)
				if !ok {
					panic(r)
				}
				at = d.step
			}
		}()
		_, _ = h.m.CleanUp(context.Background(), s, false) //nolint:errcheck // what it leaves is what counts
	}()
	h.m.Close()
	h.begin(t)
	return at
}
