package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/patrol/cleanup"
	"polis/daemon/shim/dial"
	"polis/daemon/store"
	"polis/daemon/store/events"
	"polis/daemon/store/layout"
)

// kernel is what the resources of these tests exist in: a set of names per
// kind. fail makes the next call of that name an error.
type kernel struct {
	asksSaid bool     // shims report a program that asks what was said
	files    []string // of the target branch
	// onRun, if set, is called for a command in a sandbox, and returns its output.
	onRun    func(command []string) string
	ranFor   string // the session of the last command in a sandbox
	mu       sync.Mutex
	things   map[string]map[string]bool
	running  map[string]bool
	fail     string
	dirty    map[string]bool
	commits  map[string]int
	saved    map[string]string
	received map[string][]string
	// task is what each shim works on, done what its agent reported of it,
	// exits how its command ended.
	task  map[string]string
	done  map[string]*wire.TaskDone
	exits map[string]int
	// settings are those a shim took last.
	settings wire.Settings
	// until is the deadline that the last removal of a shim had.
	until time.Time
	// version is that of the shims; 0 is this one's.
	version int
	// started is called for every command that is started, with whether its agent's shim was up.
	started func(name string, up bool)
	// frozen are the agents that are frozen, sessions the terminals that people have open in them;
	// freezing is called when one is frozen.
	frozen   map[string]bool
	sessions map[string]int
	freezing func(name string)
	family   []Relative // whose budget was asked for last
}

var errInjected = errors.New("injected")

func (k *kernel) op(name string, f func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail == name {
		k.fail = ""
		return errInjected
	}
	f()
	return nil
}

func (k *kernel) set(kind string) map[string]bool {
	if k.things[kind] == nil {
		k.things[kind] = map[string]bool{}
	}
	return k.things[kind]
}

type thing struct {
	k    *kernel
	kind string
}

func (t thing) Name() string { return t.kind }
func (t thing) Ensure(_ context.Context, a *Agent) error {
	return t.k.op("ensure "+t.kind, func() { t.k.set(t.kind)[a.Name()] = true })
}
func (t thing) Remove(_ context.Context, a *Agent) error {
	return t.k.op("remove "+t.kind, func() { delete(t.k.set(t.kind), a.Name()) })
}
func (t thing) List(context.Context) ([]string, error) {
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	return slices.Sorted(maps.Keys(t.k.set(t.kind))), nil
}

type fakeShims struct{ thing }

func (f fakeShims) Alive(_ context.Context, a *Agent) (bool, error) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	return f.k.set("shim")[a.Name()], nil
}
func (fakeShims) Spec(string) (wire.Spec, bool) { return wire.Spec{}, true }
func (fakeShims) Settings(a *Agent) wire.Settings {
	return wire.Settings{Policy: a.Kept.Policy, MemoryBytes: int64(a.Kept.MemoryLimitMB) << 20, Pids: int64(a.Kept.Limits.Pids)}
}
func (fakeShims) Note(*Agent, wire.Settings) error { return nil }
func (f fakeShims) RefreshHome(a *Agent) error {
	return f.k.op("refresh home of "+a.Name(), func() {})
}
func (fakeShims) Reason(*Agent) string                      { return "" }
func (fakeShims) SendModels(context.Context, *Agent) error  { return nil }
func (fakeShims) KeyRefused(string) bool                    { return false }
func (fakeShims) KeysExpired() <-chan struct{}              { return nil }
func (fakeShims) GrantModels(context.Context, *Agent) error { return nil }
func (fakeShims) RaiseModels(context.Context, string, string, string, float64) error {
	return nil
}
func (fakeShims) ModelPaused(string, string, time.Time) bool           { return false }
func (fakeShims) ModelTurns(string, []string) map[string]time.Duration { return nil }
func (f fakeShims) ModelsSpent(_ *Agent, family []Relative) string {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.k.family = family
	return ""
}
func (fakeShims) SaveCursor(string, uint64) error  { return nil }
func (fakeShims) LoadCursor(string) (uint64, bool) { return 0, false }
func (f fakeShims) Socket(name string) string      { return "/run/" + name }
func (f fakeShims) Dial(name string) Shim          { return fakeShim{f.k, name} }
func (f fakeShims) Remove(ctx context.Context, a *Agent) error {
	f.k.mu.Lock()
	f.k.until, _ = ctx.Deadline()
	delete(f.k.running, a.Name())
	f.k.mu.Unlock()
	return f.thing.Remove(ctx, a)
}

type fakeShim struct {
	k    *kernel
	name string
}

func (f fakeShim) Leftovers(context.Context, bool) (api.Leftovers, error) {
	return api.Leftovers{}, nil
}
func (f fakeShim) Approvals(context.Context) ([]api.Approval, error) { return nil, nil }
func (f fakeShim) Approval(context.Context, string) (api.Approval, error) {
	return api.Approval{}, nil
}
func (f fakeShim) Answer(context.Context, string, wire.AnswerRequest) (wire.Answered, error) {
	return wire.Answered{}, nil
}
func (f fakeShim) Steps(context.Context) (wire.Steps, error)        { return wire.Steps{}, nil }
func (f fakeShim) Screen(context.Context, int) (wire.Screen, error) { return wire.Screen{}, nil }
func (s fakeShim) Status(context.Context) (wire.Status, error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	st := wire.Status{Version: cmp.Or(s.k.version, wire.Version), MinVersion: 1, Running: s.k.running[s.name], Task: s.k.task[s.name], Done: s.k.done[s.name], Sessions: s.k.sessions[s.name], Said: s.k.asksSaid}
	if code, ok := s.k.exits[s.name]; ok && !st.Running {
		st.ExitCode = &code
	}
	return st, nil
}
func (s fakeShim) Start(_ context.Context, r wire.StartRequest) error {
	return s.k.op("start", func() {
		s.k.running[s.name], s.k.task[s.name] = true, r.Task
		delete(s.k.done, s.name)
		if s.k.started != nil {
			s.k.started(s.name, s.k.set("shim")[s.name])
		}
	})
}
func (s fakeShim) Input(_ context.Context, r wire.InputRequest) error {
	return s.k.op("input "+s.name, func() { s.k.received[s.name] = append(s.k.received[s.name], r.Text) })
}
func (fakeShim) PauseModel(context.Context, wire.PauseRequest) error { return nil }
func (fakeShim) Replayed(context.Context) (wire.Replayed, error)     { return wire.Replayed{}, nil }
func (fakeShim) StopMain(context.Context, time.Duration) error       { return nil }

func (s fakeShim) Freeze(context.Context, wire.FreezeRequest) error {
	return s.k.op("freeze", func() {
		if s.k.frozen == nil {
			s.k.frozen = map[string]bool{}
		}
		s.k.frozen[s.name] = true
		if s.k.freezing != nil {
			s.k.freezing(s.name)
		}
	})
}

func (s fakeShim) Thaw(context.Context, wire.ThawRequest) error {
	return s.k.op("thaw", func() { delete(s.k.frozen, s.name) })
}
func (s fakeShim) Set(_ context.Context, r wire.SettingsRequest) error {
	return s.k.op("set", func() { s.k.settings = r.Settings })
}
func (fakeShim) AddPort(context.Context, wire.PortRequest) error { return nil }
func (fakeShim) RemovePort(context.Context, string, int) error   { return nil }
func (fakeShim) Why(context.Context) ([]api.WhyEntry, error)     { return nil, nil }
func (fakeShim) Invalidate(context.Context) error                { return nil }
func (fakeShim) Changes(context.Context, wire.ChangesRequest) (wire.Changes, error) {
	return wire.Changes{}, nil
}
func (fakeShim) Mount(_ context.Context, r wire.MountRequest) (wire.Mounted, error) {
	return wire.Mounted{ID: r.ID, At: r.At}, nil
}
func (fakeShim) Unmount(_ context.Context, id string, _ bool) (wire.Mounted, error) {
	return wire.Mounted{ID: id}, nil
}
func (s fakeShim) Remount(context.Context) (wire.Remounted, error)    { return wire.Remounted{}, nil }
func (s fakeShim) RestoreGate(context.Context) error                  { return nil }
func (s fakeShim) Blocked(context.Context, wire.BlockedRequest) error { return nil }

func (s fakeShim) ReleaseIdle(context.Context) error {
	return s.k.op("release idle leases of "+s.name, func() {})
}
func (s fakeShim) Run(_ context.Context, r wire.ExecRequest) (dial.Result, error) {
	s.k.ranFor = r.Session
	if s.k.onRun != nil {
		return dial.Result{Stdout: s.k.onRun(r.Command)}, nil
	}
	return dial.Result{}, nil
}
func (fakeShim) Close() {}
func (fakeShim) Events(ctx context.Context, _ uint64, _ func(api.Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

type fakeRepo struct{ k *kernel }

func (r fakeRepo) Status(_ context.Context, a *Agent) (WorktreeStatus, error) {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	if r.k.dirty[a.Name()] {
		return WorktreeStatus{Dirty: 1, Paths: []string{"f"}}, nil
	}
	return WorktreeStatus{}, nil
}
func (r fakeRepo) Save(_ context.Context, a *Agent, _ bool) (Saved, error) {
	ref := ""
	err := r.k.op("save", func() {
		if r.k.dirty[a.Name()] {
			ref = "refs/polis/trash/" + a.Name()
			delete(r.k.dirty, a.Name())
			r.k.saved[a.Name()] += ref
		}
	})
	return Saved{Ref: ref, Head: "head"}, err
}
func (r fakeRepo) Settle(context.Context, *Agent) error { return nil }

func (r fakeRepo) Measure(ctx context.Context, a *Agent) cleanup.Measured {
	w, err := r.Since(ctx, a, "")
	return cleanup.Measured{Uncommitted: w.Dirty, Unmerged: w.Commits, Target: "main", Err: err}
}
func (fakeRepo) Head(context.Context, *Agent) (string, error) { return "base", nil }
func (r fakeRepo) TargetFiles(_ context.Context, each func(path string) error) error {
	for _, path := range r.k.files {
		if err := each(path); err != nil {
			return err
		}
	}
	return nil
}
func (fakeRepo) Refresh(context.Context, *Agent) (bool, error) { return false, nil }

func (fakeRepo) OwnersCone(context.Context) (*api.Sparse, string) {
	return &api.Sparse{Directories: []string{"owners"}}, ""
}
func (fakeRepo) MissingDirs(_ context.Context, dirs []string) (out []string, err error) {
	for _, dir := range dirs {
		if strings.HasPrefix(dir, "missing") {
			out = append(out, dir)
		}
	}
	return out, nil
}
func (fakeRepo) Cone(_ context.Context, a *Agent) *api.Sparse  { return a.Kept.Sparse.Clone() }
func (fakeRepo) FoundCone(context.Context, string) *api.Sparse { return nil }
func (fakeRepo) HasBranch(_ context.Context, branch string) (bool, error) {
	return branch == "taken", nil
}
func (fakeRepo) Forward(context.Context, *Agent) (Forwarded, error) {
	return Forwarded{From: "base", To: "base"}, nil
}
func (r fakeRepo) Since(_ context.Context, a *Agent, base string) (Work, error) {
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	w := Work{Head: "head", Commits: r.k.commits[a.Name()]}
	if r.k.dirty[a.Name()] {
		w.Dirty = 1
	}
	return w, nil
}
func (fakeRepo) DropBranch(context.Context, *Agent, string) error { return nil }
func (r fakeRepo) Restore(_ context.Context, a *Agent, _ Saved) error {
	return r.k.op("restore", func() { r.k.dirty[a.Name()] = true })
}
func (r fakeRepo) Snapshot(_ context.Context, a *Agent, _ string, _ bool) (Snapshot, error) {
	ref := "refs/polis/trash/" + a.Name() + "/now"
	return Snapshot{Ref: ref, Head: "head"}, r.k.op("snapshot", func() { r.k.set("snapshots")[ref] = true })
}
func (r fakeRepo) DropSnapshot(_ context.Context, _, ref string) error {
	return r.k.op("drop snapshot", func() { delete(r.k.set("snapshots"), ref) })
}
func (fakeRepo) Newest(context.Context, string) (Saved, string, error) { return Saved{}, "", nil }
func (fakeRepo) ToSign(context.Context, *Agent, api.MergeRequest) (api.ToSign, error) {
	return api.ToSign{}, nil
}

func (fakeRepo) StoreSigned(context.Context, *Agent, []byte) (string, error) { return "", nil }

func (fakeRepo) DryMerge(context.Context, *Agent) (Preview, error) {
	return Preview{Paths: []string{"f"}}, nil
}
func (r fakeRepo) Revert(_ context.Context, _ *Agent, commit string, dry bool) (Reverted, error) {
	out := Reverted{Commit: "back-" + commit, Later: 2}
	if dry {
		out.Commit = ""
	}
	return out, r.k.op("revert", func() {})
}
func (fakeRepo) Sync(context.Context) error                           { return nil }
func (fakeRepo) Tree(context.Context, *Agent, string) (string, error) { return "t", nil }
func (fakeRepo) DiffCommits(context.Context, *Agent, string, string, api.DiffRequest, io.Writer) error {
	return nil
}
func (fakeRepo) Diff(context.Context, *Agent, api.DiffRequest, io.Writer) error {
	return nil
}

// fakeQueue merges at once.
type fakeQueue struct {
	m *Manager
	k *kernel
}

func (q fakeQueue) Submit(e api.QueueEntry) (func(context.Context) (api.QueueOutcome, error), error) {
	return func(ctx context.Context) (api.QueueOutcome, error) {
		failed := q.k.op("merge", func() {})
		out, err := q.m.Landed(ctx, e, api.QueueOutcome{MergeCommitSHA: "c"}, failed)
		return out, errors.Join(failed, err)
	}, nil
}
func (q fakeQueue) Add(e api.QueueEntry) (api.QueueEntry, error) {
	return e, q.k.op("queue", func() { q.k.set("queue")[e.Agent] = true })
}
func (q fakeQueue) Remove(agent string) (bool, error) {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	was := q.k.set("queue")[agent]
	delete(q.k.set("queue"), agent)
	return was, nil
}

func (q fakeQueue) Waits(agent string) bool {
	q.k.mu.Lock()
	defer q.k.mu.Unlock()
	return q.k.set("queue")[agent]
}

func (q fakeQueue) Settled(context.Context, string) error { return nil }

// halfDone is a queue whose merge of an agent is on the target and not recorded yet.
type halfDone struct {
	fakeQueue
	agent string
}

func (q halfDone) Settled(ctx context.Context, name string) error {
	if name != q.agent {
		return nil
	}
	_, err := q.m.Landed(ctx, api.QueueEntry{Agent: name}, api.QueueOutcome{MergeCommitSHA: "c"}, nil)
	return err
}

type memory struct {
	mu      sync.Mutex
	kept    []store.Agent
	removed []store.Removed
	drops   map[string]int
	fakePorts
}

func (m *memory) Save(_ string, a []store.Agent, removed []store.Removed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.removed = a, removed
	return nil
}
func (m *memory) DropAgent(n string)  { m.mu.Lock(); defer m.mu.Unlock(); m.drops[n]++ }
func (m *memory) ReleaseMerge(string) {}

type world struct {
	*Manager
	k   *kernel
	mem *memory
	dir string
}

func newWorld(dir string) *world {
	k := newKernel()
	return newLife(dir, k, &memory{fakePorts: newFakePorts(3001, 9999), drops: map[string]int{}})
}

func newKernel() *kernel {
	return &kernel{things: map[string]map[string]bool{}, running: map[string]bool{}, dirty: map[string]bool{}, commits: map[string]int{}, task: map[string]string{}, done: map[string]*wire.TaskDone{}, exits: map[string]int{}, received: map[string][]string{}, saved: map[string]string{}}
}

// newLife is a daemon's manager on what an earlier one left.
func newLife(dir string, k *kernel, mem *memory) *world {
	c := config.Default()
	c.MaxAgents = 4
	m := &Manager{Config: c, Types: func() (map[string]config.BaseType, error) { return config.LoadTypes("/nonexistent", config.Sandbox{}) },
		Type: func(name string) (config.BaseType, bool, error) {
			return config.LoadType("/nonexistent", config.Sandbox{}, name)
		},
		Resources: []Resource{thing{k, "worktree"}, thing{k, "network"}}, Shims: fakeShims{thing{k, "shim"}}, Locks: mem, Ports: mem, State: mem,
		Events: events.New(0), Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now}
	m.Open(context.Background())
	m.AddWorkspace(&Workspace{Name: "w", Root: layout.Workspace(dir), Project: "/p", Git: true, Target: "main", UID: 1000, GID: 1000, Repo: fakeRepo{k}, Queue: fakeQueue{m, k}})
	return &world{m, k, mem, dir}
}

// nothingLeft: what exists is exactly what the model says.
func (w *world) check(t require.TestingT, model map[string]api.Status) {
	names := slices.Sorted(maps.Keys(model))
	got := []string{}
	for _, a := range w.List(context.Background(), "") {
		got = append(got, a.Name)
		require.Equal(t, model[a.Name], a.Status, a.Name)
		require.NotEmpty(t, a.Branch)
		require.NotNil(t, a.PortMappings)
	}
	sort.Strings(names)
	require.ElementsMatch(t, names, got)
	require.Equal(t, model, w.Statuses(""))
	w.k.mu.Lock()
	defer w.k.mu.Unlock()
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(w.k.set("worktree"))))
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(w.k.set("network"))))
	for n, st := range model {
		require.Equal(t, st == api.StatusIdle || st == api.StatusRunning, w.k.set("shim")[n], "%s %s", n, st)
	}
	kept := map[string]bool{}
	for _, a := range w.mem.kept {
		kept[a.Name] = true
	}
	require.Len(t, kept, len(model))
}

// Feature: multi-agent-workspaces, Property 1: Agent Creation Completeness
// Feature: multi-agent-workspaces, Property 2: Agent Name Uniqueness
// Feature: multi-agent-workspaces, Property 3: Agent Listing Completeness
// Feature: multi-agent-workspaces, Property 4: Agent Removal Cleanup
// Feature: multi-agent-workspaces, Property 5: Non-Existent Agent Error
// Feature: multi-agent-workspaces, Property 24: Agent Auto-Start on Task
func TestLifecycleModel(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		ctx := context.Background()
		model := map[string]api.Status{}
		names := []string{"a1", "b1", "c1", "d1", "e1"}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			n := rapid.SampledFrom(names).Draw(t, "name")
			st, there := model[n]
			switch op := rapid.SampledFrom([]string{"add", "add failing", "remove", "force", "start", "stop", "run", "dirty", "get"}).Draw(t, "op"); op {
			case "add", "add failing":
				if op == "add failing" {
					w.k.fail = rapid.SampledFrom([]string{"ensure worktree", "ensure network", "ensure shim"}).Draw(t, "at")
				}
				a, err := w.Add(ctx, api.AddRequest{Name: n, BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}, Ports: []int{3000}})
				switch {
				case there:
					require.Equal(t, api.CodeAgentExists, api.CodeOf(err))
				case len(model) >= 4:
					require.Equal(t, api.CodeMaxAgents, api.CodeOf(err))
				case op == "add failing":
					require.ErrorIs(t, err, errInjected)
				default:
					require.NoError(t, err)
					require.Equal(t, "agent/"+n, a.Branch)
					model[n] = api.StatusIdle
				}
				w.k.fail = ""
			case "remove", "force":
				_, err := w.Remove(ctx, n, op == "force", false)
				switch {
				case !there:
					require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
				case op == "remove" && st == api.StatusRunning:
					require.Equal(t, api.CodeBadState, api.CodeOf(err))
				case op == "remove" && w.k.dirty[n]:
					require.Equal(t, api.CodeUnsavedWork, api.CodeOf(err))
				default:
					require.NoError(t, err)
					require.NotZero(t, w.mem.drops[n])
					delete(model, n)
				}
			case "start":
				_, err := w.Start(ctx, n, false)
				if there {
					require.NoError(t, err)
					model[n] = api.StatusRunning
				} else {
					require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
				}
			case "stop":
				_, err := w.Stop(ctx, n)
				if there {
					require.NoError(t, err)
					model[n] = api.StatusStopped
				} else {
					require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
				}
			case "run":
				_, err := w.Run(ctx, n, api.RunRequest{Prompt: "do it"})
				switch {
				case !there:
					require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
				case st == api.StatusRunning:
					require.Equal(t, api.CodeBadState, api.CodeOf(err))
				default:
					require.NoError(t, err)
					model[n] = api.StatusRunning
				}
			case "dirty":
				if there {
					w.k.dirty[n] = true
				}
			case "get":
				_, err := w.Get(ctx, n)
				require.Equal(t, there, err == nil)
			}
			w.check(t, model)
		}
	})
}

// Feature: multi-agent-workspaces, Property 25: Task Logging
func TestTasksAreLogged(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"echo"}}})
	require.NoError(t, err)
	before := time.Now().Add(-time.Second)
	for i, p := range []string{"first", "second\nline"} {
		_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: p})
		require.NoError(t, err)
		_, err = w.Stop(t.Context(), "a1")
		require.NoError(t, err)
		tasks, err := w.Tasks("a1")
		require.NoError(t, err)
		require.Len(t, tasks, i+1)
		require.Equal(t, p, tasks[i].Prompt)
		require.Equal(t, []string{"echo", p}, tasks[i].Command)
		require.True(t, tasks[i].Time.After(before))
	}
	for _, bad := range []string{"", "  ", "a\x00b"} {
		_, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: bad})
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
}

func TestAddRefusesBadRequests(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ok := api.AddRequest{Name: "a1", BaseType: "custom"}
	for name, c := range map[string]struct {
		change func(*api.AddRequest)
		code   api.Code
	}{
		"empty name":     {func(r *api.AddRequest) { r.Name = "" }, api.CodeInvalidName},
		"capital":        {func(r *api.AddRequest) { r.Name = "Abc" }, api.CodeInvalidName},
		"one letter":     {func(r *api.AddRequest) { r.Name = "a" }, api.CodeInvalidName},
		"path":           {func(r *api.AddRequest) { r.Name = "../x" }, api.CodeInvalidName},
		"newline":        {func(r *api.AddRequest) { r.Name = "ab\n" }, api.CodeInvalidName},
		"too long":       {func(r *api.AddRequest) { r.Name = "a1234567890123456789012345678901" }, api.CodeInvalidName},
		"no type":        {func(r *api.AddRequest) { r.BaseType = "" }, api.CodeAgentTypeUnavailable},
		"unknown type":   {func(r *api.AddRequest) { r.BaseType = "hal" }, api.CodeAgentTypeUnavailable},
		"unknown role":   {func(r *api.AddRequest) { r.Role = "king" }, api.CodeBadRequest},
		"workspace":      {func(r *api.AddRequest) { r.Workspace = "other" }, api.CodeWorkspaceNotFound},
		"memory":         {func(r *api.AddRequest) { r.MemoryMB = -5 }, api.CodeBadRequest},
		"port":           {func(r *api.AddRequest) { r.Ports = []int{70000} }, api.CodeBadRequest},
		"NUL in command": {func(r *api.AddRequest) { r.Command = []string{"a\x00"} }, api.CodeBadRequest},
		"empty program":  {func(r *api.AddRequest) { r.Command = []string{""} }, api.CodeBadRequest},
		"empty rule":     {func(r *api.AddRequest) { r.Policy = &api.Policy{Read: []string{""}} }, api.CodeBadRequest},
		"long branch":    {func(r *api.AddRequest) { r.Branch = string(make([]byte, 300)) }, api.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			req := ok
			c.change(&req)
			_, err := w.Add(t.Context(), req)
			require.Equal(t, c.code, api.CodeOf(err), "%v", err)
			w.check(t, map[string]api.Status{})
		})
	}
}

func trees(names ...string) []Tree {
	var out []Tree
	for _, n := range names {
		out = append(out, Tree{Name: n})
	}
	return out
}

func TestRestoreHealsAndKeeps(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	ws, err := w.Workspace("w")
	require.NoError(t, err)
	kept := []store.Agent{
		{Name: "idle", BaseType: "custom", Branch: "agent/idle", Status: api.StatusIdle},
		{Name: "stopped", BaseType: "custom", Branch: "agent/stopped", Status: api.StatusStopped},
		{Name: "half", BaseType: "custom", Branch: "agent/half", Status: api.StatusCreating},
		{Name: "lost", BaseType: "custom", Branch: "agent/lost", Status: api.StatusIdle},
		{Name: "was-running", BaseType: "custom", Branch: "agent/was-running", Status: api.StatusRunning},
	}
	for _, n := range []string{"idle", "stopped", "half", "was-running", "stranger"} {
		w.k.set("worktree")[n] = true
		w.k.set("network")[n] = true
	}
	w.k.set("network")["unknown"] = true
	rep := &Report{}
	w.Restore(t.Context(), ws, kept, trees("idle", "stopped", "half", "was-running", "stranger"), rep)
	w.Sweep(t.Context(), rep)
	require.Empty(t, rep.Errors)
	require.Len(t, rep.Restored, 2)
	require.Len(t, rep.Dropped, 1)
	require.Len(t, rep.Found, 1)
	w.check(t, map[string]api.Status{"idle": api.StatusIdle, "stopped": api.StatusStopped, "was-running": api.StatusIdle, "stranger": api.StatusStopped})
}
